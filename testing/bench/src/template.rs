//! The objects of one graph, to be written again for other graphs by a client.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use api_types::annotations::CURRENT_WORKER_HASH;
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Client, ResourceExt,
    api::{Api, Patch, PatchParams, PostParams, ValidationDirective},
    core::{ApiResource, DynamicObject},
};
use serde_json::{Value, json};

use super::{
    audit::{Event, ObjectRef},
    progress::GraphId,
};

/// Graphs that are written at a time.
const CONNECTIONS: usize = 16;

/// Fields of the metadata that the creator sets.
const METADATA: [&str; 4] = ["name", "labels", "annotations", "ownerReferences"];
/// Fields of Services that the API server sets.
const ADDRESSES: [&str; 2] = ["clusterIP", "clusterIPs"];

/// Field manager of a client that applies.
const FIELD_MANAGER: &str = "bench";
/// Field manager of what such a client notes on an object that a user has written.
const NOTES_MANAGER: &str = "bench-notes";

/// Form of the requests that write objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteForm {
    /// Objects are created, and statuses merged.
    Create,
    /// Objects and statuses are applied, and what is noted on the graph by a request of its own, as an operator does
    /// it.
    Apply,
}

/// The objects, each after its owner.
#[derive(Debug)]
pub(super) struct Template {
    graph: GraphId,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    resource: ApiResource,
    uid: String,
    /// The object as it is created, as JSON.
    object: String,
    /// What an operator notes on an object of a user, as JSON: a part of `object`.
    notes: Option<String>,
    /// The status of a custom resource, as JSON.
    status: Option<String>,
}

impl Template {
    /// Reads what the users wrote in the namespace of a graph, by the audit log. No other graph may be there.
    pub(super) async fn read(client: &Client, events: &[Event], users: &[&str], graph: &GraphId) -> Result<Self> {
        let namespace = &graph.namespace;
        let written = events.iter().filter_map(|event| event.written(users));
        let written: BTreeSet<&ObjectRef> = written.filter(|object| object.namespace == *namespace).collect();
        let mut objects = Vec::new();
        for written in written.into_iter().filter(|object| !["events", "leases"].contains(&object.resource.as_str())) {
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource(written));
            if let Some(object) = api.get_opt(&written.name).await? {
                objects.push((resource(written), serde_json::to_value(object)?));
            }
        }
        Self::new(graph, objects)
    }

    fn new(graph: &GraphId, objects: Vec<(ApiResource, Value)>) -> Result<Self> {
        let uids: BTreeSet<String> = objects.iter().map(|(_, object)| uid(&object["metadata"])).collect();
        let mut rest = objects;
        let mut this = Self { graph: graph.clone(), entries: Vec::new() };
        while !rest.is_empty() {
            let made: BTreeSet<String> = this.entries.iter().map(|entry| entry.uid.clone()).collect();
            let waits = |object: &Value| {
                let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
                owners.map(uid).any(|owner| uids.contains(&owner) && !made.contains(&owner))
            };
            let (later, now): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(_, object)| waits(object));
            anyhow::ensure!(!now.is_empty(), "objects in {} own each other", graph.namespace);
            this.entries.extend(now.into_iter().map(|(resource, object)| Entry::new(resource, object)));
            rest = later;
        }
        Ok(this)
    }

    /// Requests that [`Self::write`] sends for one graph.
    pub(super) fn requests(&self, form: WriteForm) -> usize {
        let statuses = self.entries.iter().filter(|entry| entry.status.is_some()).count();
        let notes = self.entries.iter().filter(|entry| form == WriteForm::Apply && entry.notes.is_some()).count();
        self.entries.len() + statuses + notes
    }

    /// Writes the objects of graphs and their statuses.
    ///
    /// # Errors
    /// The API server rejects a request.
    pub(super) async fn write(&self, client: &Client, graphs: &[GraphId], form: WriteForm) -> Result<()> {
        let writes = stream::iter(graphs).map(|graph| self.write_one(client, graph, form));
        writes.buffer_unordered(CONNECTIONS).try_for_each(async |()| Ok(())).await
    }

    /// Writes the objects of a graph, then the statuses.
    async fn write_one(&self, client: &Client, graph: &GraphId, form: WriteForm) -> Result<()> {
        let namespace = &graph.namespace;
        let (mut uids, mut written) = (BTreeMap::new(), Vec::new());
        let apply = |manager| {
            PatchParams { field_validation: Some(ValidationDirective::Ignore), ..PatchParams::apply(manager) }.force()
        };
        let params = apply(FIELD_MANAGER);
        for entry in &self.entries {
            let mut object: DynamicObject = serde_json::from_str(&self.moved(&entry.object, graph, &uids))?;
            if form == WriteForm::Apply && entry.notes.is_some() {
                object.annotations_mut().remove(CURRENT_WORKER_HASH);
            }
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &entry.resource);
            let name = object.name_any();
            let created = match form {
                WriteForm::Create => api.create(&PostParams::default(), &object).await,
                WriteForm::Apply => api.patch(&name, &params, &Patch::Apply(&object)).await,
            };
            let created = created.with_context(|| format!("cannot create {name} in {namespace}"))?;
            uids.insert(entry.uid.as_str(), created.uid().unwrap_or_default());
            written.push((entry, api, object));
        }
        for (entry, api, object) in written {
            if let Some(notes) = entry.notes.as_ref().filter(|_| form == WriteForm::Apply) {
                let notes: Value = serde_json::from_str(&self.moved(notes, graph, &uids))?;
                let patched = api.patch(&object.name_any(), &apply(NOTES_MANAGER), &Patch::Apply(notes)).await;
                patched.with_context(|| format!("cannot annotate {} in {namespace}", object.name_any()))?;
            }
            let Some(status) = &entry.status else { continue };
            let status: Value = serde_json::from_str(&self.moved(status, graph, &uids))?;
            let name = object.name_any();
            let patched = match form {
                WriteForm::Create => {
                    let patch = Patch::Merge(json!({"status": status}));
                    api.patch_status(&name, &PatchParams::default(), &patch).await
                }
                WriteForm::Apply => {
                    let patch = Patch::Apply(json!({
                        "apiVersion": entry.resource.api_version,
                        "kind": object.types.map(|types| types.kind),
                        "metadata": {"name": name},
                        "status": status,
                    }));
                    api.patch_status(&name, &params, &patch).await
                }
            };
            patched.with_context(|| format!("cannot write the status of {name} in {namespace}"))?;
        }
        Ok(())
    }

    /// A text about one graph, about another one.
    fn moved(&self, text: &str, graph: &GraphId, uids: &BTreeMap<&str, String>) -> String {
        let text = text.replace(&self.graph.namespace, &graph.namespace).replace(&self.graph.name, &graph.name);
        uids.iter().fold(text, |text, (old, new)| text.replace(old, new))
    }
}

impl Entry {
    fn new(resource: ApiResource, mut object: Value) -> Self {
        let uid = uid(&object["metadata"]);
        let status = object.as_object_mut().and_then(|object| object.remove("status"));
        let status = status.filter(|_| resource.group == api_types::GROUP).map(|status| status.to_string());
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|key, _| METADATA.contains(&key.as_str()));
        }
        if let Some(spec) =
            object.get_mut("spec").and_then(Value::as_object_mut).filter(|_| resource.plural == "services")
        {
            spec.retain(|key, _| !ADDRESSES.contains(&key.as_str()));
        }
        let notes = object["metadata"]["annotations"].get(CURRENT_WORKER_HASH).map(|hash| {
            let annotations = json!({ CURRENT_WORKER_HASH: hash });
            let metadata = json!({"name": object["metadata"]["name"], "annotations": annotations});
            json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": metadata}).to_string()
        });
        Self { resource, uid, object: object.to_string(), notes, status }
    }
}

fn uid(of: &Value) -> String {
    of["uid"].as_str().unwrap_or_default().to_owned()
}

/// A resource as requests need it; the kind is in the object.
fn resource(object: &ObjectRef) -> ApiResource {
    let ObjectRef { api_group: group, api_version: version, resource: plural, .. } = object.clone();
    let api_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
    ApiResource { group, version, api_version, kind: String::new(), plural }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_come_after_their_owners_without_what_the_api_server_gave_them() {
        let of = |group: &str, plural: &str| ApiResource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            api_version: format!("{group}/v1"),
            kind: String::new(),
            plural: plural.to_owned(),
        };
        let service = json!({
            "metadata": {"name": "s", "namespace": "from", "uid": "2", "ownerReferences": [{"uid": "1"}, {"uid": "x"}]},
            "spec": {"clusterIP": "10.0.0.1", "ports": []},
            "status": {"loadBalancer": {}},
        });
        let annotations = json!({ CURRENT_WORKER_HASH: "h" });
        let graph = json!({
            "metadata": {"name": "chat-0", "uid": "1", "generation": 3, "annotations": annotations},
            "status": {"uid": "1"},
        });
        let from = GraphId { namespace: "from".to_owned(), name: "chat-0".to_owned() };
        let objects = vec![(of("", "services"), service), (of("nvidia.com", "graphs"), graph)];
        let template = Template::new(&from, objects).unwrap();
        assert_eq!(template.requests(WriteForm::Create), 3, "a Service has no status of ours");
        assert_eq!(template.requests(WriteForm::Apply), 4, "the annotation is a request of its own");
        let [graph, service] = template.entries.try_into().unwrap();
        let metadata = r#"{"annotations":{"nvidia.com/current-worker-hash":"h"},"name":"chat-0"}"#;
        assert_eq!(graph.object, format!(r#"{{"metadata":{metadata}}}"#));
        let notes = format!(r#"{{"apiVersion":null,"kind":null,"metadata":{metadata}}}"#);
        assert_eq!(graph.notes, Some(notes));
        assert_eq!(graph.status.as_deref(), Some(r#"{"uid":"1"}"#));
        let expected = r#"{"metadata":{"name":"s","ownerReferences":[{"uid":"1"},{"uid":"x"}]},"spec":{"ports":[]}}"#;
        assert_eq!(service.object, expected);
        let uids = BTreeMap::from([("1", "9".to_owned())]);
        let to = GraphId { namespace: "to".to_owned(), name: "chat-7".to_owned() };
        let moved = Template { graph: from, entries: vec![] }.moved(r#"chat-0.from, uid "1""#, &to, &uids);
        assert_eq!(moved, r#"chat-7.to, uid "9""#);
    }

    #[test]
    fn objects_that_own_each_other_are_an_error() {
        let owned = |uid: &str, owner: &str| json!({"metadata": {"uid": uid, "ownerReferences": [{"uid": owner}]}});
        let resource = resource(&ObjectRef::default());
        let objects = vec![(resource.clone(), owned("1", "2")), (resource, owned("2", "1"))];
        let graph = GraphId { namespace: "from".to_owned(), name: "chat-0".to_owned() };
        assert!(Template::new(&graph, objects).is_err());
    }
}

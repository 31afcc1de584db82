//! Namespaces of the Go operator, as the conformance kit has recorded them, made again on a control plane.

use std::{collections::BTreeMap, path::Path};

use api_types::conversion::{ApiVersion, convert};
use end_to_end::BoxError;
use kube::{
    Client, ResourceExt,
    api::{Api, DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind, TypeMeta},
};
use serde_json::{Value, json};

/// The Go operator's finalizer, on everything that it serves.
const FINALIZER: &str = "nvidia.com/finalizer";
/// Kinds that a namespace may hold and that are no part of what is taken over.
const LEFT_OUT: [&str; 1] = ["Secret"];
/// The kind of graphs.
const GRAPH: &str = "DynamoGraphDeployment";
/// Values that the recorded examples had in place of their variables.
const FILLED_IN: [(&str, &str); 5] = [
    (":my-tag", ":1.5.0"),
    (":<IMAGE_TAG>", ":1.5.0"),
    ("${DYNAMO_IMAGE}", "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.0"),
    ("${DYNAMO_VLLM_IMAGE}", "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.0"),
    ("${IMAGE}", "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.0"),
];

/// A recorded case.
pub struct Case {
    pub namespace: String,
    record: Value,
    /// The graphs as their user wrote them, in the storage version, with the notes of the Go operator.
    graphs: Vec<Value>,
}

impl Case {
    /// Reads a case as if it had been recorded in this namespace; without one, as it was.
    pub fn read(kit: &Path, mode: &str, name: &str, namespace: Option<&str>) -> Result<Self, BoxError> {
        let mut text = std::fs::read_to_string(kit.join("expected").join(mode).join(format!("{name}.json")))?;
        let recorded: Value = serde_json::from_str(&text)?;
        let there = recorded["namespace"].as_str().ok_or("no namespace")?;
        if let Some(here) = namespace {
            text = text.replace(there, here);
        }
        let namespace = namespace.unwrap_or(there).to_owned();
        let record: Value = serde_json::from_str(&text)?;
        let input = std::fs::read_to_string(kit.join("input").join(record["example"].as_str().ok_or("no example")?))?;
        let input = FILLED_IN.iter().fold(input, |input, (variable, value)| input.replace(variable, value));
        let options = serde_saphyr::options! { emit_comments: false };
        let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(&input, options)?;
        let mut case = Self { namespace, record, graphs: Vec::new() };
        for document in documents {
            if document["kind"] == GRAPH && case.was_served(&document) {
                let graph = case.noted(convert(document, ApiVersion::V1Beta1)?);
                case.graphs.push(graph);
            }
        }
        Ok(case)
    }

    /// A graph with what the Go operator leaves on it.
    fn noted(&self, mut graph: Value) -> Value {
        let metadata = |o: &Value, key: &str| o["metadata"]["labels"][key].as_str().map(str::to_owned);
        let of_graph = |o: &&Value| {
            metadata(o, "nvidia.com/dynamo-graph-deployment-name").as_deref() == graph["metadata"]["name"].as_str()
        };
        let mut suffixes = self.objects().filter(of_graph).filter_map(|o| metadata(o, "nvidia.com/dynamo-worker-hash"));
        if let Some(suffix) = suffixes.next() {
            graph["metadata"]["annotations"]["nvidia.com/current-worker-hash-v2"] = json!(suffix);
        }
        graph["metadata"]["namespace"] = json!(self.namespace);
        graph["metadata"]["finalizers"] = json!([FINALIZER]);
        graph["metadata"]["annotations"]["nvidia.com/dynamo-operator-origin-version"] = json!("1.5.0");
        graph
    }

    fn objects(&self) -> impl Iterator<Item = &Value> {
        self.record["objects"].as_array().into_iter().flatten()
    }

    fn recorded(&self, kind: &str, name: &str) -> Option<&Value> {
        let mut all = self.record["crs"].as_array().into_iter().flatten();
        all.find(|cr| cr["kind"] == *kind && cr["name"] == *name)
    }

    fn was_served(&self, graph: &Value) -> bool {
        let recorded = self.recorded(GRAPH, graph["metadata"]["name"].as_str().unwrap_or_default());
        recorded.is_some_and(|graph| graph["v1beta1"]["status"]["state"] != "failed")
    }

    /// Whether there are Deployments, all of graphs that a user wrote.
    pub fn has_deployments_of_graphs(&self) -> bool {
        let kinds = |kind: &str| self.objects().any(|o| o["kind"] == kind);
        let owners = self.objects().flat_map(|o| o["metadata"]["ownerReferences"].as_array().into_iter().flatten());
        let mut owners = owners.filter(|owner| owner["kind"].as_str().is_some_and(|kind| kind.starts_with("Dynamo")));
        let written = |owner: &Value| {
            let graph = self.graphs.iter().any(|graph| graph["metadata"]["name"] == owner["name"]);
            let made = self.objects().any(|o| o["kind"] == owner["kind"] && o["metadata"]["name"] == owner["name"]);
            made || (owner["kind"] == GRAPH && graph)
        };
        kinds("Deployment") && !kinds(GRAPH) && !kinds("Job") && owners.all(written)
    }

    fn status_of(&self, kind: &str, name: &str) -> Value {
        let mut status = self.recorded(kind, name).map(|cr| cr["v1beta1"]["status"].clone()).unwrap_or_default();
        for condition in status["conditions"].as_array_mut().into_iter().flatten() {
            condition["lastTransitionTime"] = json!("2026-01-01T00:00:00Z");
            condition["message"] = json!("");
        }
        status
    }

    /// Makes the objects of the case, owners first, each under the uid that its owner has here.
    pub async fn load(&self, client: &Client) -> Result<(), BoxError> {
        let mut uids = BTreeMap::new();
        let expected = self.objects().filter(|o| LEFT_OUT.iter().all(|kind| o["kind"] != *kind));
        let mut left: Vec<Value> = self.graphs.iter().chain(expected).cloned().collect();
        while !left.is_empty() {
            let before = left.len();
            let mut later = Vec::new();
            for mut object in left {
                let owners = object["metadata"]["ownerReferences"].as_array_mut();
                let known = owners.into_iter().flatten().all(|owner| match uids.get(&key(owner, &owner["name"])) {
                    Some(uid) => {
                        owner["uid"] = json!(uid);
                        true
                    }
                    None => false,
                });
                if known {
                    let uid = self.create(client, &object).await?;
                    uids.insert(key(&object, &object["metadata"]["name"]), uid);
                } else {
                    later.push(object);
                }
            }
            assert!(later.len() < before, "owners are missing of {later:?}");
            left = later;
        }
        Ok(())
    }

    async fn create(&self, client: &Client, object: &Value) -> Result<String, BoxError> {
        let mut object: DynamicObject = serde_json::from_value(object.clone())?;
        let TypeMeta { api_version, kind } = object.types.clone().ok_or("no kind")?;
        let resource =
            ApiResource::from_gvk(&GroupVersionKind::try_from(TypeMeta { api_version, kind: kind.clone() })?);
        if kind == "Service" && object.data["spec"]["clusterIP"] != "None" {
            // The API server chooses another one.
            let spec = object.data["spec"].as_object_mut().ok_or("no spec")?;
            ["clusterIP", "clusterIPs"].iter().for_each(|field| drop(spec.remove(*field)));
        }
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &self.namespace, &resource);
        let params = PostParams { field_manager: Some("manager".to_owned()), ..PostParams::default() };
        let made = api.create(&params, &object).await;
        let made = made.map_err(|e| {
            format!("{} of {}: {kind} {}: {e}", self.namespace, self.record["example"], object.name_any())
        })?;
        let status = self.status_of(&kind, &made.name_any());
        if kind.starts_with("Dynamo") && status.is_object() {
            let patch = Patch::Merge(json!({ "status": status }));
            api.patch_status(&made.name_any(), &PatchParams::default(), &patch).await?;
        }
        made.uid().ok_or_else(|| "no uid".into())
    }
}

fn key(object: &Value, name: &Value) -> String {
    format!("{}/{}", object["kind"], name)
}

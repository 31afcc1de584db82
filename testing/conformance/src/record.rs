//! The record of a case: what was applied, what came out, and the status of the custom resources, without what differs
//! from one run to the next. It has the form of the kit's expectations.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use api_types::GROUP;
use regex::Regex;
use serde_json::{Map, Value, json};

use super::{conformance_kit::Case, server::Resource};

/// Kinds that Kubernetes makes by itself.
const NOT_GENERATED: [&str; 10] = [
    "Event",
    "Endpoints",
    "EndpointSlice",
    "Pod",
    "ReplicaSet",
    "Lease",
    "ControllerRevision",
    "PodMetrics",
    "Binding",
    "LocalSubjectAccessReview",
];
const SERVER_METADATA: [&str; 8] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "generation",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const REFERENCE_HASH: &str = "nvidia.com/last-applied-hash";

static TIMESTAMP: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$").ok());

/// Kind and name.
pub(super) type Id = (String, String);

/// Whether objects of this resource are part of a record.
pub(super) fn is_recorded(resource: &Resource) -> bool {
    resource.namespaced && resource.listable && resource.preferred && !NOT_GENERATED.contains(&resource.kind.as_str())
}

/// Whether this is a resource of ours, whose status is part of a record in each served version.
pub(super) fn is_custom(resource: &Resource) -> bool {
    resource.group() == GROUP && resource.kind.starts_with("Dynamo") && resource.kind != "DynamoWorkerMetadata"
}

/// Answers of the API server to the documents of a case.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// One outcome for each document.
    pub(super) outcomes: Vec<Value>,
    /// Prerequisites that were created.
    pub(super) prerequisites: Vec<Value>,
    /// YAML error of the input.
    pub(super) parse_error: Option<String>,
    pub(super) hardware_filled_in: bool,
    /// The objects that were made.
    pub(super) made: BTreeSet<Id>,
}

/// Content of one namespace at one time.
#[derive(Debug, Default, Clone)]
pub(super) struct Snapshot {
    pub(super) objects: Vec<Value>,
    /// The custom resources by version.
    pub(super) customs: BTreeMap<Id, BTreeMap<String, Value>>,
}

/// Course of the recording.
#[derive(Debug, Clone, Copy)]
pub(super) struct Course {
    pub(super) quiet_after_apply: bool,
    pub(super) quiet_after_ready: bool,
    pub(super) ready_rounds: usize,
}

/// Kind and name of an object.
pub(super) fn id(object: &Value) -> Id {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("/kind"), text("/metadata/name"))
}

/// The record of a case from before and after its workloads became ready.
pub(super) fn record(
    case: &Case,
    mode: &str,
    applied: &Applied,
    pending: &Snapshot,
    last: &Snapshot,
    course: Course,
) -> Value {
    let kept = last.objects.iter().filter(|object| is_output(&id(object), applied));
    let mut objects: Vec<_> = kept.map(|object| without_status(normal(object))).collect();
    objects.sort_by_key(id);
    let before: BTreeMap<_, _> =
        pending.objects.iter().map(|object| (id(object), without_status(normal(object)))).collect();
    let changed = objects.iter().filter(|object| before.get(&id(object)) != Some(object)).map(id);
    let changed: Vec<_> = changed.map(|(kind, name)| format!("{kind}/{name}")).collect();
    let customs: Vec<_> = last.customs.iter().map(|(id, versions)| custom(id, versions, applied, pending)).collect();
    let mut record = json!({
        "example": case.example,
        "namespace": case.namespace(),
        "mode": mode,
        "applied": applied.outcomes,
        "objects": objects,
        "crs": customs,
        "quiet": {
            "afterApply": course.quiet_after_apply,
            "afterReady": course.quiet_after_ready,
            "readyRounds": course.ready_rounds,
        },
    });
    let mut add = |name: &str, value: Option<Value>| {
        if let (Some(value), Some(record)) = (value, record.as_object_mut()) {
            record.insert(name.to_owned(), value);
        }
    };
    add("parseError", applied.parse_error.clone().map(Value::from));
    add("hardwareFilledIn", applied.hardware_filled_in.then(|| true.into()));
    add("prerequisites", (!applied.prerequisites.is_empty()).then(|| applied.prerequisites.clone().into()));
    add("changedBetweenPendingAndReady", (!changed.is_empty()).then(|| changed.into()));
    name_uids(&record, &last.objects)
}

/// Whether the operator made it: neither Kubernetes, nor the input, nor the play of its profiler.
fn is_output(id: &Id, applied: &Applied) -> bool {
    let (kind, name) = (id.0.as_str(), id.1.as_str());
    let by_kubernetes = matches!((kind, name), ("ServiceAccount", "default") | ("ConfigMap", "kube-root-ca.crt"));
    let by_profiler = kind == "ConfigMap" && name.starts_with("dgdr-output-");
    !(by_kubernetes || by_profiler || applied.made.contains(id))
}

fn custom(id: &Id, versions: &BTreeMap<String, Value>, applied: &Applied, pending: &Snapshot) -> Value {
    let mut entry = Map::new();
    entry.insert("kind".to_owned(), id.0.clone().into());
    entry.insert("name".to_owned(), id.1.clone().into());
    entry.insert("applied".to_owned(), applied.made.contains(id).into());
    for (version, object) in versions {
        let mut object = normal(object);
        if let Some(fields) = object.as_object_mut() {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        entry.insert(version.clone(), object);
    }
    let before = pending.customs.get(id);
    let before = before.and_then(|versions| versions.get("v1beta1").or_else(|| versions.values().next()));
    let status = before.and_then(|object| object.get("status")).cloned().unwrap_or_else(|| json!({}));
    entry.insert("statusPending".to_owned(), scrub(status));
    entry.into()
}

/// Writes kind and name in place of the UIDs of the objects, wherever they are.
fn name_uids(record: &Value, objects: &[Value]) -> Value {
    let mut text = record.to_string();
    for object in objects {
        if let Some(uid) = object.pointer("/metadata/uid").and_then(Value::as_str) {
            let (kind, name) = id(object);
            text = text.replace(uid, &format!("<uid:{kind}/{name}>"));
        }
    }
    serde_json::from_str(&text).unwrap_or_else(|_| record.clone())
}

fn without_status(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    object
}

/// An object without what the API server alone sets.
fn normal(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        SERVER_METADATA.iter().for_each(|field| drop(metadata.remove(*field)));
        let owners = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten();
        owners.filter_map(Value::as_object_mut).for_each(|owner| drop(owner.remove("uid")));
        let notes = metadata.get_mut("annotations").and_then(Value::as_object_mut);
        let none_left = notes.is_none_or(|notes| {
            notes.remove(LAST_APPLIED);
            notes.is_empty()
        });
        if none_left {
            metadata.remove("annotations");
        }
    }
    match object.get("kind").and_then(Value::as_str) {
        Some("Service") => hide_allocations(&mut object),
        Some("Job") => {
            if let Some(hash) =
                object.pointer_mut("/metadata/annotations").and_then(|notes| notes.get_mut(REFERENCE_HASH))
            {
                *hash = json!("<hash over a uid>");
            }
        }
        Some("Secret") => {
            let data = object.get_mut("data").and_then(Value::as_object_mut).into_iter().flatten();
            data.for_each(|(_, value)| *value = json!(if value == "" { "<empty>" } else { "<data>" }));
        }
        _ => {}
    }
    scrub(object)
}

fn hide_allocations(service: &mut Value) {
    let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let address = spec.get("clusterIP").and_then(Value::as_str).unwrap_or_default();
    if !matches!(address, "" | "None") {
        spec.insert("clusterIP".to_owned(), json!("<allocated>"));
        spec.insert("clusterIPs".to_owned(), json!(["<allocated>"]));
    }
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
    let ports = ports.filter_map(|port| port.get_mut("nodePort")).filter(|port| port.as_u64().unwrap_or_default() > 0);
    ports.for_each(|port| *port = json!("<allocated>"));
}

/// A value without the fields that hold a point in time.
fn scrub(value: Value) -> Value {
    let is_time = |value: &Value| match (&*TIMESTAMP, value.as_str()) {
        (Some(regex), Some(text)) => regex.is_match(text),
        _ => false,
    };
    match value {
        Value::Object(fields) => Value::Object(
            fields.into_iter().filter(|(_, field)| !is_time(field)).map(|(key, field)| (key, scrub(field))).collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(scrub).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_api_server_sets_is_not_recorded() {
        let service = json!({
            "kind": "Service",
            "metadata": {
                "name": "web",
                "uid": "1",
                "creationTimestamp": "2026-01-02T03:04:05Z",
                "annotations": {LAST_APPLIED: "{}"},
                "ownerReferences": [{"name": "g", "uid": "2"}],
            },
            "spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 80, "nodePort": 30000}]},
            "status": {"conditions": [{"type": "Ready", "lastTransitionTime": "2026-01-02T03:04:05.123Z"}]},
        });
        let expected = json!({
            "kind": "Service",
            "metadata": {"name": "web", "ownerReferences": [{"name": "g"}]},
            "spec": {
                "clusterIP": "<allocated>",
                "clusterIPs": ["<allocated>"],
                "ports": [{"port": 80, "nodePort": "<allocated>"}],
            },
            "status": {"conditions": [{"type": "Ready"}]},
        });
        assert_eq!(normal(&service), expected);
    }

    #[test]
    fn headless_services_and_secrets_keep_what_matters() {
        let service = json!({"kind": "Service", "metadata": {}, "spec": {"clusterIP": "None", "clusterIPs": ["None"]}});
        assert_eq!(normal(&service), service);
        let secret = json!({"kind": "Secret", "metadata": {}, "data": {"a": "eA==", "b": ""}});
        assert_eq!(normal(&secret)["data"], json!({"a": "<data>", "b": "<empty>"}));
    }

    #[test]
    fn only_what_the_operator_made_is_output() {
        let made = BTreeSet::from([("Secret".to_owned(), "mine".to_owned())]);
        let applied = Applied { made, ..Applied::default() };
        for (kind, name, output) in [
            ("ServiceAccount", "default", false),
            ("ServiceAccount", "web", true),
            ("ConfigMap", "kube-root-ca.crt", false),
            ("ConfigMap", "dgdr-output-x", false),
            ("Secret", "mine", false),
            ("Secret", "other", true),
        ] {
            assert_eq!(is_output(&(kind.to_owned(), name.to_owned()), &applied), output, "{kind}/{name}");
        }
    }

    #[test]
    fn uids_become_names() {
        let objects = [json!({"kind": "Graph", "metadata": {"name": "g", "uid": "123"}})];
        assert_eq!(name_uids(&json!({"ref": "x-123"}), &objects), json!({"ref": "x-<uid:Graph/g>"}));
    }
}

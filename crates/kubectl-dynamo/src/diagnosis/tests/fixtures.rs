//! A graph that comes up, and what can be observed of it.

use api_types::conditions::{READY, RECONCILING, STALLED};
use k8s_openapi::{
    api::core::v1::{Pod, Taint},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use serde_json::{Value, json};

use crate::diagnosis::{DiagnosisInputs, NamespaceWarning, NodeFacts, ObservedWorkload, Subject};

/// The time of all tests.
pub const NOW: &str = "2026-01-01T01:00:00Z";
/// The pod that faults are about.
pub const POD: &str = "chat-decode-a";
/// Its component.
pub const COMPONENT: &str = "chat-decode-1a2b3c4d";

/// A condition.
pub fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Condition {
    serde_json::from_value(json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:30:00Z", "observedGeneration": 2,
    }))
    .unwrap()
}

fn meta(name: &str) -> Value {
    json!({ "name": name, "namespace": "team", "generation": 2, "creationTimestamp": "2026-01-01T00:00:00Z" })
}

fn pod(name: &str, component: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "team", "labels": { "nvidia.com/selector": component } },
        "spec": {
            "nodeName": "node-1",
            "imagePullSecrets": [{ "name": "registry" }],
            "initContainers": [{ "name": "copy", "image": "r/copy:1" }],
            "containers": [{
                "name": "main", "image": "r/engine:1",
                "resources": { "limits": { "memory": "8Gi", "nvidia.com/gpu": "4" } },
                "env": [
                    { "name": "HF_TOKEN", "valueFrom": { "secretKeyRef": { "name": "hf-token", "key": "token" } } },
                ],
            }],
            "volumes": [
                { "name": "models", "persistentVolumeClaim": { "claimName": "models" } },
                { "name": "config", "configMap": { "name": "engine-config" } },
            ],
        },
        "status": {
            "phase": "Running",
            "conditions": [{ "type": "Ready", "status": "True" }],
            "containerStatuses": [{
                "name": "main", "image": "r/engine:1", "imageID": "", "ready": true, "restartCount": 0,
                "state": { "running": { "startedAt": "2026-01-01T00:10:00Z" } },
            }],
        },
    }))
    .unwrap()
}

fn workload(component: &str) -> ObservedWorkload {
    ObservedWorkload {
        kind: "Deployment".to_owned(),
        name: component.to_owned(),
        component: Some(component.to_owned()),
        desired: 1,
        ..ObservedWorkload::default()
    }
}

/// A graph with two components whose status says that it comes up, and whose pods are ready.
pub fn graph() -> DiagnosisInputs {
    let graph = serde_json::from_value(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": meta("chat"),
        "spec": { "components": [
            { "name": "Frontend", "type": "frontend" }, { "name": "decode", "type": "decode" },
        ] },
        "status": { "state": "pending", "observedGeneration": 2 },
    }))
    .unwrap();
    let component = |name: &str, component: &str| {
        serde_json::from_value(json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoComponentDeployment", "metadata": meta(name),
            "spec": { "name": component }, "status": { "observedGeneration": 2 },
        }))
        .unwrap()
    };
    let mut root = Subject::of_graph(&graph);
    root.conditions = vec![
        condition(READY, "False", "some_resources_are_not_ready", "Resources not ready: chat-decode-1a2b3c4d"),
        condition(RECONCILING, "True", "Progressing", "Resources not ready: chat-decode-1a2b3c4d"),
        condition(STALLED, "False", "NotStalled", ""),
    ];
    DiagnosisInputs {
        root,
        graph: Some(graph),
        components: vec![component("chat-frontend", "Frontend"), component(COMPONENT, "decode")],
        workloads: vec![workload("chat-frontend"), workload(COMPONENT)],
        pods: vec![pod("chat-frontend-a", "chat-frontend"), pod(POD, COMPONENT)],
        ..DiagnosisInputs::default()
    }
}

fn container(observed: &mut DiagnosisInputs, list: &str, name: &str, state: Value) {
    let mut status = json!({ "name": name, "image": "r/engine:1", "imageID": "", "ready": false, "restartCount": 3 });
    status.as_object_mut().unwrap().extend(state.as_object().unwrap().clone());
    let mut whole = json!({ "phase": "Pending", "conditions": [{ "type": "Ready", "status": "False" }] });
    whole[list] = json!([status]);
    observed.pods[1].status = serde_json::from_value(whole).unwrap();
}

/// The main container waits.
pub fn waiting(observed: &mut DiagnosisInputs, reason: &str, message: &str) {
    let state = json!({ "state": { "waiting": { "reason": reason, "message": message } } });
    container(observed, "containerStatuses", "main", state);
}

/// An image of the main container cannot be pulled.
pub fn image(observed: &mut DiagnosisInputs, message: &str) {
    waiting(observed, "ImagePullBackOff", &format!("Back-off pulling image \"r/engine:1\": ErrImagePull: {message}"));
}

/// The main container ended and is started again.
pub fn ended(observed: &mut DiagnosisInputs, terminated: Value) {
    let state =
        json!({ "state": { "waiting": { "reason": "CrashLoopBackOff" } }, "lastState": { "terminated": terminated } });
    container(observed, "containerStatuses", "main", state);
}

/// The init container ended and is started again.
pub fn init_ended(observed: &mut DiagnosisInputs, terminated: Value) {
    let state =
        json!({ "state": { "waiting": { "reason": "CrashLoopBackOff" } }, "lastState": { "terminated": terminated } });
    container(observed, "initContainerStatuses", "copy", state);
}

/// The main container runs and is not ready.
pub fn running(observed: &mut DiagnosisInputs, started: bool) {
    let state = json!({ "state": { "running": { "startedAt": "2026-01-01T00:10:00Z" } }, "started": started });
    container(observed, "containerStatuses", "main", state);
}

/// The scheduler finds no node.
pub fn unschedulable(observed: &mut DiagnosisInputs, message: &str) {
    let condition = json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message });
    observed.pods[1].status = serde_json::from_value(json!({ "phase": "Pending", "conditions": [condition] })).unwrap();
}

/// The pod ended for good.
pub fn failed(observed: &mut DiagnosisInputs, reason: &str, message: &str) {
    let status = json!({ "phase": "Failed", "reason": reason, "message": message });
    observed.pods[1].status = serde_json::from_value(status).unwrap();
}

/// A warning about an object.
pub fn warn(observed: &mut DiagnosisInputs, kind: &str, name: &str, reason: &str, message: &str) {
    observed.warnings.push(NamespaceWarning {
        kind: kind.to_owned(),
        name: name.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        count: 7,
        last: None,
    });
}

/// The last line of the log of the main container.
pub fn log(observed: &mut DiagnosisInputs, line: &str) {
    observed.logs.insert((POD.to_owned(), "main".to_owned()), line.to_owned());
}

/// Sets a condition of the graph.
pub fn on_root(observed: &mut DiagnosisInputs, type_: &str, status: &str, reason: &str, message: &str) {
    let all = &mut observed.root.conditions;
    all.retain(|one| one.type_ != type_);
    all.push(condition(type_, status, reason, message));
}

/// The graph is stalled.
pub fn stalled(observed: &mut DiagnosisInputs, reason: &str, message: &str) {
    on_root(observed, STALLED, "True", reason, message);
}

/// Sets a condition of the decode component.
pub fn on_component(observed: &mut DiagnosisInputs, type_: &str, status: &str, reason: &str, message: &str) {
    let component = &mut observed.components[1];
    component.status.get_or_insert_default().conditions.push(condition(type_, status, reason, message));
}

/// Pods of the decode component are rejected.
pub fn rejected(observed: &mut DiagnosisInputs, message: &str) {
    observed.pods.truncate(1);
    observed.workloads[1].failures = vec![message.to_owned()];
}

/// A node, its label `pool`, the key of its taint, and whether it is cordoned.
pub fn node(observed: &mut DiagnosisInputs, pool: &str, taint: &str, cordoned: bool) {
    let nodes = observed.nodes.get_or_insert_default();
    let taint = Taint { key: taint.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    nodes.push(NodeFacts {
        name: format!("node-{}", nodes.len() + 1),
        labels: [("pool".to_owned(), pool.to_owned())].into(),
        taints: if taint.key.is_empty() { Vec::new() } else { vec![taint] },
        cordoned,
        ..NodeFacts::default()
    });
}

/// The pod selects nodes of a pool.
pub fn select(observed: &mut DiagnosisInputs, pool: &str) {
    observed.pods[1].spec.as_mut().unwrap().node_selector = Some([("pool".to_owned(), pool.to_owned())].into());
}

//! Faults of the operator, and what is under way.

use serde_json::json;

use super::{Row, fixtures::condition, row};
use crate::diagnosis::{DiagnosisInputs, InstallMarker, Program, Subject};

const GRAPH: &str = "DynamoGraphDeployment/chat";

fn program(observed: &mut DiagnosisInputs, ready: i32) {
    observed.programs = Some(vec![Program {
        name: "graph-controller".to_owned(),
        namespace: "dynamo-system".to_owned(),
        ready,
        desired: 1,
        ..Program::default()
    }]);
}

fn unobserved(observed: &mut DiagnosisInputs) {
    observed.root.observed_generation = Some(-1);
}

fn status(observed: &mut DiagnosisInputs, status: serde_json::Value) {
    let graph = observed.graph.as_mut().unwrap();
    graph.status = serde_json::from_value(status).unwrap();
}

/// The operator does not act.
pub fn operator() -> Vec<Row> {
    vec![
        row(
            "operator does not run",
            |o| {
                unobserved(o);
                program(o, 0);
            },
            "OperatorDown",
            GRAPH,
            "component=graph-controller",
        ),
        row(
            "operator not installed",
            |o| {
                unobserved(o);
                o.programs = Some(Vec::new());
            },
            "OperatorMissing",
            GRAPH,
            "chart",
        ),
        row(
            "operator does not act",
            |o| {
                unobserved(o);
                program(o, 1);
            },
            "Unobserved",
            GRAPH,
            "kubectl dynamo doctor",
        ),
        row(
            "operator stopped after a reconcile",
            |o| program(o, 0),
            "OperatorDown",
            GRAPH,
            "component=graph-controller",
        ),
        row(
            "fenced by a marker",
            |o| {
                unobserved(o);
                program(o, 1);
                o.marker = Some(InstallMarker {
                    holder: "namespace-restricted-operator-1.5.0".to_owned(),
                    renewed: Some("2026-01-01T00:59:50Z".parse().unwrap()),
                    seconds: 30,
                    ..InstallMarker::default()
                });
            },
            "Fenced",
            GRAPH,
            "restricted install",
        ),
        row(
            "component controller does not act",
            |o| o.components[1].metadata.generation = Some(3),
            "Unobserved",
            "DynamoComponentDeployment/chat-decode-1a2b3c4d",
            "component-controller",
        ),
        row(
            "operator of the namespace down",
            |o| {
                unobserved(o);
                program(o, 0);
                o.programs.as_mut().unwrap()[0].namespace = "team".to_owned();
                o.marker = Some(InstallMarker {
                    holder: "namespace-restricted-operator-1.5.0".to_owned(),
                    renewed: Some("2026-01-01T00:59:50Z".parse().unwrap()),
                    seconds: 30,
                    ..InstallMarker::default()
                });
            },
            "OperatorDown",
            GRAPH,
            "--namespace team",
        ),
    ]
}

/// Rows for deletions.
pub fn deletions() -> Vec<Row> {
    vec![
        row(
            "namespace terminating",
            |o| o.terminating = Some(vec!["example.com/keep in 1 resource".to_owned()]),
            "NamespaceTerminating",
            "Namespace/team",
            "another namespace",
        ),
        row(
            "deletion waits for a finalizer of another program",
            |o| {
                o.root.deleted = Some("2026-01-01T00:59:59Z".parse().unwrap());
                o.root.finalizers = vec!["example.com/keep".to_owned()];
            },
            "Deleted",
            GRAPH,
            "removes example.com/keep",
        ),
        row(
            "deletion that has just begun",
            |o| {
                o.root.deleted = Some("2026-01-01T00:59:59Z".parse().unwrap());
                o.root.finalizers = vec!["foregroundDeletion".to_owned()];
            },
            "Deleted",
            GRAPH,
            "wait until it is gone",
        ),
        row(
            "deletion waits for a finalizer",
            |o| {
                o.root.deleted = Some("2026-01-01T00:50:00Z".parse().unwrap());
                o.root.finalizers = vec!["example.com/keep".to_owned()];
            },
            "Deleted",
            GRAPH,
            "example.com/keep",
        ),
    ]
}

/// Rows for operations in progress, and for other kinds than graphs.
pub fn progress() -> Vec<Row> {
    vec![
        row(
            "rollout in progress",
            |o| status(o, json!({ "state": "pending", "rollingUpdate": { "phase": "InProgress" } })),
            "RollingUpdate",
            GRAPH,
            "wait",
        ),
        row(
            "restart in progress",
            |o| {
                let restart = json!({ "observedID": "r1", "phase": "Restarting", "inProgress": ["decode"] });
                status(o, json!({ "state": "pending", "restart": restart }));
            },
            "Restart",
            GRAPH,
            "wait",
        ),
        row(
            "scaled to zero",
            |o| o.graph.as_mut().unwrap().spec.components[1].replicas = Some(0),
            "ScaledToZero",
            GRAPH,
            "kubectl dynamo scale",
        ),
        row("adapter failed to load", model, "LoadFailed", "DynamoModel/lora", "spec.source.uri"),
        row("no workers of the base model", no_workers, "NoServicesFound", "DynamoModel/lora", "modelRef.name"),
        row("capture failed", checkpoint, "PodSnapshotFailed", "DynamoCheckpoint/c", "snapshot-artifact-version"),
        row("profiler failed", request, "ProfilingFailed", "DynamoGraphDeploymentRequest/r", "log of the profiler"),
    ]
}

/// Another object than a graph.
fn other(observed: &mut DiagnosisInputs, kind: &str, name: &str, conditions: &[(&str, &str, &str, &str)]) {
    *observed = DiagnosisInputs {
        root: Subject {
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: "team".to_owned(),
            generation: Some(1),
            observed_generation: Some(1),
            conditions: conditions
                .iter()
                .map(|(type_, status, reason, text)| condition(type_, status, reason, text))
                .collect(),
            ..Subject::default()
        },
        ..DiagnosisInputs::default()
    };
}

fn model(observed: &mut DiagnosisInputs) {
    let text = "worker chat-decode-a refuses the adapter: no such repository";
    let conditions = [
        ("Ready", "False", "LoadFailed", text),
        ("EndpointsReady", "False", "NotReady", text),
        ("Stalled", "True", "LoadFailed", text),
    ];
    other(observed, "DynamoModel", "lora", &conditions);
}

fn no_workers(observed: &mut DiagnosisInputs) {
    let conditions = [
        ("ServicesFound", "False", "NoServicesFound", "no component of this namespace refers to the base model"),
        ("Ready", "False", "NoEndpoints", "no worker of the base model is running"),
        ("Reconciling", "True", "NoEndpoints", "waiting for workers of the base model"),
    ];
    other(observed, "DynamoModel", "lora", &conditions);
}

fn checkpoint(observed: &mut DiagnosisInputs) {
    let conditions = [
        ("JobCompleted", "False", "PodSnapshotFailed", "the agent of node-1 failed"),
        ("Stalled", "True", "CheckpointFailed", "the agent of node-1 failed"),
        ("Ready", "False", "CheckpointFailed", "the agent of node-1 failed"),
    ];
    other(observed, "DynamoCheckpoint", "c", &conditions);
}

fn request(observed: &mut DiagnosisInputs) {
    let conditions = [
        ("Profiling", "False", "ProfilingFailed", "container profiler ended with exit code 1"),
        ("Succeeded", "False", "Failed", "profiling failed"),
    ];
    other(observed, "DynamoGraphDeploymentRequest", "r", &conditions);
}

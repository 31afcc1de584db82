//! Screens of graphs and components.

use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, from_value, json};

use super::{State, Style, line, screen};

const TIME: &str = "2026-01-01T00:00:00Z";

fn condition(type_: &str, status: &str, reason: &str) -> Value {
    json!({ "type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": TIME })
}

fn pod(name: &str, node: Option<&str>, conditions: Value, containers: Value) -> Pod {
    let limits = json!({ "limits": { "nvidia.com/gpu": "2" } });
    from_value(json!({
        "metadata": { "name": name, "labels": { "nvidia.com/dynamo-component": "decode" } },
        "spec": { "containers": [{ "name": "main", "resources": limits }], "nodeName": node },
        "status": { "phase": "Pending", "conditions": conditions, "containerStatuses": containers },
    }))
    .unwrap()
}

fn ready() -> Pod {
    pod("d-1", Some("n1"), json!([{ "type": "Ready", "status": "True" }]), json!([]))
}

fn unscheduled() -> Pod {
    let scheduled = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no GPU. preemption: none.",
    });
    pod("d-2", None, json!([scheduled]), json!([]))
}

fn pulling() -> Pod {
    let waiting = json!({ "waiting": { "reason": "ImagePullBackOff", "message": "no such tag" } });
    let container = json!({
        "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": waiting,
    });
    pod("d-3", Some("n1"), json!([]), json!([container]))
}

fn component(name: &str, revision: &str, created: &str, conditions: Value) -> DynamoComponentDeployment {
    from_value(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoComponentDeployment",
        "metadata": {
            "name": name, "namespace": "team", "creationTimestamp": created,
            "labels": { "nvidia.com/dynamo-worker-hash": revision },
        },
        "spec": { "name": "decode", "type": "decode", "replicas": 2 },
        "status": { "conditions": conditions },
    }))
    .unwrap()
}

fn graph(observed: i64, condition: &Value) -> DynamoGraphDeployment {
    let counts = |updated: i32, ready: i32| {
        json!({
            "componentKind": "Deployment", "replicas": 3, "updatedReplicas": updated, "readyReplicas": ready,
        })
    };
    from_value(json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": { "name": "chat", "namespace": "team", "generation": 2 },
        "spec": { "components": [
            { "name": "Frontend", "type": "frontend" },
            { "name": "decode", "type": "decode", "replicas": 2 },
        ] },
        "status": {
            "state": "pending", "observedGeneration": observed,
            "components": { "Frontend": counts(1, 1), "decode": counts(1, 1) },
            "rollingUpdate": { "phase": "InProgress" },
            "conditions": [condition],
        },
    }))
    .unwrap()
}

#[test]
fn the_screen_shows_what_components_wait_for_and_a_bar_while_workers_change() {
    let graph = graph(2, &condition("Ready", "False", "rolling_update_in_progress"));
    let components = [
        component("chat-decode-new", "new", "2026-01-01T00:58:30Z", json!([])),
        component("chat-decode-old", "old", TIME, json!([])),
    ];
    let state = State::of_graph(&graph, &components, &[ready(), unscheduled()]);
    let wide = "\
graph team/chat: pending
rolling_update_in_progress:

COMPONENT   TYPE       READY   UPDATED   GPUS   REVISIONS   PODS                     WAITS FOR
Frontend    frontend   1/1     1         0
decode      decode     1/2     1         4      old, new    1 ready, 1 unscheduled   pod d-2: Unschedulable: no GPU

rollout [###############---------------] 1/2 workers are of the target revision
";
    assert_eq!(screen(&state, true, Style::default()), wide);
    let narrow = screen(&state, false, Style::default());
    assert!(
        narrow.contains("decode      decode     1/2     1         4      pod d-2: Unschedulable: no GPU\n"),
        "{narrow}"
    );
    assert_eq!(line(&state), "team/chat pending: Frontend 1/1, decode 1/2; rollout 1/2");
}

#[test]
fn ready_counts_only_for_the_latest_generation() {
    for (status, observed, ready) in [("True", 2, true), ("True", 1, false), ("False", 2, false)] {
        let state = State::of_graph(&graph(observed, &condition("Ready", status, "x")), &[], &[]);
        assert_eq!(state.ready, ready, "{status} {observed}");
    }
}

#[test]
fn a_graph_without_a_status_says_so() {
    let graph = DynamoGraphDeployment { status: None, ..graph(2, &condition("Ready", "False", "x")) };
    let state = State::of_graph(&graph, &[], &[]);
    assert_eq!((state.ready, state.message.as_str()), (false, "no controller has reported a status yet"));
}

#[test]
fn a_component_waits_for_the_most_specific_thing() {
    let unready = condition("Available", "False", "DeploymentNotReady");
    let stalled = condition("Stalled", "True", "NameTaken");
    for (pods, conditions, expected) in [
        (vec![ready(), ready()], json!([]), ""),
        (vec![], json!([]), "0 of 2 replicas"),
        (vec![], json!([unready]), "DeploymentNotReady"),
        (vec![pulling()], json!([unready]), "pod d-3: ImagePullBackOff: no such tag"),
        (vec![pulling()], json!([unready, stalled]), "NameTaken"),
    ] {
        let state = State::of_component(&component("chat-decode", "a", TIME, conditions), &pods);
        assert_eq!((state.kind, state.components[0].waits_for.as_str()), ("component", expected));
    }
}

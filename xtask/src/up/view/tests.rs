//! What a graph looks like in the states that it can be in.

use serde_json::{Value, from_value, json};

use super::*;

fn condition(kind: &str, status: &str, reason: &str, generation: i64) -> Condition {
    let time = "2026-01-02T03:04:05Z";
    from_value(json!({
        "type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": time,
        "observedGeneration": generation,
    }))
    .unwrap()
}

fn pod(name: &str, node: Option<&str>, conditions: Value, containers: Value) -> Pod {
    from_value(json!({
        "metadata": {"name": name},
        "spec": {"containers": [], "nodeName": node},
        "status": {"phase": "Pending", "conditions": conditions, "containerStatuses": containers},
    }))
    .unwrap()
}

fn counts(ready: i32) -> Option<ComponentReplicaStatus> {
    let counts =
        json!({"componentKind": "Deployment", "replicas": ready, "updatedReplicas": ready, "readyReplicas": ready});
    Some(from_value(counts).unwrap())
}

fn worker(pods: Vec<Pod>) -> ComponentView {
    ComponentView { name: "Worker".into(), kind: "worker", wanted: 2, pods, ..ComponentView::default() }
}

#[test]
fn ready_counts_only_for_the_present_generation() {
    for (status, observed, ready) in [("True", 2, true), ("True", 1, false), ("False", 2, false)] {
        let view =
            View { generation: 2, conditions: vec![condition("Ready", status, "x", observed)], ..View::default() };
        assert_eq!(view.is_ready(), ready, "{status} {observed}");
    }
}

#[test]
fn a_graph_is_a_table_with_what_it_waits_for() {
    let pods = vec![
        pod("w-1", Some("kwok-0"), json!([{"type": "Ready", "status": "True"}]), json!([])),
        pod(
            "w-2",
            None,
            json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no GPU"}]),
            json!([]),
        ),
    ];
    let frontend = ComponentView {
        name: "Frontend".into(),
        kind: "frontend",
        wanted: 1,
        counts: counts(1),
        ..ComponentView::default()
    };
    let view = View {
        title: "graph default/g".into(),
        generation: 1,
        conditions: vec![
            condition("Ready", "False", "some_resources_are_not_ready", 1),
            condition("Stalled", "False", "NotStalled", 1),
        ],
        components: vec![frontend, ComponentView { counts: counts(1), ..worker(pods) }],
    };
    let expected = [
        "graph default/g: not Ready",
        "  COMPONENT  TYPE      READY  PODS                    WAITS FOR",
        "  Frontend   frontend  1/1    -",
        "  Worker     worker    1/2    1 ready, 1 unscheduled  pod w-2: Unschedulable: no GPU",
        "  Ready=False some_resources_are_not_ready",
    ];
    assert_eq!(view.lines(), expected);
}

#[test]
fn a_graph_that_nobody_looked_at_says_so() {
    let view = View { title: "graph a/b".into(), ..View::default() };
    assert_eq!(view.lines().last().map(String::as_str), Some("  no controller has looked at it yet"));
}

#[test]
fn a_component_waits_for_the_most_telling_thing() {
    let pulling = || {
        let waiting = json!([{"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such tag"}}}]);
        pod("w-1", Some("kwok-0"), json!([]), waiting)
    };
    let unready = || condition("Available", "False", "DeploymentNotReady", 1);
    let stalled = || condition("Stalled", "True", "NameTaken", 1);
    for (pods, conditions, wanted) in [
        (vec![], vec![], "0 of 2 replicas"),
        (vec![], vec![unready()], "Available=False DeploymentNotReady"),
        (vec![pulling()], vec![unready()], "pod w-1: ImagePullBackOff: no such tag"),
        (vec![pulling()], vec![unready(), stalled()], "Stalled=True NameTaken"),
    ] {
        assert_eq!(ComponentView { conditions, ..worker(pods) }.waits_for(), wanted);
    }
    assert_eq!(ComponentView { counts: counts(2), ..worker(vec![]) }.waits_for(), "");
}

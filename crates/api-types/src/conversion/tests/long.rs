//! Objects as long as the API server takes them. One that is slow to convert would keep all clients from reading
//! the others.

use std::time::{Duration, Instant};

use super::*;

/// As long as the webhook server takes for a request; the API server waits for 30 s.
const PATIENCE: Duration = Duration::from_secs(9);
/// Entries of the long lists.
const LONG: usize = 10_000;

#[track_caller]
fn in_time(convert: impl Fn(&Value) -> Value, object: &Value) -> Value {
    let begin = Instant::now();
    let converted = convert(object);
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
    converted
}

fn entries(entry: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..LONG).rev().map(entry).collect()
}

fn of_containers(containers: Vec<Value>) -> Value {
    beta(json!({ "podTemplate": { "spec": { "containers": containers } } }))
}

#[test]
fn long_lists_are_converted_before_the_api_server_gives_up() {
    let mounts = entries(|n| json!({ "name": "a", "mountPath": format!("/{n}"), "readOnly": true }));
    let mut cached = of_containers(vec![json!({ "name": "main", "volumeMounts": mounts })]);
    cached["spec"]["components"][0]["compilationCache"] = json!({ "pvcName": "a", "mountPath": "/1" });
    let containers = entries(|n| json!({ "name": format!("c{n}"), "image": "i" }));
    for graph in [cached, of_containers(containers)] {
        assert_eq!(in_time(up, &in_time(down, &graph)), graph);
    }
    let env = |name: &str| entries(|n| json!({ "name": format!("{name}{n}"), "value": "v" }));
    let service = json!({ "envs": env("A"), "extraPodSpec": { "mainContainer": { "env": env("B") } } });
    let graph = alpha(&service);
    assert_eq!(in_time(down, &in_time(up, &graph)), graph);
}

/// A user who may write a graph may write its annotations.
#[test]
fn saved_data_without_end_is_given_up_before_the_api_server_gives_up() {
    let env: Vec<Value> = (0..LONG / 5).map(|n| json!({ "name": format!("A{n}"), "value": "v" })).collect();
    let mut graph = alpha(&json!({ "multinode": { "nodeCount": 2 }, "envs": env }));
    let exact: Vec<Value> =
        (0..LONG / 2).map(|n| json!({ "path": format!("/spec/components/a/multinode/{n}"), "value": 1 })).collect();
    graph["metadata"]["annotations"] = json!({ SPEC: json!({ "version": 1, "spec": {}, "exact": exact }).to_string() });
    let seen = component(&in_time(up, &graph));
    assert_eq!(seen["multinode"], json!({ "nodeCount": 2 }));
    assert_eq!(seen["podTemplate"]["spec"]["containers"][0]["env"].as_array().map(Vec::len), Some(LONG / 5));
}

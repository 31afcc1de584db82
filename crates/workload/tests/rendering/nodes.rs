//! Replicas that span nodes.

use crate::fixture::{Surroundings, component, json_of, merged, spec};
use api_types::v1beta1::DynamoComponentDeployment;
use serde_json::{Value, json};
use workload::{LeaderWorkerSet, render_leader_worker_set, validate, validate_leader_worker_set};

/// A worker over two nodes with eight GPUs each.
fn spanning(framework: &str, main: Value) -> DynamoComponentDeployment {
    let gpus = json!({"resources": {"limits": {"nvidia.com/gpu": "8"}}});
    let mut component = component(merged(
        spec("worker", json!({}), merged(gpus, main)),
        json!({"multinode": {"nodeCount": 2}, "backendFramework": framework, "replicas": 3}),
    ));
    let origin = ("nvidia.com/dynamo-operator-origin-version".to_owned(), "1.5.0".to_owned());
    let template = component.spec.component.pod_template.as_mut().unwrap();
    template.metadata.get_or_insert_default().annotations.get_or_insert_default().extend([origin]);
    component
}

fn set(component: &DynamoComponentDeployment) -> LeaderWorkerSet {
    render_leader_worker_set(&Surroundings::default().input(), &validate(component).unwrap())
}

fn main_of(set: &LeaderWorkerSet, role: &str) -> Value {
    json_of(&set.spec.leader_worker_template)[format!("{role}Template")]["spec"]["containers"][0].clone()
}

#[test]
fn every_node_of_a_replica_runs_its_part_of_the_engine() {
    let main = json!({"command": ["python3", "-m", "dynamo.vllm"], "args": ["--tensor-parallel-size", "16"]});
    let set = set(&spanning("vllm", main));
    assert_eq!((set.spec.replicas, set.spec.leader_worker_template.size), (Some(3), Some(2)));
    let last = |role| main_of(&set, role)["args"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((last("leader"), last("worker")), (json!("0"), json!("--headless")));
    assert!(main_of(&set, "leader").get("livenessProbe").is_some());
    assert!(main_of(&set, "worker").get("livenessProbe").is_none());
    let worker = json_of(&set.spec.leader_worker_template.worker_template);
    assert_eq!(worker["spec"]["initContainers"][0]["name"], "wait-for-leader-mp");
    assert_eq!(
        worker["metadata"]["annotations"],
        Value::Null,
        "the graph's version would roll the pods when it changes"
    );
}

/// Clients in Go always send it; a set that one of them made must not look changed.
#[test]
fn every_container_states_its_resources() {
    let main = json!({"args": ["python3 -m dynamo.sglang"], "resources": {}});
    let template = json_of(&set(&spanning("sglang", main)).spec.leader_worker_template);
    assert_eq!(template["leaderTemplate"]["spec"]["containers"][0]["resources"], json!({}));
}

#[test]
fn an_engine_that_flags_cannot_reach_is_noticed() {
    for (framework, args, found) in [
        ("sglang", json!(["python3 -m dynamo.sglang --tp 16"]), true),
        ("sglang", json!(["./launch.sh --tp 16"]), false),
        ("vllm", json!(["./launch.sh --tensor-parallel-size 16"]), false),
        ("vllm", json!(["./launch.sh --tensor-parallel-size 8"]), true),
        ("trtllm", json!(["./launch.sh"]), true),
    ] {
        let component = spanning(framework, json!({"args": args}));
        assert_eq!(validate(&component).unwrap().joins_nodes(), found, "{framework} {args}");
    }
    assert!(validate(&component(spec("worker", json!({}), json!({})))).unwrap().joins_nodes(), "there is one node");
}

#[test]
fn a_name_too_long_for_its_pods_is_a_mistake_before_there_are_any() {
    let mut component = spanning("sglang", json!({"args": ["python3 -m dynamo.sglang"]}));
    for (length, fits) in [(56, true), (57, true), (58, false)] {
        component.metadata.name = Some("n".repeat(length));
        assert_eq!(validate_leader_worker_set(&validate(&component).unwrap()).is_ok(), fits, "{length}");
    }
}

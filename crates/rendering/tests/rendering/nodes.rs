//! Replicas that span nodes.

use api_types::v1beta1::DynamoComponentDeployment;
use rendering::{LeaderWorkerSet, render_leader_worker_set, validate, validate_leader_worker_set};
use serde_json::{Value, json};

use crate::fixture::{Surroundings, component, json_of, merged, spec};

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
        assert_eq!(validate(&component).unwrap().joins_nodes(0), found, "{framework} {args}");
    }
    assert!(validate(&component(spec("worker", json!({}), json!({})))).unwrap().joins_nodes(0), "there is one node");
}

/// Pods of a StatefulSet carry a label with its name and a hash. A longer one than fits gets no worker pods, and no
/// word.
#[test]
fn a_name_too_long_for_its_pods_is_a_violation_before_there_are_any() {
    let mut component = spanning("sglang", json!({"args": ["python3 -m dynamo.sglang"]}));
    for (length, replicas, fits) in [
        (47, 1, true),
        (48, 1, true),
        (48, 0, true),
        (48, 10, true),
        (48, 11, false),
        (47, 11, true),
        (49, 1, false),
        (57, 1, false),
    ] {
        component.metadata.name = Some("n".repeat(length));
        component.spec.component.replicas = Some(replicas);
        let valid = validate(&component).unwrap();
        assert_eq!(validate_leader_worker_set(&valid, false).is_ok(), fits, "{length} {replicas}");
        assert!(
            validate_leader_worker_set(&valid, true).is_ok(),
            "a component that serves stays valid: {length} {replicas}"
        );
    }
    component.metadata.name = Some("n".repeat(51));
    let violations = validate_leader_worker_set(&validate(&component).unwrap(), false).unwrap_err();
    let reported = violations[0].to_string();
    assert!(reported.contains("more than 52 characters") && reported.contains("by 3 at least"), "{reported}");
}

/// The claims of a worker with GPUs of a ResourceClaimTemplate, with a change.
fn claiming(framework: &str, main: Value, pod: Value) -> DynamoComponentDeployment {
    let mut component = spanning(framework, main);
    let template = component.spec.component.pod_template.as_mut().unwrap();
    let mut changed = merged(
        json_of(&template.spec),
        merged(json!({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "eight"}]}), pod),
    );
    let resources = &mut changed["containers"][0]["resources"];
    if resources["limits"]["nvidia.com/gpu"] == "8" {
        *resources = json!({"claims": [{"name": "gpu"}, {"name": "gpu"}]});
    }
    template.spec = serde_json::from_value(changed).unwrap();
    component
}

#[test]
fn only_claims_that_a_command_line_depends_on_have_to_be_counted() {
    let engine =
        |framework: &str| json!({"args": [format!("python3 -m dynamo.{framework} --tensor-parallel-size 16")]});
    let claims = |component: &DynamoComponentDeployment| validate(component).unwrap().gpu_claims.len();
    for (framework, counted) in [("vllm", 1), ("trtllm", 1), ("sglang", 0)] {
        assert_eq!(claims(&claiming(framework, engine(framework), json!({}))), counted, "{framework}");
    }
    let scalar = json!({"resources": {"limits": {"nvidia.com/gpu": "4"}, "claims": [{"name": "gpu"}]}});
    assert_eq!(
        claims(&claiming("vllm", merged(engine("vllm"), scalar), json!({}))),
        0,
        "the GPUs are requested beside it"
    );
    let mut alone = claiming("vllm", engine("vllm"), json!({}));
    alone.spec.component.multinode = None;
    assert_eq!(claims(&alone), 0, "there is one node");
    let unknown = claiming("vllm", engine("vllm"), json!({"resourceClaims": [{"name": "other"}]}));
    let violations = validate(&unknown).unwrap_err();
    let reported = violations[0].to_string();
    assert!(
        reported.starts_with("spec.podTemplate.spec.containers[main].resources.claims (\"gpu\"): names no claim"),
        "{reported}"
    );
}

#[test]
fn claimed_gpus_reach_the_command_lines_of_all_nodes() {
    let main = json!({"command": ["python3", "-m", "dynamo.vllm"], "args": ["--tensor-parallel-size", "16"]});
    let component = claiming("vllm", main, json!({}));
    let surroundings = Surroundings { claimed_gpus: 8, ..Surroundings::default() };
    let set = render_leader_worker_set(&surroundings.input(), &validate(&component).unwrap());
    for role in ["leader", "worker"] {
        let args = main_of(&set, role)["args"].to_string();
        assert!(args.contains("--nnodes") && args.contains("--master-addr"), "{role}: {args}");
    }
    let worker = json_of(&set.spec.leader_worker_template.worker_template);
    assert_eq!(worker["spec"]["initContainers"][0]["name"], "wait-for-leader-mp");
    let mpi = claiming("trtllm", json!({"args": ["python3 -m dynamo.trtllm"]}), json!({}));
    let set = render_leader_worker_set(&surroundings.input(), &validate(&mpi).unwrap());
    assert!(main_of(&set, "leader")["args"].to_string().contains("-n 16 "), "one process for each GPU of both nodes");
}

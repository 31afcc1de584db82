//! Users' values at their limits, and stored values above them, in a process with little memory: conversion, validation
//! and rendering answer, and never abort.

#![allow(clippy::unwrap_used, reason = "a panic is how helpers of tests fail")]

mod render;
mod values;

use std::process::Command;

use api_types::{
    conversion::{ApiVersion, convert},
    limits,
};
use render::{Answer, answer};
use serde_json::{Value, json};
use values::{Schema, schemas};

/// Address space of the process, in KiB: less than any process of the operator has by default, the code itself
/// included.
const ADDRESS_SPACE: u32 = 512 * 1024;

const LIMITED: &str = "LIMITED_PROCESS";

/// Runs `body` in a process of its own with little memory; `test` is the name of the test that calls this.
fn with_little_memory(test: &str, body: impl FnOnce()) {
    if std::env::var_os(LIMITED).is_some() {
        return body();
    }
    let script = format!("ulimit -v {ADDRESS_SPACE} && exec \"$0\" --exact {test} --test-threads 1 --nocapture");
    let own = std::env::current_exe().unwrap();
    let output = Command::new("sh").arg("-c").arg(script).arg(own).env(LIMITED, "1").output().unwrap();
    let reported = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && reported.contains("1 passed"), "{}\n{reported}", output.status);
}

/// Graphs and components whose replicas span nodes, one for each way to join them.
fn bases() -> Vec<Value> {
    let component = |framework: &str, mode: Option<&str>| {
        let main = json!({
            "name": "main", "image": "i", "command": ["python3"], "args": ["-m", format!("dynamo.{framework}")],
            "resources": { "limits": { "nvidia.com/gpu": "1" } },
        });
        let mut component = json!({
            "name": "w", "type": "worker", "multinode": { "nodeCount": 2 },
            "podTemplate": { "spec": { "containers": [main] } },
        });
        if let Some(mode) = mode {
            component["experimental"] = json!({ "gpuMemoryService": { "mode": mode }, "failover": { "mode": mode } });
        }
        component
    };
    let mut bases = Vec::new();
    for framework in ["vllm", "sglang", "trtllm"] {
        for mode in [None, Some("InterPod")] {
            let component = component(framework, mode);
            let metadata = json!({ "name": "g", "namespace": "n", "uid": "u", "generation": 1 });
            bases.push(json!({
                "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": metadata,
                "spec": { "backendFramework": framework, "components": [component] },
            }));
            let mut alone = component.clone();
            alone["backendFramework"] = json!(framework);
            bases.push(json!({
                "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoComponentDeployment", "metadata": metadata,
                "spec": alone,
            }));
        }
    }
    bases
}

/// The object in its version, and made of its other version.
fn in_both(object: &Value) -> [Value; 2] {
    let alpha = convert(object.clone(), ApiVersion::V1Alpha1).unwrap();
    [object.clone(), convert(alpha, ApiVersion::V1Beta1).unwrap()]
}

fn components(object: &mut Value) -> &mut Value {
    match object["kind"].as_str() {
        Some("DynamoGraphDeployment") => &mut object["spec"]["components"][0],
        _ => &mut object["spec"],
    }
}

/// The object with one field of each component changed.
fn with(mut object: Value, pointer: &str, value: &Value) -> Value {
    let mut at = components(&mut object);
    for step in pointer.split('.') {
        at = &mut at[step];
    }
    *at = value.clone();
    object
}

#[test]
fn each_value_at_its_maximum_is_converted_validated_and_rendered() {
    with_little_memory("each_value_at_its_maximum_is_converted_validated_and_rendered", || {
        let mut tried = 0;
        for Schema { kind, version, spec } in schemas() {
            let of_kind = |base: &&Value| base["kind"] == kind && base["spec"]["backendFramework"] == "trtllm";
            for base in bases().iter().filter(of_kind) {
                let base = convert(base.clone(), version).unwrap();
                for object in values::at_maximum(&base, &spec) {
                    let beta = convert(object, ApiVersion::V1Beta1).unwrap();
                    in_both(&beta).iter().for_each(|object| drop(answer(object)));
                    tried += 1;
                }
            }
        }
        assert!(tried > 500, "{tried}");
    });
}

#[test]
fn what_is_joined_at_its_maximum_is_rendered() {
    with_little_memory("what_is_joined_at_its_maximum_is_rendered", || {
        for base in bases() {
            let shares = base.pointer("/spec/components/0/experimental").is_some();
            let nodes = if shares { limits::MEMORY_RANKS } else { limits::NODES };
            let object = with(base, "multinode.nodeCount", &json!(nodes));
            let object = with(object, "replicas", &json!(limits::REPLICAS));
            for object in in_both(&object) {
                let reported = answer(&object);
                let may = object["kind"] == "DynamoGraphDeployment" || object.pointer("/spec/experimental").is_none();
                let unknown = object.pointer("/spec/backendFramework").is_some_and(|name| name != "vllm") && shares;
                assert!(!may || unknown || matches!(reported, Answer::Rendered), "{reported:?} {object}");
            }
        }
    });
}

#[test]
fn a_graph_of_many_components_at_their_maximum_is_rendered() {
    with_little_memory("a_graph_of_many_components_at_their_maximum_is_rendered", || {
        for mut base in bases().into_iter().filter(|base| base["kind"] == "DynamoGraphDeployment") {
            let components = base["spec"]["components"].as_array_mut().unwrap();
            let one = components[0].clone();
            for index in 1..25 {
                let mut another = one.clone();
                another["name"] = json!(format!("w{index}"));
                components.push(another);
            }
            components.iter_mut().for_each(|component| component["multinode"]["nodeCount"] = json!(limits::NODES));
            answer(&base);
        }
    });
}

/// Objects that were stored before the limits were there, or under the upstream operator's definitions.
#[test]
fn a_stored_value_above_its_maximum_is_a_violation() {
    with_little_memory("a_stored_value_above_its_maximum_is_a_violation", || {
        let identity = |field: &str, value: i64| json!({ "enabled": true, "identity": { "model": "m", "backendFramework": "vllm", field: value } });
        let most = i64::from(i32::MAX);
        let table = [
            ("multinode.nodeCount", "multinode.nodeCount", json!(most)),
            ("multinode.nodeCount", "multinode.nodeCount", json!(limits::NODES + 1)),
            ("experimental.failover.numShadows", "experimental.failover.numShadows", json!(most)),
            ("replicas", "replicas", json!(most)),
            ("minAvailable", "minAvailable", json!(most)),
            (
                "experimental.checkpoint",
                "experimental.checkpoint.identity.tensorParallelSize",
                identity("tensorParallelSize", most),
            ),
            (
                "experimental.checkpoint",
                "experimental.checkpoint.identity.pipelineParallelSize",
                identity("pipelineParallelSize", most),
            ),
            ("experimental.checkpoint", "experimental.checkpoint.identity.maxModelLen", identity("maxModelLen", most)),
        ];
        for base in bases() {
            for (pointer, field, value) in &table {
                for object in in_both(&with(base.clone(), pointer, value)) {
                    let Answer::Refused(violations) = answer(&object) else { panic!("{field}: {object}") };
                    let of_field = |line: &&String| line.starts_with(&format!("spec.{field}"));
                    let line = violations.iter().find(of_field);
                    assert!(line.is_some_and(|line| line.contains("is more than")), "{field}: {violations:?}");
                }
            }
        }
    });
}

//! Graphs for the tests.

use serde_json::{Value, json};

/// A frontend, prefill workers and decode workers of one image tag.
pub fn disaggregated(name: &str, tag: &str, prefill: i32, decode: i32) -> Value {
    json!({
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": { "name": name },
        "spec": { "backendFramework": "vllm", "components": [
            component("Frontend", "frontend", 1, "1.5.0"),
            component("Prefill", "prefill", prefill, tag),
            component("Decode", "decode", decode, tag),
        ] }
    })
}

fn component(name: &str, type_: &str, replicas: i32, tag: &str) -> Value {
    let image = format!("registry.example/{type_}:{tag}");
    json!({
        "name": name, "type": type_, "replicas": replicas,
        "podTemplate": { "spec": { "containers": [{ "name": "main", "image": image }] } }
    })
}

/// Sets an annotation of a component's pod template.
pub fn annotate_component(graph: &mut Value, component: usize, key: &str, value: &str) {
    graph["spec"]["components"][component]["podTemplate"]["metadata"]["annotations"][key] = json!(value);
}

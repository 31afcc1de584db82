//! The graphs that are applied: one frontend, and workers that request nothing, so that no node is ever full.

use kube::{
    Client,
    api::Api,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};

const IMAGE: &str = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.0";

/// The graphs of a namespace, in the version that is stored.
pub(super) fn graphs_in(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk(api_types::GROUP, "v1beta1", "DynamoGraphDeployment");
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&gvk))
}

/// The same graph with no pod.
pub(super) fn without_pods(mut graph: Value) -> Value {
    for component in graph["spec"]["components"].as_array_mut().into_iter().flatten() {
        component["replicas"] = 0.into();
    }
    graph
}

/// A graph of `components` components.
pub(super) fn graph(name: &str, components: u8) -> Value {
    let components: Vec<_> = (0..components).map(component).collect();
    json!({
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": name},
        "spec": {"components": components},
    })
}

fn component(index: u8) -> Value {
    if index == 0 {
        let container = json!({"name": "main", "image": IMAGE});
        return json!({"name": "Frontend", "type": "frontend", "podTemplate": {"spec": {"containers": [container]}}});
    }
    let container = json!({
        "name": "main",
        "image": IMAGE,
        "command": ["python3", "-m", "dynamo.vllm"],
        "args": ["--model", "Qwen/Qwen3-0.6B", "--served-model-name", format!("model-{index}")],
    });
    json!({"name": format!("Worker{index}"), "type": "worker", "podTemplate": {"spec": {"containers": [container]}}})
}

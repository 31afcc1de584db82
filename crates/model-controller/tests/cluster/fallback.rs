//! Prefill workers of an older version, which manage no adapters.

use api_types::{labels, names};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::{
    engine::{Engine, Mode},
    harness::{BASE, Harness, condition},
};

async fn prefill(harness: &Harness, name: &str, graph: &str) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "labels": {
            labels::BASE_MODEL_HASH: names::base_model_hash(BASE), labels::GRAPH: graph,
            labels::COMPONENT_TYPE: "prefill",
        } },
        "spec": { "schedulerName": "no-scheduler", "containers": [
            { "name": "main", "image": "registry.example.com/vllm:1", "command": ["python3", "-m", "dynamo.vllm"] } ] },
    });
    harness.apply::<Pod>(&pod).await;
}

#[tokio::test]
async fn an_old_prefill_worker_is_covered_by_a_new_one_of_its_graph() {
    let mut harness = Harness::new("fallback").await;
    let mut engines = Vec::new();
    for (name, graph) in [("new", "g"), ("old", "g"), ("stranger", "h")] {
        prefill(&harness, name, graph).await;
        let engine = Engine::start("127.0.0.1").await;
        harness.add(&engine, Some(name));
        engines.push(engine);
    }
    engines[1].set(Mode::Unmanaged);
    engines[2].set(Mode::Unmanaged);
    harness.publish().await;
    harness.adapter("m", "a", "s3://1").await;
    let model = harness.until("m", "covered", |model| {
        let status = model.status.as_ref().unwrap();
        (status.ready_endpoints, status.lora_fallback_covered_endpoints, status.total_endpoints) == (1, 1, 3)
    });
    let model = model.await;
    let covered: Vec<bool> =
        model.status.as_ref().unwrap().endpoints.iter().map(|endpoint| endpoint.lora_fallback_covered).collect();
    assert_eq!(covered, [false, true, false]);
    let model = harness.until_condition("m", "Stalled", "True", "LoadFailed").await;
    let (.., message) = condition(&model, "Ready").unwrap();
    assert!(message.contains("stranger: manages no adapters"), "{message}");
    harness.remove_last().await;
    harness.until_condition("m", "EndpointsReady", "True", "AllEndpointsReady").await;
}

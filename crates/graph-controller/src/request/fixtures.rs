//! Requests for tests.

use std::sync::Arc;

use api_types::v1beta1::DynamoGraphDeploymentRequest;
use serde_json::{Value, json};

use super::{model::RequestObserved, settings::RequestSettings};

fn json_with(edit: impl FnOnce(&mut Value)) -> Value {
    let mut request = json!({
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeploymentRequest",
        "metadata": { "name": "chat", "namespace": "team-a", "uid": "request-uid", "generation": 1 },
        "spec": { "model": "a/model", "backend": "vllm", "image": "registry.example.com/planner:1.5.0",
            "hardware": { "gpuSku": "h100_sxm", "vramMb": 81920, "numGpusPerNode": 8 },
            "searchStrategy": "rapid", "autoApply": true },
    });
    edit(&mut request);
    request
}

/// A request after an edit of its JSON.
pub fn request_with(edit: impl FnOnce(&mut Value)) -> DynamoGraphDeploymentRequest {
    serde_json::from_value(json_with(edit)).unwrap()
}

/// A request after an edit of its JSON, and nothing else in the cluster.
pub fn observed_with(edit: impl FnOnce(&mut Value)) -> RequestObserved {
    let mut json = json_with(edit);
    let settings =
        RequestSettings { profiling_role: Some("role".to_owned()), gpu_discovery: true, ..RequestSettings::default() };
    RequestObserved::of(serde_json::from_value(json.clone()).unwrap(), json["spec"].take(), Arc::new(settings))
}

//! `DynamoModel`: a model on the workers of a base model, such as a LoRA adapter.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Specification of a model.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(group = "nvidia.com", version = "v1alpha1", kind = "DynamoModel", shortname = "dm")]
#[kube(namespaced, schema = "disabled", derive = "PartialEq", status = "DynamoModelStatus")]
pub struct DynamoModelSpec {
    /// Full name of the model, as requests name it.
    pub model_name: String,
    /// The base model; its workers are found through the headless Services of the components that refer to it.
    pub base_model_name: String,
    /// Whether it is the base model itself or an adapter to load.
    #[serde(default)]
    pub model_type: ModelType,
    /// Location from which an adapter is loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ModelSource>,
}

/// Type of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelType {
    /// The base model; nothing is loaded.
    #[default]
    Base,
    /// A LoRA adapter, loaded on every worker of the base model.
    Lora,
    /// An adapter of another kind; nothing is loaded.
    Adapter,
}

/// Location from which a model is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelSource {
    /// `s3://bucket/path`, `hf://org/model@revision`, or `file:///path`.
    pub uri: String,
}

impl ModelSource {
    /// Prefixes that the address of an adapter may have: locations from which workers can load.
    pub const SCHEMES: [&'static str; 3] = ["s3://", "hf://", "file:///"];
}

/// State of a model, as observed by the operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamoModelStatus {
    /// Workers of the base model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<ModelEndpoint>,
    /// Number of workers that serve the model.
    pub ready_endpoints: i32,
    /// Number of workers of the base model.
    pub total_endpoints: i32,
    /// Number of workers that cannot load adapters themselves and are covered by workers that can.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lora_fallback_covered_endpoints: i32,
    /// `EndpointsReady`, `ServicesFound`, and kstatus' `Ready`, `Reconciling`, `Stalled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::condition_list")]
    pub conditions: Vec<Condition>,
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Adapter that workers were requested to load; written before the first request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<AdapterMemory>,
}

/// Adapter that workers were requested to load for a model. It outlives restarts of the operator, so that an adapter
/// under an earlier name, or from an earlier source, is not left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdapterMemory {
    /// Name under which the adapter is loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_name: Option<String>,
    /// Digest of the URI from which it is loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_digest: Option<String>,
    /// Whether some workers may still hold it from an earlier source; those that are ready hold the new one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reloading: bool,
    /// Earlier names under which some workers may still hold it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub superseded: Vec<String>,
}

fn is_zero(count: &i32) -> bool {
    *count == 0
}

/// A worker that serves, or will serve, a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelEndpoint {
    /// URL of the worker's system server, such as `http://10.0.1.5:9090`.
    pub address: String,
    /// Name of the worker's pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_name: Option<String>,
    /// Whether the model is served there: the worker's pod is ready, and an adapter is loaded.
    pub ready: bool,
    /// Whether the worker cannot load adapters itself and is covered by one that can.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lora_fallback_covered: bool,
}

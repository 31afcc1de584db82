//! `DynamoGraphDeploymentRequest` in v1alpha1: its schema.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value;

use crate::v1beta1::{GraphState, RequestBackend};

/// Specification of a request for a graph.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct DynamoGraphDeploymentRequestSpec {
    /// The model: a Hugging Face id, or a name of your own.
    pub model: String,
    /// Engine family; `auto` lets the profiler choose.
    pub backend: RequestBackend,
    /// Simulated workers in place of engines.
    #[serde(default)]
    pub use_mocker: bool,
    /// The profiler.
    pub profiling_config: ProfilingConfig,
    /// Dynamo version, `MAJOR.MINOR.PATCH`, for services of the graph that name none themselves.
    #[schemars(regex(pattern = crate::schema::patterns::VERSION))]
    pub runtime_version_override: Option<String>,
    /// Deprecated, without effect.
    #[schemars(extend("default" = true))]
    pub enable_gpu_discovery: Option<bool>,
    /// Whether the graph is created as soon as it is known.
    #[serde(default)]
    pub auto_apply: bool,
    /// Settings that are specific to the graph.
    pub deployment_overrides: Option<DeploymentOverrides>,
}

/// The profiler.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct ProfilingConfig {
    /// Image of the profiler.
    pub profiler_image: String,
    /// Configuration of the profiler, in its own form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::open_object")]
    pub config: Option<Value>,
    /// File that holds the graph to begin with.
    pub config_map_ref: Option<ConfigMapKey>,
    /// PersistentVolumeClaim for the results.
    #[serde(rename = "outputPVC")]
    pub output_pvc: Option<String>,
    /// Resources of the profiler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::resource_requirements")]
    pub resources: Option<Value>,
    /// Tolerations of the profiler's pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::tolerations")]
    pub tolerations: Option<Vec<Value>>,
    /// Node labels that the profiler's pod needs.
    pub node_selector: Option<BTreeMap<String, String>>,
}

/// File in a ConfigMap.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct ConfigMapKey {
    /// Name of the ConfigMap.
    pub name: String,
    /// Name of the file.
    #[schemars(extend("default" = "disagg.yaml"))]
    pub key: Option<String>,
}

/// Settings that are specific to the graph of a request.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct DeploymentOverrides {
    /// Name of the graph.
    pub name: Option<String>,
    /// Namespace of the graph.
    pub namespace: Option<String>,
    /// Labels of the graph.
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations of the graph.
    pub annotations: Option<BTreeMap<String, String>>,
    /// Image of the graph's workers.
    pub workers_image: Option<String>,
}

/// Observed state of a request.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", extend("required" = ["state"]))]
pub struct DynamoGraphDeploymentRequestStatus {
    /// Phase of the request; the conditions have the details.
    #[schemars(extend("default" = "Initializing"))]
    pub state: RequestState,
    /// Engine family that was found.
    pub backend: Option<String>,
    /// Generation of the spec that this status describes.
    pub observed_generation: Option<i64>,
    /// Standard Kubernetes conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::condition_list")]
    pub conditions: Option<Vec<Value>>,
    /// Location of the results: `configmap/<name>`.
    pub profiling_results: Option<String>,
    /// The graph that was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::embedded_resource")]
    pub generated_deployment: Option<Value>,
    /// The graph that was made.
    pub deployment: Option<DeploymentStatus>,
}

/// Phase of a request.
#[derive(JsonSchema)]
pub enum RequestState {
    /// Not reconciled yet.
    Initializing,
    /// Not begun.
    Pending,
    /// The profiler runs.
    Profiling,
    /// The graph is coming up.
    Deploying,
    /// The graph is known, or serves.
    Ready,
    /// The graph was deleted.
    DeploymentDeleted,
    /// Needs a change by the user; the conditions name it.
    Failed,
}

/// The graph of a request.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", extend("required" = ["state"]))]
pub struct DeploymentStatus {
    /// Name of the graph.
    pub name: Option<String>,
    /// Namespace of the graph.
    pub namespace: Option<String>,
    /// Phase of the graph's life.
    #[serde(default)]
    pub state: GraphState,
    /// Whether the operator made it.
    pub created: Option<bool>,
}

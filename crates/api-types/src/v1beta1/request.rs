//! `DynamoGraphDeploymentRequest`: a model with its targets, from which the operator makes a graph.

use k8s_openapi::api::batch::v1::JobSpec;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{DynamoGraphDeploymentRequestStatus, Hardware};

/// Specification of a request for a graph.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(group = "nvidia.com", version = "v1beta1", kind = "DynamoGraphDeploymentRequest", shortname = "dgdr")]
#[kube(namespaced, schema = "disabled", derive = "PartialEq", status = "DynamoGraphDeploymentRequestStatus")]
pub struct DynamoGraphDeploymentRequestSpec {
    /// The model: a Hugging Face id, or a name of your own.
    #[schemars(length(min = 1))]
    pub model: String,
    /// Engine family; `auto` lets the profiler choose.
    #[serde(default)]
    pub backend: RequestBackend,
    /// Image of the profiler; filled in at admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Dynamo version, `MAJOR.MINOR.PATCH`, for components of the graph that name none themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = crate::schema::patterns::VERSION))]
    pub runtime_version_override: Option<String>,
    /// Volume that holds the model's weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_cache: Option<ModelCache>,
    /// The hardware to plan for; found in the cluster where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
    /// The expected load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    /// The targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sla: Option<Sla>,
    /// Fragments merged into what the operator makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overrides: Option<RequestOverrides>,
    /// Optional parts of the graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<RequestFeatures>,
    /// Thoroughness of the profiler's search.
    #[serde(default)]
    pub search_strategy: SearchStrategy,
    /// Whether the graph is created as soon as it is known.
    #[serde(default = "yes")]
    pub auto_apply: bool,
}

const fn yes() -> bool {
    true
}

impl Default for DynamoGraphDeploymentRequestSpec {
    fn default() -> Self {
        Self {
            model: String::new(),
            backend: RequestBackend::default(),
            image: None,
            runtime_version_override: None,
            model_cache: None,
            hardware: None,
            workload: None,
            sla: None,
            overrides: None,
            features: None,
            search_strategy: SearchStrategy::default(),
            auto_apply: yes(),
        }
    }
}

/// Engine family of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RequestBackend {
    /// The profiler chooses.
    #[default]
    Auto,
    /// SGLang.
    Sglang,
    /// TensorRT-LLM.
    Trtllm,
    /// vLLM.
    Vllm,
}

/// Volume that holds a model's weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelCache {
    /// The PersistentVolumeClaim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc_name: Option<String>,
    /// Folder of the model on the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc_model_path: Option<String>,
    /// Path at which the volume is mounted.
    pub pvc_mount_path: String,
}

impl Default for ModelCache {
    fn default() -> Self {
        Self { pvc_name: None, pvc_model_path: None, pvc_mount_path: "/opt/model-cache".to_owned() }
    }
}

/// Expected load. By convention, `concurrency` and `requestRate` exclude each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Workload {
    /// Length of the input of a request, in tokens.
    #[schemars(range(max = crate::limits::TOKENS))]
    pub isl: i32,
    /// Length of the output of a request, in tokens.
    #[schemars(range(max = crate::limits::TOKENS))]
    pub osl: i32,
    /// Requests at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = crate::limits::NUMBER))]
    pub concurrency: Option<f64>,
    /// Requests per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = crate::limits::NUMBER))]
    pub request_rate: Option<f64>,
}

impl Default for Workload {
    fn default() -> Self {
        Self { isl: 4000, osl: 1000, concurrency: None, request_rate: None }
    }
}

/// Targets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sla {
    /// Time to the first token, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = crate::limits::NUMBER))]
    pub ttft: Option<f64>,
    /// Time between tokens, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = crate::limits::NUMBER))]
    pub itl: Option<f64>,
    /// Time of a whole request, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = crate::limits::NUMBER))]
    pub e2e_latency: Option<f64>,
    /// Goal of the optimisation where the targets leave a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimization_type: Option<OptimizationType>,
}

/// Goal of the optimisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OptimizationType {
    /// Fast answers.
    Latency,
    /// Many answers.
    Throughput,
}

/// Fragments merged into what the operator makes for a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestOverrides {
    /// Fragment of the profiler's Job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::job_spec")]
    pub profiling_job: Option<JobSpec>,
    /// Fragment of the graph: a DynamoGraphDeployment, of either version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::embedded_resource")]
    pub dgd: Option<Value>,
}

/// Optional parts of a requested graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestFeatures {
    /// Presence adds a planner; the content is its configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::open_object")]
    pub planner: Option<Value>,
    /// Simulated workers in place of engines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mocker: Option<Mocker>,
}

/// Simulated workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Mocker {
    /// Whether workers are simulated; not if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// Thoroughness of the profiler's search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SearchStrategy {
    /// Seconds: by simulation.
    #[default]
    Rapid,
    /// Hours: by measuring on GPUs.
    Thorough,
}

//! Status of a `DynamoGraphDeploymentRequest`.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Hardware;

/// Observed state of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamoGraphDeploymentRequestStatus {
    /// Phase of the request; the conditions have the details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RequestPhase>,
    /// Step of the profiler; only while the phase is `Profiling`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiling_phase: Option<ProfilingPhase>,
    /// Name of the graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dgd_name: Option<String>,
    /// Name of the profiler's Job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiling_job_name: Option<String>,
    /// Standard Kubernetes conditions, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Results of the profiler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiling_results: Option<ProfilingResults>,
    /// Replicas of the graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment_info: Option<DeploymentInfo>,
    /// Hardware that profiling plans for: from the spec, or found in the cluster where the spec has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
    /// GPU minutes used by profiling: by the pod of the profiling Job, and by the pods of graphs that the profiler
    /// starts for measurements; rounded up. It never decreases: new Jobs add to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_minutes: Option<i64>,
    /// GPU time of profiling Jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiler_runs: Option<ProfilerRuns>,
    /// GPU time of the graphs that the profiler starts for measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_graphs: Option<TrialGraphs>,
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// GPU time of profiling Jobs. A Job may be deleted before its request is complete, so its time is recorded here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfilerRuns {
    /// Start time of the last Job that was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub started: Option<Time>,
    /// Seconds times GPUs of its pod since then.
    #[serde(default)]
    pub gpu_seconds: i64,
    /// Seconds times GPUs of all earlier Jobs.
    #[serde(default)]
    pub earlier_gpu_seconds: i64,
}

/// GPU time of the graphs that a profiler starts for measurements. They are deleted when it ends, so their time is
/// recorded here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialGraphs {
    /// Seconds times the GPUs that their pods have held until `countedUntil`.
    #[serde(default)]
    pub gpu_seconds: i64,
    /// Time until which `gpuSeconds` is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub counted_until: Option<Time>,
    /// Names of the graphs that exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<String>,
    /// Names of deleted graphs that still have pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ending: Vec<String>,
}

/// Phase of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RequestPhase {
    /// Not begun.
    Pending,
    /// The profiler runs.
    Profiling,
    /// The graph is known and waits to be applied.
    Ready,
    /// The graph is coming up.
    Deploying,
    /// The graph serves.
    Deployed,
    /// Needs a change by the user; the conditions name it.
    Failed,
}

impl RequestPhase {
    /// The name in a status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Profiling => "Profiling",
            Self::Ready => "Ready",
            Self::Deploying => "Deploying",
            Self::Deployed => "Deployed",
            Self::Failed => "Failed",
        }
    }
}

/// Current activity of the profiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProfilingPhase {
    /// Starting.
    Initializing,
    /// Trying layouts of prefill workers.
    SweepingPrefill,
    /// Trying layouts of decode workers.
    SweepingDecode,
    /// Choosing a layout.
    SelectingConfig,
    /// Measuring for the planner.
    BuildingCurves,
    /// Writing the graph.
    #[serde(rename = "GeneratingDGD")]
    GeneratingDgd,
    /// Done.
    Done,
}

/// The name in the output of profilers and in a status.
impl fmt::Display for ProfilingPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Results of the profiler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfilingResults {
    /// Deprecated: the layouts that no other one beats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pareto: Option<Vec<ParetoConfig>>,
    /// The graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::open_object")]
    pub selected_config: Option<Value>,
}

/// A layout that no other one beats.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParetoConfig {
    /// The layout.
    #[schemars(schema_with = "crate::schema::open_object")]
    pub config: Value,
}

/// Replicas of a request's graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentInfo {
    /// Desired replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Replicas that serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
}

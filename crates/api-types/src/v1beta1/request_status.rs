//! Status of a `DynamoGraphDeploymentRequest`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Hardware;

/// What the operator has observed of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DynamoGraphDeploymentRequestStatus {
    /// Where the request is in its life, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RequestPhase>,
    /// What the profiler is doing; only while the phase is `Profiling`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiling_phase: Option<ProfilingPhase>,
    /// Name of the graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dgd_name: Option<String>,
    /// Name of the profiler's Job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiling_job_name: Option<String>,
    /// The same in detail, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::schema::conditions"))]
    pub conditions: Vec<Condition>,
    /// What the profiler found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiling_results: Option<ProfilingResults>,
    /// Replicas of the graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment_info: Option<DeploymentInfo>,
    /// The hardware that is planned for: that of the spec, and what was found in the cluster where the spec names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
    /// What profiling has cost: minutes times the GPUs that were held by the pod of the profiling Job, and by the pods of graphs that the
    /// profiler itself starts to measure them; rounded up. It never falls: Jobs that are made again add to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_minutes: Option<i64>,
    /// What is known of the runs of profiling Jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiler_runs: Option<ProfilerRuns>,
    /// What is known of the graphs that the profiler starts to measure them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_graphs: Option<TrialGraphs>,
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// What profiling Jobs cost. A Job may be gone before its request is done, so this is remembered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProfilerRuns {
    /// When the Job started that was counted last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::schema::time"))]
    pub started: Option<Time>,
    /// Seconds times the GPUs that its pod has held since.
    #[serde(default)]
    pub gpu_seconds: i64,
    /// The same of all that ran before it.
    #[serde(default)]
    pub earlier_gpu_seconds: i64,
}

/// What graphs cost that a profiler starts to measure them. They are gone when it has ended, so this is remembered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TrialGraphs {
    /// Seconds times the GPUs that their pods have held until `countedUntil`.
    #[serde(default)]
    pub gpu_seconds: i64,
    /// Until when is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::schema::time"))]
    pub counted_until: Option<Time>,
    /// Those that there are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<String>,
    /// Those that were deleted and have pods left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ending: Vec<String>,
}

/// Life of a request in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Cannot go on without somebody changing something.
    Failed,
}

impl RequestPhase {
    /// The name as it stands in a status.
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

/// What the profiler is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

impl ProfilingPhase {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Initializing,
        Self::SweepingPrefill,
        Self::SweepingDecode,
        Self::SelectingConfig,
        Self::BuildingCurves,
        Self::GeneratingDgd,
        Self::Done,
    ];

    /// The name as profilers write it and as it stands in a status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Initializing => "Initializing",
            Self::SweepingPrefill => "SweepingPrefill",
            Self::SweepingDecode => "SweepingDecode",
            Self::SelectingConfig => "SelectingConfig",
            Self::BuildingCurves => "BuildingCurves",
            Self::GeneratingDgd => "GeneratingDGD",
            Self::Done => "Done",
        }
    }
}

/// What the profiler found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProfilingResults {
    /// Deprecated: the layouts that no other one beats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pareto: Option<Vec<ParetoConfig>>,
    /// The graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::schema::open_object"))]
    pub selected_config: Option<Value>,
}

/// A layout that no other one beats.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ParetoConfig {
    /// The layout.
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::schema::open_object"))]
    pub config: Value,
}

/// Replicas of a request's graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeploymentInfo {
    /// Wanted replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Replicas that serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
}

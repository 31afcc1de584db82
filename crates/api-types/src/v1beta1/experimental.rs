//! Experimental settings of a component: shared GPU memory, failover, Grove layout, checkpoints.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    limits,
    schema::{patterns, rules},
};

/// Fields of a component whose form may still change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentExperimental {
    /// Presence switches the GPU memory service on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory_service: Option<GpuMemoryService>,
    /// Presence switches standby engines on; needs the GPU memory service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<Failover>,
    /// Layout on Grove.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grove: Option<GroveOptions>,
    /// Checkpoint and restore of engine processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
}

/// GPU memory shared between processes, by dynamic resource allocation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = rules::GPU_MEMORY_SERVICE))]
#[serde(rename_all = "camelCase")]
pub struct GpuMemoryService {
    /// Within a pod or between pods.
    #[serde(default)]
    pub mode: EngineMode,
    /// DRA DeviceClass of the GPUs.
    #[serde(default = "default_device_class")]
    pub device_class_name: String,
    /// More containers of the pod that use the memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(inner(regex(pattern = patterns::DNS_LABEL), length(min = 1, max = 63)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub extra_client_containers: Option<Vec<String>>,
    /// Reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub extra_client_pods: Option<Vec<GmsClientPod>>,
}

/// DRA DeviceClass that the driver of NVIDIA GPUs comes with.
pub const DEFAULT_DEVICE_CLASS: &str = "gpu.nvidia.com";

pub(crate) fn default_device_class() -> String {
    DEFAULT_DEVICE_CLASS.to_owned()
}

/// Within a pod or between pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EngineMode {
    /// Within a pod.
    #[default]
    IntraPod,
    /// Between the pods of a group.
    InterPod,
}

/// Reserved: a pod that uses another component's GPU memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GmsClientPod {
    /// Name of the client.
    #[schemars(regex(pattern = patterns::DNS_LABEL), length(min = 1, max = 63))]
    pub name: String,
    /// Its pod template.
    #[schemars(schema_with = "crate::schema::open_object")]
    pub pod_template: serde_json::Value,
}

/// Standby engines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Failover {
    /// Within a pod or between pods; the same as the GPU memory service's.
    pub mode: EngineMode,
    /// Standby engines; within a pod, 1.
    #[schemars(range(min = 1, max = limits::SHADOWS))]
    pub num_shadows: i32,
}

impl Failover {
    /// Standby engines, at least one and never above the limit, which `rendering::validate` reports.
    pub fn standbys(&self) -> i32 {
        self.num_shadows.clamp(1, limits::SHADOWS)
    }
}

impl Default for Failover {
    fn default() -> Self {
        Self { mode: EngineMode::default(), num_shadows: one() }
    }
}

const fn one() -> i32 {
    1
}

/// Layout on Grove.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroveOptions {
    /// Renders a single-node component as a scaling group; immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_scaling_group: Option<bool>,
}

/// Checkpoint and restore of engine processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = rules::CHECKPOINT))]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// Switches it on.
    pub enabled: bool,
    /// Deprecated, without effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<CheckpointMode>,
    /// Whether pods wait for the checkpoint.
    #[serde(default)]
    pub startup_policy: CheckpointStartupPolicy,
    /// Treatment of the checkpoint when the graph is deleted.
    #[serde(default)]
    pub deletion_policy: CheckpointDeletionPolicy,
    /// An existing DynamoCheckpoint to restore from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_ref: Option<String>,
    /// Deprecated: what the checkpoint is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<CheckpointIdentity>,
    /// Container that is captured and restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::DNS_LABEL), length(min = 1, max = 63))]
    #[schemars(extend("default" = crate::v1beta1::MAIN_CONTAINER))]
    pub target_container_name: Option<String>,
    /// Settings of the Job that makes the checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<CheckpointJob>,
}

impl Checkpoint {
    /// Name of the existing DynamoCheckpoint, if there is one.
    pub fn reference(&self) -> Option<&str> {
        self.checkpoint_ref.as_deref().filter(|name| !name.is_empty())
    }
}

/// Deprecated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CheckpointMode {
    /// Made by the operator.
    Auto,
    /// Made by hand.
    Manual,
}

/// Whether pods wait for their checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CheckpointStartupPolicy {
    /// They start cold until there is one.
    #[default]
    Immediate,
    /// They are not created before there is one.
    WaitForCheckpoint,
}

/// Treatment of a checkpoint when its graph is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CheckpointDeletionPolicy {
    /// It goes with the graph.
    #[default]
    Delete,
    /// It stays.
    Retain,
}

/// Deprecated: what a checkpoint is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointIdentity {
    /// The model.
    #[schemars(length(min = 1))]
    pub model: String,
    /// The engine family.
    pub backend_framework: super::BackendFramework,
    /// The Dynamo version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamo_version: Option<String>,
    /// Tensor parallelism.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = limits::RANKS))]
    pub tensor_parallel_size: i32,
    /// Pipeline parallelism.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = limits::RANKS))]
    pub pipeline_parallel_size: i32,
    /// Data type of the weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// Longest context, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = limits::TOKENS))]
    pub max_model_len: Option<i32>,
    /// Further values that distinguish two checkpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_parameters: Option<BTreeMap<String, String>>,
}

/// Settings of the Job that makes a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointJob {
    /// Containers of the Job's pod that use the GPU memory service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(inner(regex(pattern = patterns::DNS_LABEL), length(min = 1, max = 63)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub gms_client_containers: Option<Vec<String>>,
    /// Merged over the Job's pod template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::open_object")]
    pub pod_template: Option<serde_json::Value>,
}

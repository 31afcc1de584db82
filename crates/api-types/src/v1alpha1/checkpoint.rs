//! `DynamoCheckpoint`: the state of an engine process, from which pods start faster.

use k8s_openapi::{
    api::core::v1::PodTemplateSpec,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AlphaGpuMemoryService, SharedMemory};
use crate::{schema::patterns, v1beta1::CheckpointIdentity};

/// Specification of a checkpoint.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(group = "nvidia.com", version = "v1alpha1", kind = "DynamoCheckpoint", shortname = "dckpt")]
#[kube(namespaced, schema = "disabled", derive = "PartialEq", status = "DynamoCheckpointStatus")]
pub struct DynamoCheckpointSpec {
    /// Identity of the checkpoint's content; immutable.
    pub identity: CheckpointIdentity,
    /// GPU memory service of the pod that is captured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory_service: Option<AlphaGpuMemoryService>,
    /// The Job whose pod is captured.
    pub job: CheckpointJobSpec,
}

impl DynamoCheckpoint {
    /// Whether new pods may start from it: it is ready, and what it kept is not being removed. One that is being
    /// deleted keeps its phase.
    pub fn can_be_restored(&self) -> bool {
        let phase = self.status.as_ref().and_then(|status| status.phase);
        self.metadata.deletion_timestamp.is_none() && phase == Some(CheckpointPhase::Ready)
    }
}

/// The Job whose pod is captured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointJobSpec {
    /// Longest time that the Job may run, in seconds; 3600 if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = crate::limits::SECONDS), extend("default" = DEFAULT_DEADLINE))]
    pub active_deadline_seconds: Option<i64>,
    /// Deprecated, without effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = crate::limits::RETRIES))]
    pub backoff_limit: Option<i32>,
    /// The pod.
    #[schemars(schema_with = "crate::schema::plain_pod_template")]
    pub pod_template_spec: PodTemplateSpec,
    /// `/dev/shm` of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_memory: Option<SharedMemory>,
    /// Container that is captured; `main` if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::DNS_LABEL), length(min = 1, max = 63))]
    #[schemars(extend("default" = crate::v1beta1::MAIN_CONTAINER))]
    pub target_container_name: Option<String>,
    /// Deprecated, without effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = crate::limits::SECONDS))]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// Default of the longest time that the Job of a checkpoint may run, in seconds.
pub const DEFAULT_DEADLINE: i64 = 3600;

impl CheckpointJobSpec {
    /// Longest time that the Job may run, in seconds, with the default applied; never above the limit.
    pub fn deadline_seconds(&self) -> i64 {
        self.active_deadline_seconds.unwrap_or(DEFAULT_DEADLINE).min(crate::limits::SECONDS)
    }

    /// Container that is captured, with the default applied.
    pub fn target_container(&self) -> &str {
        self.target_container_name.as_deref().unwrap_or(crate::v1beta1::MAIN_CONTAINER)
    }
}

/// State of a checkpoint, as observed by the operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamoCheckpointStatus {
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Phase of the checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<CheckpointPhase>,
    /// Identifier of the artifact.
    #[serde(default, rename = "checkpointID", skip_serializing_if = "Option::is_none")]
    pub checkpoint_id: Option<String>,
    /// Deprecated: what the identifier was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_hash: Option<String>,
    /// Deprecated, never written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Deprecated, never written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_type: Option<CheckpointStorageType>,
    /// Name of the Job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_name: Option<String>,
    /// Name of the PodSnapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_snapshot_name: Option<String>,
    /// Time at which the checkpoint became ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub created_at: Option<Time>,
    /// Reason for the failure of the checkpoint, or for its wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// `JobCreated` and `JobCompleted`, and kstatus' `Ready`, `Reconciling`, `Stalled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::condition_list")]
    pub conditions: Vec<Condition>,
}

/// Phase of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CheckpointPhase {
    /// Not begun.
    Pending,
    /// The Job runs, or its pod is being captured.
    Creating,
    /// Pods can be restored from it.
    Ready,
    /// Given up.
    Failed,
}

/// Deprecated: where a checkpoint is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckpointStorageType {
    /// On a volume.
    Pvc,
    /// In a bucket.
    S3,
    /// In a registry.
    Oci,
}

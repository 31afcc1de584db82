//! `PodSnapshot` of the snapshot operator: the request to capture a container of a pod.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Specification of a capture; immutable.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "nvidia.com",
    version = "v1alpha1",
    kind = "PodSnapshot",
    plural = "podsnapshots",
    namespaced,
    schema = "disabled",
    derive = "PartialEq",
    status = "PodSnapshotStatus"
)]
pub struct PodSnapshotSpec {
    /// What is captured.
    pub source: PodSnapshotSource,
}

/// What is captured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSnapshotSource {
    /// A pod.
    pub pod_ref: CapturedPod,
}

/// A pod, and a container of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedPod {
    /// Its name.
    pub name: String,
    /// Its uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The container; exactly one.
    #[serde(default)]
    pub containers: Vec<String>,
}

/// Status of a capture, from the snapshot operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSnapshotStatus {
    /// The object that the node's agent works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_snapshot_content_name: Option<String>,
    /// `Ready` and `Failed`, of which at most one is true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

//! The part of Grove's API (`grove.io/v1alpha1`) that a graph is written to and read from.
//!
//! Nothing here becomes a CustomResourceDefinition of ours: Grove installs its own. A live object may hold more than
//! these types have; they are for what we set, and for what status needs.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::PodSpec,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `apiVersion` of every kind in this module.
pub const API_VERSION: &str = "grove.io/v1alpha1";

/// Label that Grove puts on pods: the name of their PodClique, which ends with that of the clique in the PodCliqueSet.
pub const POD_CLIQUE: &str = "grove.io/podclique";

/// Labels that Grove puts on pods, which together identify the pods of one place in one replica of a scaling group.
pub const ENGINE_GROUP: [&str; 3] =
    ["grove.io/podcliquescalinggroup", "grove.io/podcliquescalinggroup-replica-index", "grove.io/podclique-pod-index"];

/// Annotation of a PodCliqueSet: the queue in which Grove's Volcano backend puts its pods.
pub const VOLCANO_QUEUE: &str = "scheduling.grove.io/volcano-queue";

/// A graph: cliques of alike pods, some of which scale as a group, placed together.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[kube(group = "grove.io", version = "v1alpha1", kind = "PodCliqueSet")]
#[kube(namespaced, schema = "disabled", derive = "PartialEq", status = "PodCliqueSetStatus")]
pub struct PodCliqueSetSpec {
    /// Number of replicas of the whole; ours have one.
    pub replicas: i32,
    /// Method by which pods are replaced when the template changes; Grove's choice if unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<PodCliqueSetUpdateStrategy>,
    /// One replica.
    pub template: PodCliqueSetTemplate,
}

/// Update strategy: pods are replaced when they are deleted.
pub const ON_DELETE: &str = "OnDelete";

/// Method by which pods are replaced when the template changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodCliqueSetUpdateStrategy {
    /// `RollingRecreate` or `OnDelete`.
    #[serde(rename = "type")]
    pub type_: String,
}

/// One replica of a PodCliqueSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodCliqueSetTemplate {
    /// `CliqueStartupTypeAnyOrder`, or `CliqueStartupTypeExplicit` where a clique waits for another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clique_startup_type: Option<String>,
    /// The cliques, by name.
    pub cliques: Vec<PodCliqueTemplate>,
    /// The Service that gives pods their host names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headless_service_config: Option<HeadlessServiceConfig>,
    /// Cliques that scale as one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pod_clique_scaling_groups: Vec<ScalingGroupConfig>,
    /// PriorityClass of all pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Templates of claims that cliques share, as Grove writes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_claim_templates: Vec<Value>,
    /// Longest time for which less than the minimum may be available before the gang is restarted, as a Go duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_delay: Option<String>,
    /// Placement of the whole; opaque, because users may write it in the form of a newer Grove.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<Value>,
}

/// The Service that gives pods their host names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HeadlessServiceConfig {
    /// Whether it names pods that are not ready yet.
    pub publish_not_ready_addresses: bool,
}

/// Alike pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodCliqueTemplate {
    /// Name within the set.
    pub name: String,
    /// Labels of the PodClique and of its pods.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the same.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Placement of the clique; opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<Value>,
    /// Specification of its pods.
    pub spec: PodCliqueTemplateSpec,
}

/// Specification of the pods of a clique.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodCliqueTemplateSpec {
    /// Name of the role; ours is the clique's name.
    pub role_name: String,
    /// Pods to begin with; later replicas are requested through the scale subresource.
    pub replicas: i32,
    /// Least pods that are placed together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<i32>,
    /// Cliques that have to run before this one starts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub starts_after: Vec<String>,
    /// The pod.
    pub pod_spec: PodSpec,
}

/// Cliques that scale as one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScalingGroupConfig {
    /// Name within the set.
    pub name: String,
    /// Its cliques.
    pub clique_names: Vec<String>,
    /// Initial number of replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Least replicas that are placed together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<i32>,
    /// Claims that its cliques share, as Grove writes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_sharing: Vec<Value>,
    /// Placement of a replica; opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<Value>,
}

/// Status of a PodCliqueSet, as reported by Grove.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodCliqueSetStatus {
    /// Generation of the spec that the status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Hash of the template that is being rolled out or has been.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_generation_hash: Option<String>,
    /// The last change of template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_progress: Option<UpdateProgress>,
    /// For example `TopologyLevelsUnavailable`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Operations that failed in Grove.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub last_errors: Vec<LastError>,
}

/// Something that Grove could not do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LastError {
    /// Grove's own word for it.
    pub code: String,
    /// Description of the failure.
    pub description: String,
}

/// A live clique outside scaling groups, or one replica's of a scaling group. Grove makes it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[kube(group = "grove.io", version = "v1alpha1", kind = "PodClique")]
#[kube(namespaced, schema = "disabled", derive = "PartialEq", status = "GroveReplicaStatus")]
pub struct PodCliqueSpec {
    /// Desired pods.
    pub replicas: i32,
}

/// Status of a clique or of a scaling group, as reported by Grove. The replicas of a clique are its pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GroveReplicaStatus {
    /// Generation of the spec that the status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Replicas that exist.
    pub replicas: i32,
    /// Replicas of the current template.
    pub updated_replicas: i32,
    /// Of a clique: pods that are ready.
    pub ready_replicas: i32,
    /// Of a scaling group: replicas whose cliques have their least pods ready.
    pub available_replicas: i32,
    /// Pods that have a node, or replicas whose cliques have their least pods placed.
    pub scheduled_replicas: i32,
    /// Of a clique: pods that are held back until their gang can be placed.
    pub schedule_gated_replicas: i32,
    /// Hash of the PodCliqueSet's template that the clique or group follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_pod_clique_set_generation_hash: Option<String>,
    /// The last change of template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_progress: Option<UpdateProgress>,
    /// For example `PodCliqueScheduled` and `MinAvailableBreached`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Operations that failed in Grove.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub last_errors: Vec<LastError>,
}

/// The last change of template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct UpdateProgress {
    /// Time of its end; unset while it is in progress. With the update strategy `OnDelete`, set from the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_ended_at: Option<Time>,
}

impl UpdateProgress {
    /// Whether the update has not ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.update_ended_at.is_none()
    }
}

/// Live cliques that scale as one. Grove makes it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[kube(group = "grove.io", version = "v1alpha1", kind = "PodCliqueScalingGroup")]
#[kube(namespaced, schema = "disabled", derive = "PartialEq", status = "GroveReplicaStatus")]
pub struct PodCliqueScalingGroupSpec {
    /// Desired replicas.
    pub replicas: i32,
}

/// Words in Grove's conditions.
pub mod conditions {
    /// PodClique: its least pods are placed.
    pub const POD_CLIQUE_SCHEDULED: &str = "PodCliqueScheduled";
    /// Reason of [`POD_CLIQUE_SCHEDULED`]: too few pods have a node.
    pub const INSUFFICIENT_SCHEDULED_PODS: &str = "InsufficientScheduledPods";
    /// PodCliqueScalingGroup and PodClique: fewer than the minimum are available.
    pub const MIN_AVAILABLE_BREACHED: &str = "MinAvailableBreached";
    /// Reason of [`MIN_AVAILABLE_BREACHED`] in older versions of Grove: too few replicas are placed.
    pub const INSUFFICIENT_SCHEDULED_GROUP_REPLICAS: &str = "InsufficientScheduledPodCliqueScalingGroupReplicas";
    /// PodCliqueSet: levels of the topology that it names do not exist.
    pub const TOPOLOGY_LEVELS_UNAVAILABLE: &str = "TopologyLevelsUnavailable";
    /// Reason of [`TOPOLOGY_LEVELS_UNAVAILABLE`]: the whole topology does not exist.
    pub const CLUSTER_TOPOLOGY_NOT_FOUND: &str = "ClusterTopologyNotFound";
}

//! The part of the API of LeaderWorkerSets that matters here. Objects that others made may hold more.

use k8s_openapi::{
    Metadata, NamespaceResourceScope, Resource,
    api::core::v1::PodTemplateSpec,
    apimachinery::pkg::{
        apis::meta::v1::{Condition, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use serde::{Deserialize, Serialize};

/// Groups of pods: in each, a leader and the workers that follow it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeaderWorkerSet {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: LeaderWorkerSetSpec,
    /// What is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<LeaderWorkerSetStatus>,
}

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderWorkerSetSpec {
    /// Groups; 1 if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// A group.
    pub leader_worker_template: LeaderWorkerTemplate,
    /// When the workers of a group are made: `LeaderCreated` or `LeaderReady`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_policy: Option<String>,
    /// How pods are named in the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_config: Option<NetworkConfig>,
    /// How groups change to another template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout_strategy: Option<GroupRollout>,
}

/// How pods are named in the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkConfig {
    /// `Shared`: one headless Service for all groups; `UniquePerReplica`: one for each.
    pub subdomain_policy: String,
}

/// How groups change to another template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupRollout {
    /// `RollingUpdate`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Its measure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update_configuration: Option<GroupRollingUpdate>,
}

/// The measure of a rolling update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupRollingUpdate {
    /// Groups beyond the wanted ones.
    pub max_surge: IntOrString,
    /// Groups that may lack.
    pub max_unavailable: IntOrString,
    /// Groups of a lower number keep the old template.
    pub partition: i32,
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderWorkerTemplate {
    /// Its leader; like a worker if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader_template: Option<PodTemplateSpec>,
    /// Its workers.
    pub worker_template: PodTemplateSpec,
    /// Pods of a group, the leader included; 1 if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
}

/// What is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderWorkerSetStatus {
    /// Conditions; `Available`, `Progressing` and `UpdateInProgress` among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Groups that serve.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Groups of the present template.
    #[serde(default)]
    pub updated_replicas: i32,
    /// Groups.
    #[serde(default)]
    pub replicas: i32,
    /// Observed generation; older versions of the API lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl Resource for LeaderWorkerSet {
    const API_VERSION: &'static str = "leaderworkerset.x-k8s.io/v1";
    const GROUP: &'static str = "leaderworkerset.x-k8s.io";
    const KIND: &'static str = "LeaderWorkerSet";
    const VERSION: &'static str = "v1";
    const URL_PATH_SEGMENT: &'static str = "leaderworkersets";
    type Scope = NamespaceResourceScope;
}

impl Metadata for LeaderWorkerSet {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

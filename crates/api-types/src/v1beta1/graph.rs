//! `DynamoGraphDeployment`: an inference graph, as its user describes it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::EnvVar;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BackendFramework, ComponentSpec, DynamoGraphDeploymentStatus, GraphTopologyConstraint, ProviderOverride};
use crate::schema::{patterns, rules};

/// Specification of an inference graph.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = rules::GRAPH))]
#[serde(rename_all = "camelCase")]
#[kube(group = "nvidia.com", version = "v1beta1", kind = "DynamoGraphDeployment", shortname = "dgd")]
#[kube(namespaced, schema = "disabled", derive = "PartialEq", status = "DynamoGraphDeploymentStatus")]
pub struct DynamoGraphDeploymentSpec {
    /// Fragment of the root PodCliqueSet; only with Grove.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_override: Option<ProviderOverride>,
    /// Annotations for every child and pod; a component's pod template wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Labels for every child and pod; a component's pod template wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// PriorityClass of the PodCliqueSet; only with Grove.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// The components of the graph, at most 25, with names that differ even ignoring case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 25), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[schemars(extend("x-kubernetes-validations" = rules::COMPONENTS))]
    pub components: Vec<ComponentSpec>,
    /// Environment of every component's main container; a component's entry of the same name wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::env")]
    pub env: Option<Vec<EnvVar>>,
    /// Engine family; found from the worker's command line if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_framework: Option<BackendFramework>,
    /// Restart of components; may not be set when the graph is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<Restart>,
    /// Placement of the whole graph; only with Grove.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<GraphTopologyConstraint>,
    /// Fields whose form may still change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experimental: Option<GraphExperimental>,
}

impl DynamoGraphDeploymentSpec {
    /// The policy for the transfer of KV caches.
    pub fn kv_transfer_policy(&self) -> Option<&KvTransferPolicy> {
        self.experimental.as_ref()?.kv_transfer_policy.as_ref()
    }
}

/// A request to restart components.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Restart {
    /// Any new value starts a restart.
    #[schemars(length(min = 1))]
    pub id: String,
    /// Order in which the components restart; sequential if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RestartStrategy>,
}

/// Strategy by which the components of a graph are restarted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestartStrategy {
    /// One component after the other, or all at once.
    #[serde(default, rename = "type")]
    pub type_: RestartStrategyType,
    /// Every component name once; the operator chooses if empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Vec<String>>,
}

/// Order of a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RestartStrategyType {
    /// One component after the other.
    #[default]
    Sequential,
    /// All components at once.
    Parallel,
}

/// Fields of a graph whose form may still change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GraphExperimental {
    /// Topology-aware transfer of KV caches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_transfer_policy: Option<KvTransferPolicy>,
}

/// Policy for the workers that may exchange KV caches. Exactly one of `clusterTopologyName` and `labelKey` is required.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = rules::KV_TRANSFER))]
#[serde(rename_all = "camelCase")]
pub struct KvTransferPolicy {
    /// Grove cluster topology that names the domains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub cluster_topology_name: Option<String>,
    /// Node label that holds the domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::LABEL_KEY), length(min = 1, max = 317))]
    #[schemars(extend("x-kubernetes-validations" = rules::LABEL_KEY))]
    pub label_key: Option<String>,
    /// Level of the topology within which caches are exchanged.
    #[schemars(regex(pattern = patterns::DOMAIN))]
    pub domain: String,
    /// Whether leaving the domain is forbidden or only discouraged.
    #[serde(default)]
    pub enforcement: KvTransferEnforcement,
    /// Weight of the same domain, 0 to 1; mandatory with `preferred` and only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub preferred_weight: Option<f32>,
}

/// Strength of a KV transfer policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KvTransferEnforcement {
    /// Decode only within the domain.
    #[default]
    Required,
    /// Decode within the domain if possible.
    Preferred,
}

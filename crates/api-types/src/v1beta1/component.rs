//! One component of a graph; shared by `DynamoGraphDeployment` and `DynamoComponentDeployment`.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::{
    api::core::v1::{ConfigMapKeySelector, Container, PodSpec, PodTemplateSpec},
    apimachinery::pkg::api::resource::Quantity,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{
    Checkpoint, ComponentExperimental, ComponentTopologyConstraint, Failover, GpuMemoryService, MAIN_CONTAINER,
    ProviderOverride,
};
use crate::{
    limits,
    schema::{patterns, rules},
};

/// One component: its type, its pods, their number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["name"], "x-kubernetes-validations" = rules::COMPONENT))]
#[serde(rename_all = "camelCase")]
pub struct ComponentSpec {
    /// Stable identity within the graph; object names are derived from it, status is keyed by it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(regex(pattern = patterns::COMPONENT_NAME), length(min = 1, max = 63))]
    pub name: String,
    /// Role of the component; a component without one gets no defaults of any role.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none", deserialize_with = "known_type")]
    pub type_: Option<ComponentType>,
    /// Fragment of the component's primary Grove unit; only in graphs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_override: Option<ProviderOverride>,
    /// Dynamo version in the main image, `MAJOR.MINOR.PATCH`, if the tag of the image is no version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = patterns::VERSION))]
    pub runtime_version_override: Option<String>,
    /// Registers in the Dynamo namespace `dynamo` instead of the graph's own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub global_dynamo_namespace: bool,
    /// The pods. The operator completes the container named `main`; everything else passes through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::pod_template")]
    pub pod_template: Option<PodTemplateSpec>,
    /// Desired replicas, 1 if unset; owned by the scaling adapter where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = limits::REPLICAS))]
    pub replicas: Option<i32>,
    /// Least replicas that a Grove gang starts with; immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = limits::REPLICAS))]
    pub min_available: Option<i32>,
    /// Spreads each replica over several nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multinode: Option<Multinode>,
    /// Size of `/dev/shm`: 8Gi if unset, none if `0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub shared_memory_size: Option<Quantity>,
    /// Base model whose endpoints are published through a headless Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_ref: Option<ModelReference>,
    /// Presence hands the replica count over to a scaling adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling_adapter: Option<ScalingAdapterMarker>,
    /// Configuration of the endpoint picker; only for type `epp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epp_config: Option<EppConfig>,
    /// Name of the container of the pod template that gets a frontend's defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frontend_sidecar: Option<String>,
    /// Volume that keeps compiled kernels over restarts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compilation_cache: Option<CompilationCache>,
    /// Placement of the component; only with Grove.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<ComponentTopologyConstraint>,
    /// Fields whose form may still change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experimental: Option<ComponentExperimental>,
}

impl ComponentSpec {
    /// Nodes per replica; 1 unless `multinode` is set. Never above the limit, which `rendering::validate` reports.
    pub fn node_count(&self) -> i32 {
        self.multinode.as_ref().map_or(1, |m| m.node_count.min(limits::NODES))
    }

    /// Whether each replica spans several nodes.
    pub fn is_multinode(&self) -> bool {
        self.node_count() > 1
    }

    /// Whether the component serves a model, so that it belongs to a worker revision.
    pub fn is_worker(&self) -> bool {
        self.type_.is_some_and(ComponentType::is_worker)
    }

    /// Desired replicas with the default applied.
    pub fn desired_replicas(&self) -> i32 {
        self.replicas.unwrap_or(1)
    }

    /// The user's `main` container, if there is one.
    pub fn main_container(&self) -> Option<&Container> {
        self.pod_spec()?.containers.iter().find(|c| c.name == MAIN_CONTAINER)
    }

    /// The spec in the pod template.
    pub fn pod_spec(&self) -> Option<&PodSpec> {
        self.pod_template.as_ref()?.spec.as_ref()
    }

    /// The labels of the pod template.
    pub fn pod_labels(&self) -> Option<&BTreeMap<String, String>> {
        self.pod_template.as_ref()?.metadata.as_ref()?.labels.as_ref()
    }

    /// The annotations of the pod template.
    pub fn pod_annotations(&self) -> Option<&BTreeMap<String, String>> {
        self.pod_template.as_ref()?.metadata.as_ref()?.annotations.as_ref()
    }

    /// One annotation of the pod template.
    pub fn pod_annotation(&self, key: &str) -> Option<&str> {
        self.pod_annotations()?.get(key).map(String::as_str)
    }

    /// The checkpoint, whether it is enabled or not.
    pub fn checkpoint(&self) -> Option<&Checkpoint> {
        self.experimental.as_ref()?.checkpoint.as_ref()
    }

    /// The checkpoint, if it is enabled.
    pub fn enabled_checkpoint(&self) -> Option<&Checkpoint> {
        self.checkpoint().filter(|checkpoint| checkpoint.enabled)
    }

    /// The GPU memory service.
    pub fn gpu_memory_service(&self) -> Option<&GpuMemoryService> {
        self.experimental.as_ref()?.gpu_memory_service.as_ref()
    }

    /// The standby engines.
    pub fn failover(&self) -> Option<&Failover> {
        self.experimental.as_ref()?.failover.as_ref()
    }

    /// Whether a component of one node runs as a scaling group all the same.
    pub fn forces_scaling_group(&self) -> bool {
        let grove = self.experimental.as_ref().and_then(|experimental| experimental.grove.as_ref());
        grove.is_some_and(|grove| grove.force_scaling_group == Some(true))
    }
}

/// v1alpha1 took any text as a type, and the upstream operator stored it as it was. Such an object must stay readable;
/// its type means no particular role.
fn known_type<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ComponentType>, D::Error> {
    let given: Option<String> = Deserialize::deserialize(deserializer)?;
    Ok(given.and_then(|given| ComponentType::named(&given)))
}

/// Role of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ComponentType {
    /// Answers HTTP and routes requests.
    Frontend,
    /// Serves a model.
    Worker,
    /// Serves the prefill phase of a model.
    Prefill,
    /// Serves the decode phase of a model.
    Decode,
    /// Scales the graph.
    Planner,
    /// Endpoint picker of a gateway.
    Epp,
}

impl ComponentType {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Frontend, Self::Worker, Self::Prefill, Self::Decode, Self::Planner, Self::Epp];

    /// The type of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == name)
    }

    /// The name in specs, labels and environments.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Frontend => "frontend",
            Self::Worker => "worker",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Planner => "planner",
            Self::Epp => "epp",
        }
    }

    /// Whether components of this type belong to worker revisions.
    pub const fn is_worker(self) -> bool {
        matches!(self, Self::Worker | Self::Prefill | Self::Decode)
    }
}

impl fmt::Display for ComponentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Spreads each replica over several nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Multinode {
    /// Nodes per replica, at least 2.
    #[serde(default = "two")]
    #[schemars(range(min = 2, max = limits::NODES))]
    pub node_count: i32,
    /// Settings of the first node's pod; only in graphs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<MultinodeRole>,
    /// Settings of the other nodes' pods; only in graphs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<MultinodeRole>,
}

const fn two() -> i32 {
    2
}

/// Settings of one role of a multi-node replica.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MultinodeRole {
    /// Fragment of the role's PodClique; only with Grove.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_override: Option<ProviderOverride>,
}

/// A base model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelReference {
    /// Identifier of the base model.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Revision of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

/// Presence marker: a scaling adapter owns the replica count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScalingAdapterMarker {}

/// Source of the endpoint picker's configuration: exactly one of `configMapRef` and `config`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = rules::EPP_CONFIG))]
#[serde(rename_all = "camelCase")]
pub struct EppConfig {
    /// Key of a ConfigMap with the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::config_map_key_selector")]
    pub config_map_ref: Option<ConfigMapKeySelector>,
    /// The configuration itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<EndpointPickerConfig>,
}

/// Configuration of the endpoint picker, in the form of the gateway API inference extension.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
#[serde(rename_all = "camelCase")]
pub struct EndpointPickerConfig {
    /// API version of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Kind of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Features to switch on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature_gates: Option<Vec<String>>,
    /// Plugins to instantiate.
    pub plugins: Vec<EndpointPickerPlugin>,
    /// Named sets of plugins.
    pub scheduling_profiles: Vec<SchedulingProfile>,
    /// Criteria by which an endpoint counts as saturated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saturation_detector: Option<SaturationDetector>,
    /// Fields of other versions of the extension.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: std::collections::BTreeMap<String, serde_json::Value>,
}

/// A plugin of the endpoint picker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointPickerPlugin {
    /// Name by which profiles refer to it; the type if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Type of the plugin.
    #[serde(rename = "type")]
    pub type_: String,
    /// Parameters, in the plugin's own form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::anything")]
    pub parameters: Option<serde_json::Value>,
}

/// A named set of plugins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingProfile {
    /// Name of the profile.
    pub name: String,
    /// Its plugins.
    pub plugins: Vec<PluginReference>,
}

/// A plugin within a profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginReference {
    /// Name of the plugin.
    pub plugin_ref: String,
    /// Weight of a scorer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = limits::COUNT))]
    pub weight: Option<i64>,
}

/// Criteria by which an endpoint counts as saturated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SaturationDetector {
    /// Waiting requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = limits::COUNT))]
    pub queue_depth_threshold: Option<i64>,
    /// Used share of the KV cache, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = limits::NUMBER))]
    pub kv_cache_util_threshold: Option<f64>,
    /// Age from which metrics are not trusted, as a Go duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics_staleness_threshold: Option<String>,
}

/// Volume that keeps compiled kernels over restarts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompilationCache {
    /// The PersistentVolumeClaim.
    #[schemars(length(min = 1))]
    pub pvc_name: String,
    /// Path at which it is mounted; the framework's default if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount_path: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_unknown_type_is_none() {
        for known in ComponentType::ALL {
            assert_eq!(json!(known), json!(known.as_str()));
        }
        for (given, read) in [
            (json!({ "name": "a", "type": "epp" }), Some(ComponentType::Epp)),
            (json!({ "name": "a", "type": "main" }), None),
            (json!({ "name": "a", "type": null }), None),
            (json!({ "name": "a" }), None),
        ] {
            assert_eq!(serde_json::from_value::<ComponentSpec>(given).unwrap().type_, read);
        }
    }
}

//! What may be used of the cluster.

use serde::Deserialize;

use super::Grove;

/// A switch for something that a cluster may offer. Unset: used where the cluster offers it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct Feature {
    /// `false` switches it off although it is there. Default unset.
    pub enabled: Option<bool>,
}

/// What places and starts pods beside Kubernetes itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct Orchestrators {
    /// Grove.
    pub grove: Grove,
    /// LeaderWorkerSets.
    pub lws: Feature,
    /// The KAI scheduler.
    pub kai_scheduler: Feature,
    /// The Volcano scheduler. Unset means off.
    pub volcano_scheduler: Feature,
}

/// GPUs of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct Gpu {
    /// Whether they are looked up. Default true.
    pub discovery_enabled: bool,
    /// Namespaces whose DCGM exporters are trusted; tenants must not create pods there. Default `gpu-operator`. Ours,
    /// unknown to the reference.
    pub exporter_namespaces: Vec<String>,
}

impl Default for Gpu {
    fn default() -> Self {
        Self { discovery_enabled: true, exporter_namespaces: vec!["gpu-operator".to_owned()] }
    }
}

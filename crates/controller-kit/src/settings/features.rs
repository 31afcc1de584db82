//! What may be used of the cluster.

use std::time::Duration;

use rendering::{DiscoveryBackend, ExposureSettings, PodSettings};
use serde::Deserialize;

use super::{GoDuration, OperatorConfiguration};

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

/// Grove.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct Grove {
    /// `false` switches it off although it is there. Default unset: used where the cluster offers it.
    pub enabled: Option<bool>,
    /// How long less than the minimum of a gang may be available before the gang is restarted. Default 15 minutes; zero
    /// leaves it to Grove.
    pub termination_delay: GoDuration,
}

impl Default for Grove {
    fn default() -> Self {
        Self { enabled: None, termination_delay: GoDuration(Duration::from_secs(15 * 60)) }
    }
}

impl OperatorConfiguration {
    /// The settings that reach pods; empty addresses are none.
    #[must_use]
    pub fn pods(&self) -> PodSettings {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let infrastructure = &self.infrastructure;
        PodSettings {
            discovery_backend: match self.discovery.backend {
                super::DiscoveryBackend::Kubernetes => DiscoveryBackend::Kubernetes,
                super::DiscoveryBackend::Etcd => DiscoveryBackend::Etcd,
            },
            nats_address: given(&infrastructure.nats_address),
            etcd_address: given(&infrastructure.etcd_address),
            model_express_url: given(&infrastructure.model_express_url),
            prometheus_endpoint: given(&infrastructure.prometheus_endpoint),
            mpi_secret: given(&self.mpi.ssh_secret_name),
            exposure: ExposureSettings {
                gateway: given(&self.ingress.virtual_service_gateway),
                ingress_class: given(&self.ingress.controller_class_name),
                tls_secret: given(&self.ingress.controller_tls_secret_name),
                host_suffix: given(&self.ingress.host_suffix),
                only_configured: self.ingress.only_configured,
            },
        }
    }
}

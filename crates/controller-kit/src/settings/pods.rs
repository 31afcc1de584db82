//! What of the configuration reaches pods.

use rendering::{DiscoveryBackend, ExposureSettings, PodSettings};

use super::OperatorConfiguration;

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

//! Input of rendering beside the component.

use crate::{ExposureSettings, PullSecretIndex, checkpoint::Restore};

/// Everything outside the component that its objects depend on; read from the cluster and the configuration before.
#[derive(Clone, Copy, Debug)]
pub struct RenderInput<'a> {
    /// The operator's settings.
    pub settings: &'a PodSettings,
    /// Image pull secrets of the component's namespace; an empty index switches discovery off.
    pub pull_secrets: &'a PullSecretIndex,
    /// First ServiceAccount of the namespace that is labelled for component pods; `default` if there is none.
    pub fallback_service_account: Option<&'a str>,
    /// Live objects of a prefill or decode component still select the type `worker`, see
    /// [`legacy_type_is_worker`](crate::legacy_type_is_worker); selectors are immutable, so it stays so.
    pub legacy_type_is_worker: bool,
    /// How the pods start.
    pub restore: Restore<'a>,
    /// GPUs that the main container has through claims, where
    /// [`ValidatedComponent::gpu_claims`](crate::ValidatedComponent::gpu_claims) names some; else 0.
    pub claimed_gpus: u32,
}

/// Settings of the operator that reach pods and how they are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSettings {
    /// How pods find each other, unless the component's pod template says otherwise.
    pub discovery_backend: DiscoveryBackend,
    /// Address of NATS, `nats://host:port`.
    pub nats_address: Option<String>,
    /// Addresses of etcd, comma-separated.
    pub etcd_address: Option<String>,
    /// URL of Model Express.
    pub model_express_url: Option<String>,
    /// URL of Prometheus.
    pub prometheus_endpoint: Option<String>,
    /// Exposure outside the cluster.
    pub exposure: ExposureSettings,
    /// Secret with the key pair of MPI over SSH; `mpi-run-ssh-secret` if `None`.
    pub mpi_secret: Option<String>,
}

/// How pods of a graph find each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiscoveryBackend {
    /// Through Kubernetes objects.
    #[default]
    Kubernetes,
    /// Through etcd.
    Etcd,
}

impl DiscoveryBackend {
    /// The name in annotations, labels and the operator's configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::Etcd => "etcd",
        }
    }

    /// The backend of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Kubernetes, Self::Etcd].into_iter().find(|backend| backend.as_str() == name)
    }
}

//! Data of rendering: a component that passed validation, its parts, and what it depends on.

use std::collections::BTreeMap;

use api_types::{
    annotations,
    conversion::preserved::PreservedComponent,
    v1beta1::{
        BackendFramework, CheckpointIdentity, CheckpointStartupPolicy, ComponentSpec, DynamoComponentDeployment,
        EngineMode, MAIN_CONTAINER,
    },
};
use k8s_openapi::{
    api::core::v1::{Container, PodSpec},
    apimachinery::pkg::api::resource::Quantity,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{PullSecretIndex, RolloutStrategy, checkpoint::Start, device_claims::ContainerClaim};

/// Size of `/dev/shm` where the user gives none.
pub(crate) const DEFAULT_SHARED_MEMORY: &str = "8Gi";

/// A component that can be rendered.
///
/// Made by [`validate`](crate::validate) only: what follows validation cannot fail on the user's input.
#[derive(Clone, Debug)]
pub struct ValidatedComponent<'a> {
    pub(crate) dcd: &'a DynamoComponentDeployment,
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) uid: &'a str,
    /// Data that only v1alpha1 could express.
    pub(crate) preserved: PreservedComponent,
    /// Annotations that the user gave the component, in whichever version.
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) pod: &'a PodSpec,
    pub(crate) main: &'a Container,
    /// The engine that the component runs; `None` if it is not a worker or runs an unknown engine.
    pub framework: Option<BackendFramework>,
    pub(crate) cache: Option<CacheMount<'a>>,
    /// `None` if the user disables memory-backed `/dev/shm`.
    pub(crate) shared_memory: Option<Quantity>,
    /// `None` if the pod template leaves it to the operator's settings.
    pub(crate) discovery: Option<DiscoveryBackend>,
    pub(crate) strategy: RolloutStrategy,
    /// GPUs that several of its processes share; `None` if each has its own.
    pub shared_gpus: Option<SharedGpus<'a>>,
    /// The checkpoint that its pods start from; `None` if they always start cold.
    pub checkpoint: Option<CheckpointUse<'a>>,
    /// Claims whose GPUs have to be counted before it can be rendered, see
    /// [`RenderInput::claimed_gpus`](crate::RenderInput::claimed_gpus); none for most components.
    pub gpu_claims: Vec<ContainerClaim>,
}

impl<'a> ValidatedComponent<'a> {
    /// Container whose processes a checkpoint restores.
    pub(crate) fn restore_target(&self) -> &'a str {
        self.checkpoint.map_or(MAIN_CONTAINER, |checkpoint| checkpoint.target)
    }

    pub(crate) fn spec(&self) -> &'a ComponentSpec {
        &self.dcd.spec.component
    }

    /// Image pull secrets that the user names.
    pub(crate) fn declared_pull_secrets(&self) -> impl Iterator<Item = &'a str> {
        self.pod.image_pull_secrets.iter().flatten().map(|reference| reference.name.as_str())
    }
}

/// Mount of the compilation cache. Claim and volume have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheMount<'a> {
    pub(crate) claim: &'a str,
    pub(crate) path: &'a str,
}

/// Settings of a component for its checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointUse<'a> {
    /// Name of the DynamoCheckpoint; `None` if there is none yet.
    pub reference: Option<&'a str>,
    /// Identity of the checkpoint's content, where the component specifies it instead of a name.
    pub identity: Option<&'a CheckpointIdentity>,
    /// Whether pods wait for it.
    pub policy: CheckpointStartupPolicy,
    /// Container whose processes are restored.
    pub target: &'a str,
    /// The user's own part of the pod that is captured.
    pub overlay: Option<&'a Value>,
    /// Containers of that pod, beside the target, that use its shared GPU memory.
    pub clients: &'a [String],
}

/// GPUs that several processes use through the GPU memory service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedGpus<'a> {
    /// Within a pod, or between the pods of a group.
    pub mode: EngineMode,
    /// DRA DeviceClass of the GPUs.
    pub device_class: &'a str,
    /// GPUs of an engine; at least one.
    pub count: u32,
    /// Standby engines of the serving one; 0 without failover.
    pub standbys: u32,
    /// Further containers of the pod that use the memory.
    pub(crate) clients: &'a [String],
}

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
    /// Method by which the pods start.
    pub restore: &'a Start,
    /// GPUs that the main container has through claims, where
    /// [`ValidatedComponent::gpu_claims`](crate::ValidatedComponent::gpu_claims) names some; else 0.
    pub claimed_gpus: u32,
}

/// Settings of the operator that reach pods and how they are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSettings {
    /// Backend by which pods discover each other, unless the component's pod template specifies another.
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

/// Backend by which pods of a graph discover each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
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

/// Configuration of the exposure outside the cluster. Without any, only components of v1alpha1 that specify it are
/// exposed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExposureSettings {
    /// Gateway of VirtualServices.
    pub gateway: Option<String>,
    /// Class of Ingresses.
    pub ingress_class: Option<String>,
    /// Secret with their certificate, in the graph's namespace.
    pub tls_secret: Option<String>,
    /// Domain below which graphs have their host names.
    pub host_suffix: Option<String>,
    /// Components expose themselves only within these settings.
    pub only_configured: bool,
}

/// Workload provider of a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkloadProvider {
    /// A DynamoComponentDeployment for each component.
    #[default]
    Component,
    /// One PodCliqueSet of Grove.
    Grove,
}

impl WorkloadProvider {
    /// Value of the annotation that pins a graph to the provider.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Component => annotations::PROVIDER_COMPONENT,
            Self::Grove => annotations::PROVIDER_GROVE,
        }
    }
}

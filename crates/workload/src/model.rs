//! A component that passed validation, and its parts: the input of everything that renders.

use std::collections::BTreeMap;

use api_types::{
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
use serde_json::Value;

use crate::{DiscoveryBackend, RolloutStrategy, device_claims::Claim};

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
    /// What only v1alpha1 could say.
    pub(crate) preserved: PreservedComponent,
    /// Annotations that the user gave the component, in whichever version.
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) pod: &'a PodSpec,
    pub(crate) main: &'a Container,
    pub(crate) framework: Option<BackendFramework>,
    pub(crate) cache: Option<CacheMount<'a>>,
    /// `None` if the user wants no memory-backed `/dev/shm`.
    pub(crate) shared_memory: Option<Quantity>,
    /// `None` if the pod template leaves it to the operator's settings.
    pub(crate) discovery: Option<DiscoveryBackend>,
    pub(crate) strategy: RolloutStrategy,
    /// `None` if each container has its GPUs for itself.
    pub(crate) shared_gpus: Option<SharedGpus<'a>>,
    /// `None` if its pods always start cold.
    pub(crate) checkpoint: Option<CheckpointUse<'a>>,
    /// Claims whose GPUs have to be counted before it can be rendered.
    pub(crate) gpu_claims: Vec<Claim>,
}

impl<'a> ValidatedComponent<'a> {
    /// The engine that the component runs; `None` if it is no worker or runs none that we know.
    pub fn framework(&self) -> Option<BackendFramework> {
        self.framework
    }

    /// GPUs that several of its processes share; `None` if each has its own.
    pub fn shared_gpus(&self) -> Option<SharedGpus<'a>> {
        self.shared_gpus
    }

    /// The checkpoint that its pods start from; `None` if they always start cold.
    pub fn checkpoint(&self) -> Option<CheckpointUse<'a>> {
        self.checkpoint
    }

    /// Claims whose GPUs have to be counted before it can be rendered, see
    /// [`RenderInput::claimed_gpus`](crate::RenderInput::claimed_gpus); none for most components.
    pub fn gpu_claims(&self) -> &[Claim] {
        &self.gpu_claims
    }

    /// Container whose processes a checkpoint restores.
    pub(crate) fn restore_target(&self) -> &'a str {
        self.checkpoint.map_or(MAIN_CONTAINER, |checkpoint| checkpoint.target)
    }

    /// How its Deployment replaces pods.
    pub fn strategy(&self) -> &RolloutStrategy {
        &self.strategy
    }

    pub(crate) fn spec(&self) -> &'a ComponentSpec {
        &self.dcd.spec.component
    }

    pub(crate) fn template_labels(&self) -> Option<&'a BTreeMap<String, String>> {
        self.spec().pod_template.as_ref()?.metadata.as_ref()?.labels.as_ref()
    }

    /// Image pull secrets that the user names.
    pub(crate) fn declared_pull_secrets(&self) -> impl Iterator<Item = &'a str> {
        self.pod.image_pull_secrets.iter().flatten().map(|reference| reference.name.as_str())
    }
}

/// Where the compilation cache is mounted. Claim and volume have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheMount<'a> {
    pub(crate) claim: &'a str,
    pub(crate) path: &'a str,
}

/// What a component says about its checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointUse<'a> {
    /// Name of the DynamoCheckpoint; `None` if there is none yet.
    pub reference: Option<&'a str>,
    /// What the checkpoint is of, where the component says that instead of a name.
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
    /// Engines that stand by for the serving one; 0 without failover.
    pub standbys: u32,
    /// Further containers of the pod that use the memory.
    pub(crate) clients: &'a [String],
}

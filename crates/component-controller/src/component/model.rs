//! Data of a pass over a component.

use std::{sync::Arc, time::Duration};

use api_types::{
    conversion::preserved::legacy::PreservedService, external::VirtualService, v1alpha1::DynamoComponent,
    v1beta1::DynamoComponentDeployment,
};
use controller_kit::{
    apply::{Desired, ObjectId},
    failure::Class,
    store::{Packed, StaticKind, UnpackError, is_controlled_by},
};
use k8s_openapi::{
    Metadata, NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{PersistentVolumeClaim, Service},
        networking::v1::Ingress,
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::ResourceExt;
use rendering::{
    LeaderWorkerSet, NotReady, PodDiagnosis, PullSecretIndex, WorkloadObject, checkpoint::CheckpointFacts,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

/// A component, its children, and what they depend on, at one moment.
#[derive(Debug)]
pub struct ComponentObserved {
    /// The component. A legacy one is converted: its image and its volume are in the pod template. An autoscaled one
    /// has the replicas of its workload.
    pub component: DynamoComponentDeployment,
    /// Uid of the component, by which its children are recognized.
    pub uid: String,
    /// Namespace of the component.
    pub namespace: String,
    /// Deployment of the component's name, with any owner.
    pub deployment: Option<LiveObject<Deployment>>,
    /// LeaderWorkerSet of the component's name, with any owner.
    pub leader_worker_set: Option<LiveObject<LeaderWorkerSet>>,
    /// Whether the cluster serves LeaderWorkerSets and the configuration allows them.
    pub serves_leader_worker_sets: bool,
    /// Service of the component's name, with any owner.
    pub service: Option<LiveObject<Service>>,
    /// Ingress of the component's name, with any owner.
    pub ingress: Option<LiveObject<Ingress>>,
    /// VirtualService of the component's name, with any owner.
    pub virtual_service: Option<LiveObject<VirtualService>>,
    /// Whether the cluster serves VirtualServices.
    pub serves_virtual_services: bool,
    /// HorizontalPodAutoscaler of the component's name, with any owner.
    pub autoscaler: Option<LiveObject<HorizontalPodAutoscaler>>,
    /// The base model that the component serves, and those whose Services it still owns.
    pub models: Vec<ObservedModel>,
    /// Owned objects that are no longer desired.
    pub obsolete: Vec<ObsoleteObject>,
    /// Image pull secrets of the namespace by registry.
    pub pull_secrets: Arc<PullSecretIndex>,
    /// Image pull secrets that the pod template names.
    pub named_pull_secrets: NamedPullSecrets,
    /// ServiceAccounts of the namespace that are labelled for component pods, sorted by name.
    pub accounts: Vec<String>,
    /// The checkpoint of the component.
    pub checkpoint: CheckpointFacts,
    /// Dependencies of a legacy component.
    pub legacy: ObservedLegacy,
    /// Needs of a legacy component beside its children, or the violations in its legacy fields.
    pub legacy_needs: Result<LegacyNeeds, String>,
    /// GPUs that the engine has through device claims, where its command line depends on them.
    pub claimed_gpus: Result<u32, String>,
}

impl ComponentObserved {
    /// The live workload of the desired kind, with any owner.
    pub fn live_workload(&self) -> Option<&dyn WorkloadObject> {
        match WorkloadKind::of(&self.component) {
            WorkloadKind::LeaderWorkerSet => Some(&self.leader_worker_set.as_ref()?.object),
            WorkloadKind::Deployment => Some(&self.deployment.as_ref()?.object),
        }
    }

    /// The live workload of the desired kind, if the component owns it.
    pub fn own_workload(&self) -> Option<LiveWorkload> {
        match WorkloadKind::of(&self.component) {
            WorkloadKind::LeaderWorkerSet => {
                let live = self.leader_worker_set.as_ref().map(|live| &live.object)?;
                is_controlled_by(live, &self.uid).then(|| LiveWorkload::LeaderWorkerSet(Box::new(live.clone())))
            }
            WorkloadKind::Deployment => {
                let live = self.deployment.as_ref().map(|live| &live.object)?;
                is_controlled_by(live, &self.uid).then(|| LiveWorkload::Deployment(Box::new(live.clone())))
            }
        }
    }
}

/// A base model, the components that serve it in a namespace, and the Service that they share.
#[derive(Debug, Default)]
pub struct ObservedModel {
    /// Name of the model.
    pub name: String,
    /// Service of the model, with any owner.
    pub service: Option<LiveObject<Service>>,
    /// All components of the namespace that serve the model, oldest first.
    pub owners: Vec<OwnerReference>,
}

/// Image and volume of a legacy component; empty for others.
#[derive(Debug, Default)]
pub struct ObservedLegacy {
    /// Legacy fields of the component.
    pub fields: PreservedService,
    /// The DynamoComponent that builds its image, with any owner.
    pub build: Option<DynamoComponent>,
    /// Whether the PersistentVolumeClaim of its volume exists.
    pub volume_exists: bool,
}

/// Name of the PersistentVolumeClaim of a legacy component, if it has a volume.
pub fn volume_name(component: &DynamoComponentDeployment, fields: &PreservedService) -> Option<String> {
    let given = fields.volume.as_ref().map(|volume| volume.claim.name.clone())?;
    Some(if given.is_empty() { component.name_any() } else { given })
}

/// Needs of a legacy component beside its children.
#[derive(Debug, Default, PartialEq)]
pub struct LegacyNeeds {
    /// Reason why its image is not available yet.
    pub awaited_image: Option<String>,
    /// The PersistentVolumeClaim to create for its volume.
    pub volume: Option<PersistentVolumeClaim>,
    /// The message that its volume does not exist, and that the operator does not create it.
    pub missing_volume: Option<String>,
}

impl LegacyNeeds {
    /// Of a component that is not a legacy one.
    pub const NONE: Self = Self { awaited_image: None, volume: None, missing_volume: None };
}

/// Image pull secrets that a pod template names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedPullSecrets {
    /// Whether there are any.
    pub any: bool,
    /// Those that do not exist, in the order of the spec.
    pub missing: Vec<String>,
}

/// A live object, typed for planning and as JSON for comparison.
#[derive(Debug)]
pub struct LiveObject<K> {
    /// The typed object.
    pub object: K,
    /// The object as the API server sent it.
    pub value: Value,
}

impl<K: StaticKind + DeserializeOwned> LiveObject<K> {
    /// Reads a cached object.
    ///
    /// # Errors
    /// If it does not have the shape of its kind.
    pub fn from_packed(packed: &Packed<K>) -> Result<Self, UnpackError> {
        Ok(Self { object: packed.unpack()?, value: packed.value() })
    }
}

/// The desired children of a component.
#[derive(Debug)]
pub struct ComponentPlan {
    /// The Service.
    pub service: ChildStep,
    /// The Ingress.
    pub ingress: ChildStep,
    /// The VirtualService of Istio.
    pub virtual_service: ChildStep,
    /// The HorizontalPodAutoscaler.
    pub autoscaler: ChildStep,
    /// The Services of [`Observed::models`].
    pub model_services: Vec<ChildStep>,
    /// The workload; `None` leaves the live one unchanged.
    pub workload: Option<Desired>,
    /// PersistentVolumeClaims to create if missing: for checkpoints, and for a legacy volume.
    pub volumes: Vec<Desired>,
    /// Whether a child needs an API that the cluster does not serve.
    pub lacks_api: bool,
    /// Reasons for the wait of pods, as sentences.
    pub waiting: Vec<String>,
    /// Whether the flags that join the nodes of a replica could be added to the engine's command line.
    pub joins_nodes: bool,
    /// Dynamo namespace under which pods register.
    pub runtime_namespace: String,
}

/// Reason why nothing can be planned for a component. Its children stay as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentBlocked {
    /// Reason of the condition `Stalled`.
    pub reason: &'static str,
    /// Problem, its place, and the remedy.
    pub message: String,
    /// Delay until the retry, if it does not wait for the next change.
    pub retry: Option<Duration>,
}

/// The plan for a child that is not always desired.
#[derive(Debug)]
pub enum ChildStep {
    /// Create or update it.
    Apply(Box<Desired>),
    /// Delete it.
    Delete,
    /// Take the component off its owners; others use it.
    Release(Box<Desired>),
    /// None is desired, and the component owns none.
    Nothing,
}

/// Result of the writes, and the rejections by the API server.
#[derive(Clone, Debug, Default)]
pub struct ComponentApplied {
    /// Writes, in order.
    pub changes: Vec<ChildWrite>,
    /// Reasons for the wait of pods or writes, as sentences.
    pub waiting: Vec<String>,
    /// Rejected writes.
    pub rejections: Vec<Rejection>,
    /// The live workload after the writes, if the component owns one.
    pub workload: Option<LiveWorkload>,
    /// Reason why pods do not serve.
    pub diagnosis: Option<PodDiagnosis>,
    /// Delay until pods are diagnosed again.
    pub diagnose_after: Option<Duration>,
    /// [`Plan::lacks_api`].
    pub lacks_api: bool,
    /// [`Plan::joins_nodes`].
    pub joins_nodes: bool,
    /// [`Plan::runtime_namespace`].
    pub runtime_namespace: String,
}

impl ComponentApplied {
    /// Adds the result of another part of the plan.
    pub fn append(&mut self, part: Self) {
        self.changes.extend(part.changes);
        self.waiting.extend(part.waiting);
        self.rejections.extend(part.rejections);
        self.workload = part.workload.or(self.workload.take());
    }

    /// Whether the workload has fewer ready replicas than desired.
    pub fn lacks_replicas(&self) -> bool {
        let lacks = |workload: &LiveWorkload| {
            let workload = workload.get();
            workload.desired_replicas() > 0 && workload.why_not_ready().is_some()
        };
        self.workload.as_ref().is_some_and(lacks)
    }

    /// Desired replicas of the workload while its controller has not observed its latest spec; then `None`.
    pub fn unobserved_replicas(&self) -> Option<i32> {
        let workload = self.workload.as_ref()?.get();
        let is_unobserved = workload.why_not_ready() == Some(NotReady::NotObserved);
        is_unobserved.then(|| workload.desired_replicas())
    }
}

/// A write of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildWrite {
    /// The operation.
    pub verb: ChildVerb,
    /// The object.
    pub object: ObjectId,
    /// Generation of the object after the write, of kinds that have one.
    pub generation: Option<i64>,
}

/// The operation of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildVerb {
    /// Created.
    Created,
    /// Updated.
    Updated,
    /// Deleted.
    Deleted,
}

/// A write that the API server rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The reaction to it; never [`Class::Transient`].
    pub class: Class,
    /// The object.
    pub object: ObjectId,
    /// The object, the reason and the remedy.
    pub message: String,
}

/// Kind of the workload of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadKind {
    /// Each replica is a pod.
    Deployment,
    /// Each replica is a group of pods.
    LeaderWorkerSet,
}

impl WorkloadKind {
    /// The kind that a component needs.
    pub fn of(component: &DynamoComponentDeployment) -> Self {
        if component.spec.component.is_multinode() { Self::LeaderWorkerSet } else { Self::Deployment }
    }
}

/// A live workload.
#[derive(Clone, Debug)]
pub enum LiveWorkload {
    /// Each replica is a pod.
    Deployment(Box<Deployment>),
    /// Each replica is a group of pods.
    LeaderWorkerSet(Box<LeaderWorkerSet>),
}

impl LiveWorkload {
    /// The workload, whatever its kind.
    pub fn get(&self) -> &dyn WorkloadObject {
        match self {
            Self::Deployment(deployment) => deployment.as_ref(),
            Self::LeaderWorkerSet(set) => set.as_ref(),
        }
    }
}

/// An owned object that is no longer desired.
#[derive(Clone, Debug)]
pub enum ObsoleteObject {
    /// The component has become multinode.
    Deployment(Box<Deployment>),
    /// The component is not multinode any more; or the set is one of those that older operators made for each replica.
    LeaderWorkerSet(Box<LeaderWorkerSet>),
    /// It belonged to a set that an older operator made.
    PodGroup(Box<PodGroup>),
}

/// A pod group of Volcano, by its metadata: it is only listed and deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodGroup {
    /// Metadata.
    pub metadata: ObjectMeta,
}

impl k8s_openapi::Resource for PodGroup {
    const API_VERSION: &'static str = "scheduling.volcano.sh/v1beta1";
    const GROUP: &'static str = "scheduling.volcano.sh";
    const KIND: &'static str = "PodGroup";
    const VERSION: &'static str = "v1beta1";
    const URL_PATH_SEGMENT: &'static str = "podgroups";
    type Scope = NamespaceResourceScope;
}

impl Metadata for PodGroup {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

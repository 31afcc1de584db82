//! Objects that a reconcile plans to write and delete.

use api_types::{
    external::{DestinationRule, InferencePool, VirtualService},
    grove::{PodClique, PodCliqueScalingGroup, PodCliqueSet},
    names::RevisionSuffix,
    v1alpha1::{DynamoCheckpoint, DynamoComponent},
    v1beta1::{
        CheckpointStatus, DynamoComponentDeployment, DynamoGraphDeploymentScalingAdapter as Adapter, RestartStatus,
    },
};
use controller_kit::apply::MetadataPatch;
use k8s_openapi::{
    api::{
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{ConfigMap, PersistentVolumeClaim, Service, ServiceAccount},
        networking::v1::Ingress,
        rbac::v1::{Role, RoleBinding},
        resource::v1::ResourceClaimTemplate,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    jiff::Timestamp,
};

use super::{GraphObstacle, rollout::RolloutCondition};

/// Planned writes and deletions, in the order of the fields: an account before the pods that run under it, new workers
/// before old ones are drained, deletions last.
#[derive(Default)]
pub struct GraphPlan {
    /// Objects that the graph needs beside its components.
    pub objects: GraphObjects,
    /// The checkpoints that components start from.
    pub checkpoints: Vec<ComponentCheckpoint>,
    /// The graph's own checkpoints that no component uses any more.
    pub stale_checkpoints: Vec<DynamoCheckpoint>,
    /// The desired components, without owner.
    pub components: Vec<DynamoComponentDeployment>,
    /// Live components that are not desired, mostly workers of old revisions: as they are, with their new replicas,
    /// without owner. Writing them adopts orphans, so that they can be deleted later.
    pub old: Vec<DynamoComponentDeployment>,
    /// Components to delete.
    pub delete: Vec<Removal>,
    /// Progress of the rollout of workers.
    pub rollout: Rollout,
    /// Progress of the restart.
    pub restart: Option<RestartStatus>,
    /// Plan for Grove, if the graph runs there.
    pub grove: Option<GrovePlan>,
    /// Components on Grove whose engine did not get the flags that join the nodes of a replica.
    pub unjoined: Vec<String>,
    /// Annotations of the graph for the upstream operator and for admission.
    pub bookkeeping: MetadataPatch,
    /// Reason why only [`Self::objects`] are planned; live components stay.
    pub obstacle: Option<GraphObstacle>,
}

/// A DynamoComponentDeployment to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Its name.
    pub name: String,
    /// Its uid; another object of that name stays.
    pub uid: String,
}

/// Progress of the rollout of workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// The desired revision of the workers, if the graph has workers and revisions.
    pub target: Option<RevisionSuffix>,
    /// Whether the target is not the revision of the spec.
    pub is_behind: bool,
    /// Names of the live workers of other revisions, oldest first.
    pub old: Vec<String>,
    /// Worker components of which only the target revision serves.
    pub updated: Vec<String>,
    /// Reasons for the rollout's wait, one line for each object.
    pub waits: Vec<String>,
    /// Reason why it is held.
    pub hold: Option<GraphObstacle>,
    /// State of its deadline; `None` if none counts.
    pub condition: Option<RolloutCondition>,
    /// Time of the next reconcile for the deadline.
    pub again: Option<Timestamp>,
}

impl Rollout {
    /// Whether workers of another revision remain.
    pub fn in_progress(&self) -> bool {
        !self.old.is_empty()
    }

    /// Whether all workers are of the revision of the spec.
    pub fn is_complete(&self) -> bool {
        !self.in_progress() && !self.is_behind
    }
}

/// Objects that the graph needs beside its components, without owner.
#[derive(Default)]
pub struct GraphObjects {
    /// The discovery account; none if no component discovers through Kubernetes. An account that is not desired any
    /// more stays until the graph is deleted: running pods must not lose it.
    pub account: Option<ServiceAccount>,
    /// Role of that account alone; none where it need not be written.
    pub role: Option<Role>,
    /// Binding of that account to its role; none where it stays as it is.
    pub binding: Option<RoleBinding>,
    /// Accounts that all graphs of the namespace share. They have no owner and are never deleted.
    pub shared_accounts: Vec<SharedAccount>,
    /// Configuration and programs that pods mount.
    pub config_maps: Vec<ConfigMap>,
    /// Volumes that a graph of v1alpha1 names.
    pub volumes: Vec<GraphVolume>,
    /// Claims of GPUs that the processes of a pod share.
    pub claim_templates: Vec<ResourceClaimTemplate>,
    /// Pool of pods behind a gateway.
    pub pool: Option<InferencePool>,
    /// TLS of the service mesh to the endpoint picker.
    pub destination_rule: Option<DestinationRule>,
    /// Scaling adapters.
    pub adapters: Adapters,
    /// Autoscalers of scaling adapters.
    pub autoscalers: Vec<HorizontalPodAutoscaler>,
    /// Services of components on Grove.
    pub services: Vec<Service>,
    /// Ingresses of frontends on Grove.
    pub ingresses: Vec<Ingress>,
    /// VirtualServices of frontends on Grove.
    pub virtual_services: Vec<VirtualService>,
    /// Services of base models on Grove, which several graphs may share.
    pub model_services: Vec<Service>,
    /// A DynamoComponent of another owner of whose archive the manifest is to be requested.
    pub manifest_of: Option<DynamoComponent>,
    /// The build of the graph's image, if it is the graph's own.
    pub build: Option<DynamoComponent>,
}

/// An account, and its binding to a ClusterRole of the chart.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedAccount {
    /// The account.
    pub account: ServiceAccount,
    /// Its binding.
    pub binding: RoleBinding,
}

/// A PersistentVolumeClaim that pods of the graph mount. An existing one is used unchanged: it holds the user's data.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphVolume {
    /// Its name.
    pub name: String,
    /// The claim to create if it is missing, without owner; `None` if the user creates it.
    pub make: Option<PersistentVolumeClaim>,
}

/// The adapters of a graph.
#[derive(Debug, Default)]
pub struct Adapters {
    /// Those that are missing or differ. Live ones keep their replicas.
    pub write: Vec<Adapter>,
    /// Names of all desired adapters.
    pub desired: Vec<String>,
}

/// The checkpoint of one component.
#[derive(Clone, Debug, PartialEq)]
pub struct ComponentCheckpoint {
    /// Name of the component.
    pub component: String,
    /// Name of the DynamoCheckpoint.
    pub name: String,
    /// Identifier of what it keeps, if that is known.
    pub id: Option<String>,
    /// Whether pods can start from it.
    pub ready: bool,
    /// Reason why pods wait for it; `None` if they do not.
    pub awaited: Option<String>,
    /// Whether it failed for good.
    pub failed: bool,
    /// Progress of its capture, if pods wait for it.
    pub capture: Capture,
    /// The checkpoint that the graph makes; `None` for one that the spec names.
    pub desired: Option<DesiredCheckpoint>,
}

impl ComponentCheckpoint {
    /// Its entry in the graph's status.
    pub fn status(&self) -> CheckpointStatus {
        CheckpointStatus {
            checkpoint_name: Some(self.name.clone()),
            checkpoint_id: self.id.clone(),
            identity_hash: self.id.clone(),
            ready: self.ready.then_some(true),
        }
    }
}

/// A checkpoint that a graph makes.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredCheckpoint {
    /// The checkpoint, without owner.
    pub object: DynamoCheckpoint,
    /// Whether it is deleted with the graph.
    pub goes_with_graph: bool,
    /// The claim of the GPUs that its processes share, without owner.
    pub claim: Option<ResourceClaimTemplate>,
}

/// Progress of the capture that new workers of a component wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capture {
    /// None, or not begun.
    #[default]
    Idle,
    /// Its pod exists, or is pending for resources that old workers of the component may hold.
    Running,
    /// Complete; other components may wait for theirs.
    Done,
    /// It failed for good.
    Lost,
}

/// Planned writes of a graph on Grove.
#[derive(Clone, Debug)]
pub struct GrovePlan {
    /// The desired PodCliqueSet, without owner.
    pub set: PodCliqueSet,
    /// Objects of Grove to scale.
    pub scale: Vec<GroveScale>,
    /// Whether the live set is not written yet: Grove would replace serving pods by pods that must wait.
    pub held_back: bool,
}

/// An object of Grove to scale.
#[derive(Clone, Debug)]
pub struct GroveScale {
    /// The object.
    pub child: Child,
    /// Its live replicas.
    pub from: i32,
    /// Its desired replicas.
    pub to: i32,
}

/// Object that Grove created for a component.
#[derive(Clone, Debug)]
pub enum Child {
    /// One clique.
    PodClique(Box<PodClique>),
    /// A group of cliques.
    PodCliqueScalingGroup(Box<PodCliqueScalingGroup>),
}

impl Child {
    /// Replicas in its spec.
    pub fn replicas(&self) -> i32 {
        match self {
            Self::PodClique(clique) => clique.spec.replicas,
            Self::PodCliqueScalingGroup(group) => group.spec.replicas,
        }
    }

    /// Whether at least one of its replicas serves.
    pub fn serves(&self) -> bool {
        match self {
            Self::PodClique(clique) => clique.status.as_ref().is_some_and(|status| status.ready_replicas > 0),
            Self::PodCliqueScalingGroup(group) => {
                group.status.as_ref().is_some_and(|status| status.available_replicas > 0)
            }
        }
    }

    /// Its metadata.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::PodClique(clique) => &clique.metadata,
            Self::PodCliqueScalingGroup(group) => &group.metadata,
        }
    }
}

//! The caches of graphs and of what belongs to them.

use api_types::{
    external::{DestinationRule, InferencePool, VirtualService},
    grove::{PodClique, PodCliqueScalingGroup, PodCliqueSet},
    v1alpha1::{DynamoCheckpoint, DynamoComponent},
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter as Adapter},
};
use controller_kit::{
    pull_secrets::PullSecrets,
    store::{Packed, Store},
};
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{ConfigMap, Pod, Secret, Service, ServiceAccount},
    networking::v1::Ingress,
    rbac::v1::{Role, RoleBinding},
    resource::v1::ResourceClaimTemplate,
};
use kube::core::PartialObjectMeta;

/// The caches of this controller.
#[derive(Clone)]
pub struct GraphCaches {
    /// Graphs.
    pub graphs: Store<Packed<DynamoGraphDeployment>>,
    /// Components of all graphs.
    pub components: Store<Packed<DynamoComponentDeployment>>,
    /// Discovery accounts.
    pub accounts: Store<Packed<ServiceAccount>>,
    /// Roles of single graphs.
    pub roles: Store<Packed<Role>>,
    /// RoleBindings of the accounts.
    pub bindings: Store<Packed<RoleBinding>>,
    /// Worker pods that have not ended, metadata only.
    pub worker_pods: Store<PartialObjectMeta<Pod>>,
    /// ConfigMaps of graphs.
    pub config_maps: Store<Packed<ConfigMap>>,
    /// Claim templates of graphs.
    pub claim_templates: Store<Packed<ResourceClaimTemplate>>,
    /// Pools of gateways.
    pub pools: Store<Packed<InferencePool>>,
    /// Rules of the service mesh.
    pub destination_rules: Store<Packed<DestinationRule>>,
    /// Scaling adapters.
    pub adapters: Store<Packed<Adapter>>,
    /// Autoscalers of graphs.
    pub autoscalers: Store<Packed<HorizontalPodAutoscaler>>,
    /// Copies of the SSH key for MPI, metadata only.
    pub mpi_keys: Store<PartialObjectMeta<Secret>>,
    /// All checkpoints, also those of other makers.
    pub checkpoints: Store<Packed<DynamoCheckpoint>>,
    /// DaemonSets of the agents that restore them; none if checkpoints or Grove are switched off.
    pub agents: Option<Store<Packed<DaemonSet>>>,
    /// Services of graphs.
    pub services: Store<Packed<Service>>,
    /// Ingresses of graphs.
    pub ingresses: Store<Packed<Ingress>>,
    /// VirtualServices of graphs.
    pub virtual_services: Store<Packed<VirtualService>>,
    /// Services of base models.
    pub model_services: Store<Packed<Service>>,
    /// Builds of images.
    pub builds: Store<Packed<DynamoComponent>>,
    /// Caches of Grove's objects.
    pub grove: GroveCaches,
}

/// Caches of what Grove serves; empty while it does not.
#[derive(Clone)]
pub struct GroveCaches {
    /// PodCliqueSets of graphs.
    pub sets: Store<Packed<PodCliqueSet>>,
    /// Cliques of graphs.
    pub cliques: Store<Packed<PodClique>>,
    /// All scaling groups; they carry no label of a graph.
    pub groups: Store<Packed<PodCliqueScalingGroup>>,
    /// Image pull secrets; none if they are not looked for.
    pub pull_secrets: Option<PullSecrets>,
}

impl GroveCaches {
    /// Whether the cluster serves Grove.
    pub(super) fn is_served(&self) -> bool {
        self.sets.is_served() && self.cliques.is_served() && self.groups.is_served()
    }

    /// A graph runs on Grove.
    pub(super) fn need(&self) {
        self.sets.need();
        self.cliques.need();
        self.groups.need();
    }
}

//! Everything a decision needs, read from the caches in one go.

pub mod checkpoints;
pub mod grove;
pub mod pods;

use std::{collections::BTreeMap, sync::Arc};

use api_types::{
    annotations,
    external::{DestinationRule, InferencePool, VirtualService},
    labels, names,
    v1alpha1::{DynamoCheckpoint, DynamoComponent},
    v1beta1::{
        ComponentSpec, DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter as Adapter,
    },
};
use controller_kit::{
    apply::{APPLIED_ANNOTATION, Error},
    store::{Key, Packed, ServedApi, Store, UnpackError, controller_owner},
};
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{ConfigMap, Pod, Secret, Service, ServiceAccount},
    networking::v1::Ingress,
    rbac::v1::{Role, RoleBinding},
    resource::v1::ResourceClaimTemplate,
};
use kube::{Resource, ResourceExt, core::PartialObjectMeta};

use self::{
    checkpoints::LiveCheckpoints,
    grove::{GroveCaches, LiveGrove},
};
use super::{
    expand::{Expansion, build_of},
    program::Program,
    settings::Settings,
    validate::Facts,
};

/// The caches of this controller.
#[derive(Clone)]
pub struct Caches {
    /// Graphs.
    pub graphs: Store<Packed<DynamoGraphDeployment>>,
    /// Components of all graphs.
    pub components: Store<Packed<DynamoComponentDeployment>>,
    /// Discovery accounts.
    pub accounts: Store<Packed<ServiceAccount>>,
    /// Their roles.
    pub roles: Store<Packed<Role>>,
    /// Their role bindings.
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
    /// Copies of the SSH key for MPI, metadata only.
    pub mpi_keys: Store<PartialObjectMeta<Secret>>,
    /// Checkpoints, whoever made them.
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
    /// What Grove serves.
    pub grove: GroveCaches,
}

/// What the cluster serves that a graph may need. Nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// LeaderWorkerSets, for replicas that span nodes.
    pub leader_worker_sets: bool,
    /// Grove.
    pub grove: bool,
    /// The KAI scheduler.
    pub kai: bool,
    /// The Volcano scheduler.
    pub volcano: bool,
    /// Checkpoints, as the operator's configuration says.
    pub checkpoints: bool,
    /// The cluster topology that the graph names may not be read.
    pub topology_hidden: bool,
}

/// Pods of one DynamoComponentDeployment that have not ended. The object itself may be gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunningPods {
    /// Component of the graph.
    pub component: String,
    /// Number of pods.
    pub count: usize,
}

/// One graph and all that is live of it, at one moment.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The graph.
    pub graph: DynamoGraphDeployment,
    /// Its components: those it owns, and orphans of the same graph name that it may adopt.
    pub components: Vec<DynamoComponentDeployment>,
    /// Scaling adapters under the names of those that its components ask for, whoever owns them.
    pub adapters: Vec<Adapter>,
    /// Worker pods that have not ended, by the name of their DynamoComponentDeployment.
    pub running_pods: BTreeMap<String, RunningPods>,
    /// What the cluster serves.
    pub served: Served,
    /// The checkpoints that it has to do with.
    pub checkpoints: LiveCheckpoints,
    /// What is live of it on Grove.
    pub grove: LiveGrove,
    /// The DynamoComponent that builds its image, whoever made it.
    pub build: Option<DynamoComponent>,
    /// What it needs as a graph of 2025; nothing for others. The graph itself is an ordinary one then.
    pub expansion: Expansion,
    /// The program that runs it.
    pub program: Program,
    /// Secret with the SSH key for MPI that its namespace lacks.
    pub missing_key: Option<String>,
}

impl Observed {
    /// A graph of which nothing is live.
    pub fn of(graph: DynamoGraphDeployment) -> Self {
        Self {
            graph,
            components: Vec::new(),
            adapters: Vec::new(),
            running_pods: BTreeMap::new(),
            served: Served::default(),
            checkpoints: LiveCheckpoints::default(),
            grove: LiveGrove::default(),
            build: None,
            expansion: Expansion::default(),
            program: Program::default(),
            missing_key: None,
        }
    }

    /// The components that are not on their way out.
    pub fn present(&self) -> impl Iterator<Item = &DynamoComponentDeployment> {
        self.components.iter().filter(|d| d.metadata.deletion_timestamp.is_none())
    }

    /// What the graph is checked against.
    pub fn facts(&self) -> Facts<'_> {
        Facts {
            program: self.program,
            served: self.served,
            missing_queue: self.grove.missing_queue.as_deref(),
            topology_domains: self.grove.topology_domains.as_deref(),
            awaited_image: self.expansion.awaited.as_ref(),
        }
    }

    /// Whether the graph is the controller of a live component.
    pub fn owns(&self, d: &DynamoComponentDeployment) -> bool {
        self.is_owner(d)
    }

    /// Whether the graph is the controller of an object.
    pub fn is_owner<K: Resource>(&self, object: &K) -> bool {
        controller_owner(object).is_some_and(|owner| Some(&owner.uid) == self.graph.metadata.uid.as_ref())
    }
}

/// Annotations of which at least one is on everything that an operator made, ours or the Go operator.
pub const MARKS: [&str; 2] = [APPLIED_ANNOTATION, annotations::LAST_APPLIED_HASH];

/// Asks what the cluster serves.
#[derive(Clone)]
pub struct Apis {
    /// Whether checkpoints are switched on.
    pub checkpoints: bool,
    /// LeaderWorkerSets; none if they shall not be used.
    pub leader_worker_sets: Option<ServedApi>,
    /// Queues of the KAI scheduler; none if it is not for the cluster to say whether it is used.
    pub kai_queues: Option<ServedApi>,
    /// Pod groups of the Volcano scheduler; none unless it shall place pods.
    pub volcano_groups: Option<ServedApi>,
}

impl Apis {
    /// What the cluster serves of what this graph needs. Only graphs that need something ask.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn served_for(&self, graph: &DynamoGraphDeployment, caches: &Caches) -> Result<Served, Error> {
        let grove = &caches.grove;
        let mut served = Served {
            grove: grove.sets.is_served() && grove.cliques.is_served() && grove.groups.is_served(),
            checkpoints: self.checkpoints,
            ..Served::default()
        };
        if let Some(api) = &self.leader_worker_sets
            && graph.spec.components.iter().any(|component| component.is_multinode())
        {
            served.leader_worker_sets = api.is_served().await?;
        }
        if let Some(api) = &self.kai_queues
            && served.grove
        {
            served.kai = api.is_served().await?;
        }
        if let Some(api) = &self.volcano_groups
            && served.grove
        {
            served.volcano = api.is_served().await?;
        }
        Ok(served)
    }
}

/// Reads a graph's children. `served` is what the cluster serves.
///
/// # Errors
/// If a component that the graph owns has a form that this version does not know. Deciding without it could start its
/// workers a second time.
pub fn observe(caches: &Caches, graph: DynamoGraphDeployment, served: Served) -> Result<Observed, UnpackError> {
    let owned = caches.components.children_of(&graph.uid().unwrap_or_default());
    let mut components = owned.iter().map(|d| d.unpack()).collect::<Result<Vec<_>, _>>()?;
    components.extend(orphans(caches, &graph).iter().filter_map(|d| d.unpack().ok()));
    let adapters = adapters(caches, &graph)?;
    let mut grove = grove::observe(&caches.grove, &graph)?;
    if !grove.sets.is_empty() && graph.spec.components.iter().any(|component| component.wanted_replicas() == 0) {
        grove.running_pods = count_pods(caches, &graph, component_name);
    }
    let running_pods = match grove.sets.is_empty() && is_changing(&graph, &components) {
        true => running_pods(caches, &graph),
        false => BTreeMap::new(),
    };
    let checkpoints = checkpoints::observe(caches, &graph, &components);
    let build = build_of(graph.annotations())
        .and_then(|name| caches.builds.get(&Key::new(&graph.namespace().unwrap_or_default(), &name)));
    let build = build.map(|build| build.unpack()).transpose()?;
    let nothing = Observed::of(graph);
    Ok(Observed { components, adapters, running_pods, served, checkpoints, grove, build, ..nothing })
}

/// Name of the Secret with the SSH key for MPI, if a namespace has none.
pub fn missing_key(caches: &Caches, settings: &Settings, namespace: &str) -> Option<String> {
    let is_missing = |name: &String| caches.mpi_keys.get(&Key::new(namespace, name)).is_none();
    settings.mpi_key.clone().filter(is_missing)
}

/// Components that an earlier graph of this name left behind (`--cascade=orphan`).
fn orphans(caches: &Caches, graph: &DynamoGraphDeployment) -> Vec<Arc<Packed<DynamoComponentDeployment>>> {
    let name = graph.name_any();
    let is_orphan = |d: &Packed<DynamoComponentDeployment>| {
        controller_owner(d).is_none()
            && d.namespace() == graph.namespace()
            && d.labels().get(labels::GRAPH) == Some(&name)
            && MARKS.iter().any(|mark| d.annotations().contains_key(*mark))
    };
    caches.components.all().into_iter().filter(|d| is_orphan(d)).collect()
}

/// The scaling adapters under the names of those that the components ask for.
fn adapters(caches: &Caches, graph: &DynamoGraphDeployment) -> Result<Vec<Adapter>, UnpackError> {
    let namespace = graph.namespace().unwrap_or_default();
    let names = graph.spec.components.iter().filter(|component| component.scaling_adapter.is_some());
    let names =
        names.map(|component| Key::new(&namespace, &names::scaling_adapter(&graph.name_any(), &component.name)));
    let named = names.filter_map(|key| caches.adapters.get(&key));
    named.map(|adapter| adapter.unpack()).collect()
}

/// Whether a component has several objects, none, or one with no replicas or others than the graph's. Only then can pods of
/// workers that are gone, or go, matter. An object may be deleted before its pods.
fn is_changing(graph: &DynamoGraphDeployment, components: &[DynamoComponentDeployment]) -> bool {
    let is_settled = |wanted: &ComponentSpec| {
        let mut live = components.iter().filter(|d| d.spec.component.name == wanted.name);
        let only = live.next().filter(|_| live.next().is_none());
        only.is_some_and(|d| match d.spec.component.wanted_replicas() {
            0 => false,
            replicas => replicas == wanted.wanted_replicas(),
        })
    };
    components.len() > graph.spec.components.len() || !graph.spec.components.iter().all(is_settled)
}

/// Pods count as long as they exist and have not ended, terminating ones included: they still hold their GPUs. `of` reads from
/// a pod's labels what it is counted for.
fn count_pods(
    caches: &Caches,
    graph: &DynamoGraphDeployment,
    of: fn(&BTreeMap<String, String>) -> Option<&str>,
) -> BTreeMap<String, usize> {
    let mut running = BTreeMap::new();
    for pod in pods_of_graph(caches, graph) {
        if let Some(counted_for) = of(pod.labels()) {
            *running.entry(counted_for.to_owned()).or_default() += 1;
        }
    }
    running
}

/// The same by the name of the DynamoComponentDeployment.
fn running_pods(caches: &Caches, graph: &DynamoGraphDeployment) -> BTreeMap<String, RunningPods> {
    let mut running: BTreeMap<String, RunningPods> = BTreeMap::new();
    for pod in pods_of_graph(caches, graph) {
        if let Some(object) = component_of(pod.labels()) {
            let pods = running.entry(object.to_owned()).or_default();
            pods.component = pod.labels().get(labels::COMPONENT).cloned().unwrap_or_default();
            pods.count += 1;
        }
    }
    running
}

fn pods_of_graph(caches: &Caches, graph: &DynamoGraphDeployment) -> Vec<Arc<PartialObjectMeta<Pod>>> {
    let (namespace, name) = (graph.namespace(), graph.name_any());
    let mut pods = caches.worker_pods.all();
    pods.retain(|pod| pod.namespace() == namespace && pod.labels().get(labels::GRAPH) == Some(&name));
    pods
}

/// The name of a pod's component in the spec of the graph.
fn component_name(pod: &BTreeMap<String, String>) -> Option<&str> {
    pod.get(labels::COMPONENT).map(String::as_str)
}

/// The DynamoComponentDeployment that a pod is of. LeaderWorkerSets select their pods by a label of their own.
pub(crate) fn component_of(pod: &BTreeMap<String, String>) -> Option<&str> {
    let set = || names::component_of_leader_worker_set(pod.get(labels::LEADER_WORKER_SET)?);
    pod.get(labels::SELECTOR).map(String::as_str).or_else(set)
}

/// The live object of a wanted one, as the apply engine compares it.
pub fn live_value<K>(store: &Store<Packed<K>>, namespace: &str, name: &str) -> Option<serde_json::Value>
where
    K: kube::Resource,
    K::DynamicType: Default,
{
    store.get(&Key::new(namespace, name)).map(|packed| packed.value())
}

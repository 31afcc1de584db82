//! Collects what the caches hold of a graph and of its checkpoints.

pub mod grove;
pub mod read;

use std::collections::{BTreeMap, BTreeSet};

use api_types::{
    annotations,
    conversion::preserved::{add_implied_adapters, legacy::PreservedGraph},
    labels, names,
    v1alpha1::DynamoCheckpoint,
    v1beta1::{
        ComponentSpec, DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter as Adapter,
    },
};
use controller_kit::store::{Key, Packed, UnpackError, controller_owner};
use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Pod};
use kube::{Resource, ResourceExt, core::PartialObjectMeta};
use rendering::checkpoint::{StorageLocation, storage_of_agents};

use crate::graph::{
    caches::GraphCaches,
    model::{ClusterApis, GraphObserved, LiveCheckpoints, MARKS, RunningPods, is_controller},
    settings::GraphSettings,
};

/// Collects what the caches hold of a graph. `packed` is its stored form.
///
/// # Errors
/// An object that the graph owns has a form that this version cannot read. Planning without that object could
/// start its workers a second time.
pub fn cached(
    caches: &GraphCaches,
    settings: &GraphSettings,
    packed: &Packed<DynamoGraphDeployment>,
    mut graph: DynamoGraphDeployment,
) -> Result<GraphObserved, UnpackError> {
    add_implied_adapters(&mut graph);
    let namespace = graph.namespace().unwrap_or_default();
    let owned = caches.components.children_of(&graph.uid().unwrap_or_default());
    let mut components = owned.iter().map(|d| d.unpack()).collect::<Result<Vec<_>, _>>()?;
    let orphans = caches.components.orphans(&namespace).into_iter().filter(|d| is_orphan_of(&graph, d.as_ref()));
    components.extend(orphans.filter_map(|d| d.unpack().ok()));
    let mut checkpoints = cached_checkpoints(caches, &graph, &components);
    let mut grove = grove::cached(&caches.grove, &graph)?;
    let has_set = !grove.sets.is_empty();
    if has_set
        || graph.annotations().get(annotations::WORKLOAD_PROVIDER).is_some_and(|it| it == annotations::PROVIDER_GROVE)
    {
        caches.grove.need();
    }
    let served = ClusterApis {
        grove: caches.grove.is_served(),
        checkpoints: settings.checkpoints.is_some(),
        ..ClusterApis::default()
    };
    if has_set || served.grove {
        grove.unknown_types = grove::unknown_types(&packed.value(), graph.annotations());
        checkpoints.place = place(caches, settings, &namespace);
    }
    let pods_matter = match has_set {
        true => graph.spec.components.iter().any(|component| component.desired_replicas() == 0),
        false => is_changing(&graph, &components),
    };
    let running_pods = if pods_matter { running_pods(caches, &graph, has_set) } else { BTreeMap::default() };
    let build = build_of(graph.annotations()).and_then(|name| caches.builds.get(&Key::new(&namespace, &name)));
    let is_missing = |key: &String| caches.mpi_keys.get(&Key::new(&namespace, key)).is_none();
    Ok(GraphObserved {
        components,
        adapters: adapters(caches, &graph)?,
        running_pods,
        served,
        checkpoints,
        grove,
        build: build.map(|build| build.unpack()).transpose()?,
        missing_key: settings.mpi_key.clone().filter(is_missing),
        has_own_role: has_own_role(caches, &graph),
        ..GraphObserved::new(graph)
    })
}

/// Whether a Role is there that only the discovery account of this graph has, and it is bound as it should be.
fn has_own_role(caches: &GraphCaches, graph: &DynamoGraphDeployment) -> bool {
    let (namespace, name) = (graph.namespace().unwrap_or_default(), graph.name_any());
    let (role, account) = (names::discovery_role(&name), names::discovery_service_account(&name));
    let binding = caches.bindings.get(&Key::new(&namespace, &names::discovery_role_binding(&name)));
    let own = binding.filter(|binding| is_controller(graph, binding.as_ref()));
    let is_bound = own.and_then(|binding| binding.unpack().ok()).is_some_and(|binding| {
        let subjects = binding.subjects.unwrap_or_default();
        let names_role = binding.role_ref.kind == "Role" && binding.role_ref.name == role;
        names_role && subjects.iter().any(|subject| subject.kind == "ServiceAccount" && subject.name == account)
    });
    is_bound && caches.roles.get(&Key::new(&namespace, &role)).is_some()
}

/// Name of the DynamoComponent that builds a graph's image, by the graph's annotations.
pub fn build_of(annotations: &BTreeMap<String, String>) -> Option<String> {
    PreservedGraph::of(annotations)?.source.as_deref().map(names::dynamo_component)
}

/// Whether an earlier graph of this name left an object behind (`--cascade=orphan`).
fn is_orphan_of<K: Resource>(graph: &DynamoGraphDeployment, object: &K) -> bool {
    controller_owner(object).is_none()
        && object.namespace() == graph.namespace()
        && object.labels().get(labels::GRAPH) == Some(&graph.name_any())
        && MARKS.iter().any(|mark| object.annotations().contains_key(*mark))
}

/// The scaling adapters under the names of those that the components enable.
fn adapters(caches: &GraphCaches, graph: &DynamoGraphDeployment) -> Result<Vec<Adapter>, UnpackError> {
    let (namespace, name) = (graph.namespace().unwrap_or_default(), graph.name_any());
    let asking = graph.spec.components.iter().filter(|component| component.scaling_adapter.is_some());
    let keys = asking.map(|component| Key::new(&namespace, &names::scaling_adapter(&name, &component.name)));
    keys.filter_map(|key| caches.adapters.get(&key)).map(|adapter| adapter.unpack()).collect()
}

/// Whether a component has several objects, none, or one with no replicas or others than the graph's. Only then can
/// pods of workers that are gone, or go, matter. An object may be deleted before its pods.
fn is_changing(graph: &DynamoGraphDeployment, components: &[DynamoComponentDeployment]) -> bool {
    let is_settled = |desired: &ComponentSpec| {
        let mut live = components.iter().filter(|d| d.spec.component.name == desired.name);
        let only = live.next().filter(|_| live.next().is_none());
        only.is_some_and(|d| match d.spec.component.desired_replicas() {
            0 => false,
            replicas => replicas == desired.desired_replicas(),
        })
    };
    components.len() > graph.spec.components.len() || !graph.spec.components.iter().all(is_settled)
}

/// Worker pods of a graph. They count as long as they exist and have not ended, terminating ones included: they still
/// hold their GPUs.
fn running_pods(caches: &GraphCaches, graph: &DynamoGraphDeployment, on_grove: bool) -> BTreeMap<String, RunningPods> {
    let (namespace, name) = (graph.namespace().unwrap_or_default(), graph.name_any());
    let of_graph = |pod: &PartialObjectMeta<Pod>| pod.labels().get(labels::GRAPH) == Some(&name);
    let mut running: BTreeMap<String, RunningPods> = BTreeMap::new();
    for pod in caches.worker_pods.in_namespace(&namespace).into_iter().filter(|pod| of_graph(pod)) {
        let component = pod.labels().get(labels::COMPONENT);
        let object = if on_grove { component.map(String::as_str) } else { component_of(pod.labels()) };
        if let Some(object) = object {
            let pods = running.entry(object.to_owned()).or_default();
            pods.component = component.cloned().unwrap_or_default();
            pods.count += 1;
        }
    }
    running
}

/// The DynamoComponentDeployment that a pod is of. LeaderWorkerSets select their pods by a label of their own.
pub(crate) fn component_of(pod: &BTreeMap<String, String>) -> Option<&str> {
    let set = || names::component_of_leader_worker_set(pod.get(labels::LEADER_WORKER_SET)?);
    pod.get(labels::SELECTOR).map(String::as_str).or_else(set)
}

/// The checkpoints that a graph made or names. Free for a graph without checkpoints.
fn cached_checkpoints(
    caches: &GraphCaches,
    graph: &DynamoGraphDeployment,
    components: &[DynamoComponentDeployment],
) -> LiveCheckpoints {
    let uid = graph.uid().unwrap_or_default();
    let mut named: BTreeSet<&str> = graph.spec.components.iter().filter_map(reference).collect();
    named.extend(components.iter().filter_map(|d| reference(&d.spec.component)));
    if !graph.spec.components.iter().any(|component| component.enabled_checkpoint().is_some())
        && caches.checkpoints.children_of(&uid).is_empty()
    {
        return LiveCheckpoints::default();
    }
    let (namespace, name) = (graph.namespace().unwrap_or_default(), graph.name_any());
    let concerns = |found: &Packed<DynamoCheckpoint>| {
        let owner = controller_owner(found).map(|owner| owner.uid == uid);
        let of_graph = found.labels().get(labels::GRAPH) == Some(&name);
        named.contains(found.name_any().as_str()) || owner.unwrap_or(of_graph)
    };
    let all = caches.checkpoints.in_namespace(&namespace).into_iter().filter(|found| concerns(found));
    // The schema is our own: what is there can be read.
    let all = all.filter_map(|found| found.unpack().ok()).collect();
    LiveCheckpoints { all, in_use: in_use(caches, graph), place: StorageLocation::Unknown }
}

/// Storage of the checkpoints of a namespace.
fn place(caches: &GraphCaches, settings: &GraphSettings, namespace: &str) -> StorageLocation {
    let Some(checkpoints) = &settings.checkpoints else { return StorageLocation::Unknown };
    match checkpoints.storage.storage() {
        Err(problem) => StorageLocation::Invalid(problem),
        // The claim was there, or made, before the first checkpoint became ready.
        Ok(Some(storage)) => StorageLocation::Named { storage, exists: true },
        Ok(None) => {
            let here = caches.agents.as_ref().map(|agents| agents.in_namespace(namespace)).unwrap_or_default();
            let agents: Vec<DaemonSet> = here.iter().filter_map(|agent| agent.unpack().ok()).collect();
            storage_of_agents(&agents).map_or(StorageLocation::Unknown, StorageLocation::OfAgent)
        }
    }
}

fn in_use(caches: &GraphCaches, graph: &DynamoGraphDeployment) -> BTreeSet<String> {
    let namespace = graph.namespace().unwrap_or_default();
    let components = caches.components.in_namespace(&namespace).into_iter();
    let components = components.filter_map(|d| reference(&d.unpack().ok()?.spec.component).map(str::to_owned));
    let graphs = caches.graphs.in_namespace(&namespace).into_iter().filter_map(|graph| graph.unpack().ok());
    let graphs = graphs.flat_map(|graph| names_in(&graph));
    components.chain(graphs).collect()
}

/// Names of the checkpoints that a graph's user names.
pub fn names_in(graph: &DynamoGraphDeployment) -> Vec<String> {
    graph.spec.components.iter().filter_map(reference).map(str::to_owned).collect()
}

fn reference(component: &ComponentSpec) -> Option<&str> {
    component.enabled_checkpoint()?.reference()
}

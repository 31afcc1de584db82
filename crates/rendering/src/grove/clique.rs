//! One clique: the pods of one role of a component, and the scheduler that places them.

use std::collections::BTreeMap;

use api_types::{
    annotations, env,
    grove::{self, PodCliqueTemplate, PodCliqueTemplateSpec},
    labels, names, quantity,
    v1beta1::{ComponentType, MAIN_CONTAINER},
};
use k8s_openapi::{
    api::core::v1::{Container, PodSpec, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};

use super::{
    GroveComponent, GroveGraph,
    roles::{Clique, CliqueRole},
    topology,
};
use crate::{
    DiscoveryBackend, RenderInput, ValidatedComponent,
    frameworks::{MultinodePod, Peers},
    metadata::Pairs,
    pod,
};

/// Renders a clique; `in_group` says that it is part of a scaling group, which bears the constraints then.
pub(super) fn render(
    graph: &GroveGraph<'_>,
    component: &GroveComponent<'_>,
    plan: &Clique,
    in_group: bool,
) -> PodCliqueTemplate {
    let mut clique = PodCliqueTemplate {
        name: plan.name.clone(),
        labels: clique_labels(graph, component, plan.role),
        annotations: clique_annotations(component, plan.role),
        topology_constraint: if in_group { None } else { topology::of_component(graph.spec, component.declared) },
        spec: PodCliqueTemplateSpec {
            role_name: plan.name.clone(),
            replicas: plan.replicas,
            min_available: Some(plan.min_available),
            starts_after: Vec::new(),
            pod_spec: pod_spec(component, plan),
        },
    };
    graph.grove.scheduler.take(&mut clique, graph.annotations);
    clique
}

/// Pods of all revisions have one selector: on Grove a revision replaces the other within the same clique.
fn clique_labels(graph: &GroveGraph<'_>, component: &GroveComponent<'_>, role: CliqueRole) -> Pairs {
    let valid = &component.valid;
    let mut all = valid.pod_labels(&component.input);
    let selector = names::component_deployment(graph.name, valid.component_name(), None);
    all.insert(labels::SELECTOR.to_owned(), selector);
    all.insert(labels::DYNAMO_NAMESPACE.to_owned(), valid.dynamo_namespace_for_pods());
    all.extend(component.unknown_type.map(|unknown| (labels::COMPONENT_TYPE.to_owned(), unknown.to_owned())));
    match role {
        // Nothing registers there, so discovery may ignore it.
        CliqueRole::MemoryOfRank(_) => {
            all.remove(labels::DISCOVERY_BACKEND);
            all.remove(labels::DISCOVERY_ENABLED);
        }
        CliqueRole::EngineOfRank(..) if valid.shared_gpus.is_some_and(|shared| shared.standbys > 0) => {
            all.insert(labels::FAILOVER_ENGINE.to_owned(), labels::TRUE.to_owned());
        }
        _ => {}
    }
    all
}

fn clique_annotations(component: &GroveComponent<'_>, role: CliqueRole) -> Pairs {
    let valid = &component.valid;
    let mut all = valid.annotations.clone();
    for key in [annotations::TOPOLOGY_LABEL_KEY, annotations::TOPOLOGY_NAME] {
        // They follow from the graph's policy only, and only pods that exchange caches need topology labels.
        all.remove(key);
        let own = valid.dcd.metadata.annotations.as_ref().and_then(|own| own.get(key));
        if let Some(value) = own.filter(|_| !matches!(role, CliqueRole::MemoryOfRank(_))) {
            all.insert(key.to_owned(), value.clone());
        }
    }
    let backend = valid.discovery_backend(&component.input).as_str().to_owned();
    all.insert(annotations::DISCOVERY_BACKEND.to_owned(), backend);
    component.input.restore.annotate(&mut all, valid.restore_target());
    all.extend(component.restart_at.map(|id| (annotations::RESTART_AT.to_owned(), id.to_owned())));
    all
}

fn pod_spec(component: &GroveComponent<'_>, plan: &Clique) -> PodSpec {
    let (input, valid, unknown_type) = (&component.input, &component.valid, component.unknown_type);
    let (component, nodes) = (valid.component_name(), valid.spec().node_count());
    let node = |role, peers| MultinodePod { role, nodes, peers };
    let multinode = match plan.role {
        CliqueRole::Alone | CliqueRole::MemoryOfRank(_) | CliqueRole::EngineOfRank(_, None) => None,
        CliqueRole::Node(role) => Some(node(role, Peers::Grove { component })),
        CliqueRole::EngineOfRank(rank, Some(role)) => Some(node(role, Peers::GroveRanks { component, rank })),
    };
    let mut pod = pod::render(input, valid, multinode);
    match (plan.role, valid.shared_gpus) {
        (CliqueRole::MemoryOfRank(rank), Some(shared)) => pod::hold_memory_of_rank(&mut pod, rank, shared),
        (CliqueRole::EngineOfRank(rank, _), Some(shared)) => pod::use_memory_of_rank(&mut pod, rank, shared),
        _ => {}
    }
    let main = pod.containers.iter_mut().filter(|container| container.name == MAIN_CONTAINER);
    for variable in main.flat_map(|main| main.env.iter_mut().flatten()) {
        if let Some(unknown) = unknown_type.filter(|_| variable.name == env::DYN_COMPONENT) {
            variable.value.get_or_insert_with(|| unknown.to_owned());
        }
    }
    if has_no_account(input, valid) {
        pod.service_account_name = None;
    }
    pod::add_pull_secrets(&mut pod, input, valid);
    let init_containers = pod.init_containers.iter_mut().flatten();
    pod.containers.iter_mut().chain(init_containers).for_each(complete);
    for volume in pod.volumes.iter_mut().flatten() {
        if let Some(limit) = volume.empty_dir.as_mut().and_then(|source| source.size_limit.as_mut()) {
            in_canonical_form(limit);
        }
    }
    pod
}

/// Whether no account is chosen, or the default of Kubernetes.
fn has_no_account(input: &RenderInput<'_>, valid: &ValidatedComponent<'_>) -> bool {
    let own = valid.pod.service_account_name.as_deref().is_some_and(|name| !name.is_empty());
    let of_type = matches!(valid.spec().type_, Some(ComponentType::Planner | ComponentType::Epp));
    valid.discovery_backend(input) == DiscoveryBackend::Etcd && !own && !of_type
}

/// Nothing fills in defaults within a PodCliqueSet, and Grove compares its pods by their text: they are written as the
/// reference writes them.
fn complete(container: &mut Container) {
    for port in container.ports.iter_mut().flatten() {
        port.protocol.get_or_insert_with(|| "TCP".to_owned());
    }
    let resources = container.resources.get_or_insert_with(ResourceRequirements::default);
    let amounts = [&mut resources.limits, &mut resources.requests].into_iter().flatten();
    amounts.flat_map(BTreeMap::values_mut).for_each(in_canonical_form);
}

fn in_canonical_form(amount: &mut Quantity) {
    if let Some(canonical) = quantity::canonical(&amount.0) {
        amount.0 = canonical;
    }
}

const KAI: &str = "kai-scheduler";
const KAI_DEFAULT_QUEUE: &str = "dynamo";
const VOLCANO: &str = "volcano";

/// Scheduler that places the pods of a graph, unless its user names another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// The default of Grove or of the cluster.
    #[default]
    Default,
    /// The KAI scheduler, which takes pods from queues.
    Kai,
    /// Volcano.
    Volcano,
}

impl Scheduler {
    /// Queue of the KAI scheduler in which a graph with these annotations waits; `None` with another scheduler.
    pub fn kai_queue(self, graph: &BTreeMap<String, String>) -> Option<&str> {
        let queue = || given(graph, annotations::KAI_QUEUE).unwrap_or(KAI_DEFAULT_QUEUE);
        (self == Self::Kai).then(queue)
    }

    /// Annotations of the PodCliqueSet.
    pub(super) fn annotate(self, set: &mut BTreeMap<String, String>, graph: &BTreeMap<String, String>) {
        let queue = given(graph, annotations::VOLCANO_QUEUE).filter(|_| self == Self::Volcano);
        set.extend(queue.map(|queue| (grove::VOLCANO_QUEUE.to_owned(), queue.to_owned())));
    }

    /// Hands a clique to the scheduler, unless the user chose another one.
    pub(super) fn take(self, clique: &mut PodCliqueTemplate, graph: &BTreeMap<String, String>) {
        let name = match self {
            Self::Default => return,
            Self::Kai => KAI,
            Self::Volcano => VOLCANO,
        };
        let chosen = &mut clique.spec.pod_spec.scheduler_name;
        if chosen.as_deref().is_some_and(|chosen| !chosen.is_empty() && chosen != name) {
            return;
        }
        *chosen = Some(name.to_owned());
        let queue = self.kai_queue(graph).map(|queue| (labels::KAI_QUEUE.to_owned(), queue.to_owned()));
        clique.labels.extend(queue);
    }
}

fn given<'a>(graph: &'a BTreeMap<String, String>, key: &str) -> Option<&'a str> {
    graph.get(key).map(|value| value.trim()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(key: &str, value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(key.to_owned(), value.to_owned())])
    }

    #[test]
    fn a_queue_is_the_graphs_or_the_default() {
        assert_eq!(Scheduler::Kai.kai_queue(&graph(annotations::KAI_QUEUE, " team ")), Some("team"));
        assert_eq!(Scheduler::Kai.kai_queue(&graph(annotations::KAI_QUEUE, "  ")), Some("dynamo"));
        assert_eq!(Scheduler::Volcano.kai_queue(&BTreeMap::new()), None);
        let mut set = BTreeMap::new();
        Scheduler::Kai.annotate(&mut set, &graph(annotations::VOLCANO_QUEUE, "q"));
        assert!(set.is_empty(), "Volcano's queue means nothing to others");
        Scheduler::Volcano.annotate(&mut set, &graph(annotations::VOLCANO_QUEUE, "q"));
        assert_eq!(set[grove::VOLCANO_QUEUE], "q");
    }

    #[test]
    fn the_authors_scheduler_stays() {
        for (declared, after, labelled) in
            [(None, "kai-scheduler", true), (Some("kai-scheduler"), "kai-scheduler", true), (Some("own"), "own", false)]
        {
            let mut clique = PodCliqueTemplate::default();
            clique.spec.pod_spec.scheduler_name = declared.map(str::to_owned);
            Scheduler::Kai.take(&mut clique, &BTreeMap::new());
            assert_eq!(clique.spec.pod_spec.scheduler_name.as_deref(), Some(after));
            assert_eq!(clique.labels.contains_key(labels::KAI_QUEUE), labelled);
        }
    }
}

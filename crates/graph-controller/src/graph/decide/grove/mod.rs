//! The Grove program: a graph as one PodCliqueSet. Grove makes the pods and replaces them; we say which, and how many.

pub mod generation;
mod live;

use api_types::external::VirtualService;
use api_types::grove::{PodClique, PodCliqueScalingGroup, PodCliqueSet, PodCliqueTemplate};
use api_types::names::{self, GenerationSuffix};
use api_types::v1beta1::{ComponentSpec, DynamoComponentDeployment};
use api_types::{annotations, labels};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::Ingress;
use kube::ResourceExt;
use workload::grove::{
    ChildKind, GroveComponent, GroveGraph, GroveReadiness, child_of, clique_readiness, group_readiness, render_ingress,
    render_pod_clique_set, render_ray_head_service, render_service, render_virtual_service, set_name,
};
use workload::{RunsOn, has_legacy_type, validate_on};

use self::generation::GroveTarget;
use super::Decision;
use super::component::{self, Placement, component_deployment};
use super::restart::{self, Told};
use crate::graph::observe::Observed;
use crate::graph::validate::ValidGraph;

/// What shall be done with a graph on Grove.
#[derive(Clone, Debug)]
pub struct GroveDecision {
    /// The PodCliqueSet as it shall be, without owner.
    pub set: PodCliqueSet,
    /// What Grove made and shall have other replicas.
    pub scale: Vec<Scale>,
}

/// Something that shall have other replicas.
#[derive(Clone, Debug)]
pub struct Scale {
    /// What.
    pub child: Child,
    /// Its replicas now.
    pub from: i32,
    /// Those that it shall have.
    pub to: i32,
}

/// What Grove made of a component.
#[derive(Clone, Debug)]
pub enum Child {
    /// One clique.
    PodClique(Box<PodClique>),
    /// A group of cliques.
    PodCliqueScalingGroup(Box<PodCliqueScalingGroup>),
}

/// Decides on a graph that Grove runs. Replicas never change through the PodCliqueSet: for Grove, any change of it is a
/// change of all, and would replace pods.
pub(super) fn decide(graph: &ValidGraph<'_>, observed: &Observed, decision: &mut Decision) {
    let target = generation::target(graph, observed);
    // What could be validated can be rendered; half a graph is never written.
    let told = told(graph, observed);
    let plan = restart::plan(&observed.graph, &told, observed.grove.set().is_some() && !target.unchanged);
    let marks: Vec<_> = told.iter().map(|told| plan.mark_of(told)).collect();
    let Some(rendered) = render(graph, observed, &target, &marks) else { return };
    let mut set = rendered.set;
    if graph.workers().next().is_some() {
        let fingerprint = (annotations::GENERATION_FINGERPRINT.to_owned(), target.fingerprint);
        set.metadata.annotations.get_or_insert_default().extend([fingerprint]);
    }
    decision.objects.services.extend(rendered.services);
    decision.objects.ingresses.extend(rendered.ingresses);
    decision.objects.virtual_services.extend(rendered.virtual_services);
    let name = set.name_any();
    let wanted = graph.spec.components.iter();
    let scale = wanted.filter_map(|component| scale(observed, &name, component)).collect();
    decision.rollout.target = target.suffix;
    decision.restart.clone_from(&plan.status);
    decision.grove = Some(GroveDecision { set, scale });
}

/// A graph as it would be on Grove.
struct Rendered {
    set: PodCliqueSet,
    services: Vec<Service>,
    ingresses: Vec<Ingress>,
    virtual_services: Vec<VirtualService>,
}

/// `marks` are the restarts that the components shall have gone through, in the order of the spec.
fn render(
    graph: &ValidGraph<'_>,
    observed: &Observed,
    target: &GroveTarget,
    marks: &[Option<&str>],
) -> Option<Rendered> {
    let (live, generation) = (observed.grove.set(), target.suffix.as_ref());
    let origin_version = origin_version(observed);
    let merged: Vec<DynamoComponentDeployment> = graph
        .spec
        .components
        .iter()
        .map(|component| {
            let replicas = component.wanted_replicas();
            let placement = Placement { generation, fingerprint: None, replicas, origin_version: &origin_version };
            let mut merged = component_deployment(graph, component, placement);
            merged.metadata.uid = observed.graph.uid();
            merged
        })
        .collect();
    let components: Vec<GroveComponent<'_>> = graph
        .spec
        .components
        .iter()
        .zip(&merged)
        .enumerate()
        .map(|(index, (author, merged))| {
            let clique = live.and_then(|set| live::clique_of(set, &author.name));
            Some(GroveComponent {
                author,
                valid: validate_on(RunsOn::Grove, merged).ok()?,
                unknown_type: observed.grove.unknown_types.get(&author.name).map(String::as_str),
                legacy_type_is_worker: clique.is_some_and(|clique| has_legacy_type(&clique.labels, author.type_)),
                restart_at: marks.get(index).copied().flatten(),
            })
        })
        .collect::<Option<_>>()?;
    let settings = graph.settings.grove.rendering(observed.served.kai);
    let name = live.map_or_else(|| set_name(&graph.name, &graph.spec.components), ResourceExt::name_any);
    let rendering = GroveGraph {
        name: &graph.name,
        namespace: &graph.namespace,
        annotations: graph.annotations,
        spec: graph.spec,
        set_name: &name,
        components: &components,
        pods: &graph.settings.pods,
        grove: &settings,
        pull_secrets: &observed.grove.pull_secrets,
    };
    let mut set = render_pod_clique_set(&rendering);
    if let Some(live) = live {
        if target.unchanged {
            live::keep_programs(&mut set, live);
        }
        live::keep(&mut set, live, graph.spec, |component| serves(observed, component));
    }
    let services = components.iter().flat_map(|component| {
        [render_service(&rendering, component), render_ray_head_service(&rendering, component)].into_iter().flatten()
    });
    Some(Rendered {
        services: services.collect(),
        ingresses: components.iter().filter_map(|component| render_ingress(&rendering, component)).collect(),
        virtual_services: components.iter().filter_map(|c| render_virtual_service(&rendering, c)).collect(),
        set,
    })
}

/// What the components have been told of restarts, in the order of the spec.
fn told<'a>(graph: &ValidGraph<'_>, observed: &'a Observed) -> Vec<Told<'a>> {
    let set = observed.grove.set();
    let components = graph.spec.components.iter();
    components
        .map(|component| {
            let clique = set.and_then(|set| live::clique_of(set, &component.name));
            Told {
                component: component.name.clone(),
                is_new: clique.is_none(),
                mark: clique.and_then(|clique| clique.annotations.get(annotations::RESTART_AT)).map(String::as_str),
                done: set.is_some_and(|set| runs_as_told(observed, set, component)),
            }
        })
        .collect()
}

/// Whether all pods of a component are of the set's present template and serve.
fn runs_as_told(observed: &Observed, set: &PodCliqueSet, component: &ComponentSpec) -> bool {
    let hash = set.status.as_ref().and_then(|status| status.current_generation_hash.as_ref());
    let readiness = readiness(observed, &set.name_any(), component);
    let follows = hash.is_none() || readiness.revision.complete.as_ref() == hash;
    is_observed(set) && follows && readiness.not_ready.is_none()
}

/// How far a component is, as Grove says.
pub fn readiness(observed: &Observed, set: &str, component: &ComponentSpec) -> GroveReadiness {
    let name = names::grove_child(set, &component.name);
    match (child(observed, set, component), child_of(component)) {
        (Some(Child::PodClique(clique)), _) => clique_readiness(&name, Some(&clique)),
        (Some(Child::PodCliqueScalingGroup(group)), _) => group_readiness(&name, Some(&group)),
        (None, ChildKind::PodClique) => clique_readiness(&name, None),
        (None, ChildKind::PodCliqueScalingGroup) => group_readiness(&name, None),
    }
}

/// Whether Grove has looked at the latest spec of a set.
pub fn is_observed(set: &PodCliqueSet) -> bool {
    let observed = set.status.as_ref().and_then(|status| status.observed_generation);
    observed.is_some_and(|observed| observed >= set.metadata.generation.unwrap_or(0))
}

/// Version of the operator that admitted the graph. It stands in the pods, so what is live counts first: whoever replaces
/// the graph's annotations does not replace its pods.
fn origin_version(observed: &Observed) -> String {
    let cliques = observed.grove.set().into_iter().flat_map(|set| &set.spec.template.cliques);
    let mut remembered = cliques.filter_map(|clique| clique.annotations.get(annotations::ORIGIN_VERSION));
    remembered.next().cloned().unwrap_or_else(|| component::origin_version(&observed.graph, &[]))
}

/// What Grove made of a component.
pub fn child(observed: &Observed, set: &str, component: &ComponentSpec) -> Option<Child> {
    let name = names::grove_child(set, &component.name);
    match child_of(component) {
        ChildKind::PodClique => {
            let clique = observed.grove.cliques.iter().find(|clique| clique.name_any() == name)?;
            Some(Child::PodClique(Box::new(clique.clone())))
        }
        ChildKind::PodCliqueScalingGroup => {
            let group = observed.grove.groups.iter().find(|group| group.name_any() == name)?;
            Some(Child::PodCliqueScalingGroup(Box::new(group.clone())))
        }
    }
}

fn scale(observed: &Observed, set: &str, component: &ComponentSpec) -> Option<Scale> {
    let child = child(observed, set, component)?;
    let (from, going) = match &child {
        Child::PodClique(clique) => (clique.spec.replicas, clique.metadata.deletion_timestamp.is_some()),
        Child::PodCliqueScalingGroup(group) => (group.spec.replicas, group.metadata.deletion_timestamp.is_some()),
    };
    let to = component.wanted_replicas();
    (from != to && !going).then_some(Scale { child, from, to })
}

/// Whether pods of a component serve.
fn serves(observed: &Observed, component: &ComponentSpec) -> bool {
    let Some(set) = observed.grove.set() else { return false };
    match child(observed, &set.name_any(), component) {
        Some(Child::PodClique(clique)) => clique.status.is_some_and(|status| status.ready_replicas > 0),
        Some(Child::PodCliqueScalingGroup(group)) => group.status.is_some_and(|status| status.available_replicas > 0),
        None => false,
    }
}

/// The worker generation that a clique belongs to.
pub fn generation_of(clique: &PodCliqueTemplate) -> Option<GenerationSuffix> {
    clique.labels.get(labels::WORKER_HASH).filter(|value| !value.is_empty()).map(GenerationSuffix::from_label)
}

#[cfg(test)]
mod tests;

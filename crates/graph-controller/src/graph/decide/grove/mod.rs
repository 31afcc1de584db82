//! The Grove program: a graph as one PodCliqueSet. Grove makes the pods and replaces them; we say which, and how many.

pub mod generation;
mod live;

use std::collections::BTreeSet;

use api_types::{
    annotations, conditions,
    external::VirtualService,
    grove::{ON_DELETE, PodClique, PodCliqueScalingGroup, PodCliqueSet, PodCliqueTemplate},
    labels,
    names::{self, GenerationSuffix},
    v1beta1::{ComponentReplicaStatus, ComponentSpec, DynamoComponentDeployment},
};
use k8s_openapi::api::{core::v1::Service, networking::v1::Ingress};
use kube::ResourceExt;
use workload::{
    RunsOn, ValidatedComponent,
    checkpoint::{CheckpointFacts, Restore, Start, start},
    grove::{
        ChildKind, Classification, GroveComponent, GroveGraph, GroveReadiness, NotReadyYet, child_of, clique_readiness,
        group_readiness, render_ingress, render_pod_clique_set, render_ray_head_service, render_service,
        render_virtual_service, set_name,
    },
    has_legacy_type, validate_on,
};

use self::generation::GroveTarget;
use super::{
    Decision,
    checkpoints::{self, ComponentCheckpoint},
    component::{self, Placement, component_deployment},
    restart::{self, Told},
    spread,
};
use crate::graph::{
    observe::Observed,
    validate::{Kstatus, Refusal, ValidGraph},
};

/// What shall be done with a graph on Grove.
#[derive(Clone, Debug)]
pub struct GroveDecision {
    /// The PodCliqueSet as it shall be, without owner.
    pub set: PodCliqueSet,
    /// What Grove made and shall have other replicas.
    pub scale: Vec<Scale>,
    /// Whether the live set stays as it is for now: Grove would replace pods that serve by others that must wait.
    pub held_back: bool,
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

impl Child {
    /// Replicas that it shall have.
    fn replicas(&self) -> i32 {
        match self {
            Self::PodClique(clique) => clique.spec.replicas,
            Self::PodCliqueScalingGroup(group) => group.spec.replicas,
        }
    }

    /// Whether at least one of its replicas serves.
    fn serves(&self) -> bool {
        match self {
            Self::PodClique(clique) => clique.status.as_ref().is_some_and(|status| status.ready_replicas > 0),
            Self::PodCliqueScalingGroup(group) => {
                group.status.as_ref().is_some_and(|status| status.available_replicas > 0)
            }
        }
    }

    /// Whether it is being deleted.
    fn is_going(&self) -> bool {
        let metadata = match self {
            Self::PodClique(clique) => &clique.metadata,
            Self::PodCliqueScalingGroup(group) => &group.metadata,
        };
        metadata.deletion_timestamp.is_some()
    }
}

/// Decides on a graph that Grove runs. Replicas never change through the PodCliqueSet: for Grove, any change of it is a
/// change of all, and would replace pods.
pub(super) fn decide(graph: &ValidGraph<'_>, observed: &Observed, decision: &mut Decision) {
    let known = known_domains(graph, observed).unwrap_or_default();
    if known.is_empty() || known == graph.topology_domains {
        return decide_for(graph, &generation::target(graph, observed), observed, decision);
    }
    // A level that somebody adds to the topology replaces no pod. Workers learn of it when they change for another reason.
    let as_before = ValidGraph { topology_domains: &known, ..graph.clone() };
    let target = generation::target(&as_before, observed);
    if target.unchanged {
        return decide_for(&as_before, &target, observed, decision);
    }
    decide_for(graph, &generation::target(graph, observed), observed, decision);
}

/// The domains of the cluster topology that live workers know.
fn known_domains(graph: &ValidGraph<'_>, observed: &Observed) -> Option<Vec<String>> {
    let policy = graph.spec.experimental.as_ref()?.kv_transfer_policy.as_ref()?;
    live::known_domains(observed.grove.set()?, policy)
}

fn decide_for(graph: &ValidGraph<'_>, target: &GroveTarget, observed: &Observed, decision: &mut Decision) {
    // What could be validated can be rendered; half a graph is never written.
    let told = told(graph, observed);
    let live = observed.grove.set();
    let changes = graph.workers().next().is_some() && !target.unchanged;
    // A restart rolls with whatever else changes in the template: there is no second generation that would overtake it.
    let plan = restart::plan(&observed.graph, &told, false);
    let marks: Vec<_> = told.iter().map(|told| plan.mark_of(told)).collect();
    let rendered = match render(graph, observed, target, &marks) {
        Ok(Some(rendered)) => rendered,
        Ok(None) => return,
        Err(refusal) => {
            decision.obstacle = Some(refusal);
            return;
        }
    };
    decision.checkpoints = rendered.checkpoints;
    decision.unjoined = rendered.unjoined;
    let awaited = rendered.awaited;
    let waits = |component: &ComponentSpec| awaited.contains(&component.name);
    // What serves is not replaced by pods that wait, whether they or what they start from have changed.
    let serving = graph.spec.components.iter().any(|component| waits(component) && serves(observed, component));
    let held_back = live.is_some() && !awaited.is_empty() && (changes || serving);
    let mut set = rendered.set;
    if graph.workers().next().is_some() {
        let fingerprint = (annotations::GENERATION_FINGERPRINT.to_owned(), target.fingerprint.clone());
        set.metadata.annotations.get_or_insert_default().extend([fingerprint]);
    }
    decision.objects.services.extend(rendered.services);
    decision.objects.ingresses.extend(rendered.ingresses);
    decision.objects.virtual_services.extend(rendered.virtual_services);
    let name = set.name_any();
    let wanted = graph.spec.components.iter();
    let replicas = |component: &ComponentSpec| {
        // Pods of the live set that serve are of before: they need not wait.
        let holds = waits(component) && !(held_back && serves(observed, component));
        if !holds {
            return component.wanted_replicas();
        }
        // Those that serve go on.
        let serving = child(observed, &name, component).filter(|child| child.serves());
        checkpoints::held(serving.map(|child| child.replicas()), component.wanted_replicas())
    };
    let scale = wanted.filter_map(|component| scale(observed, &name, component, replicas(component))).collect();
    if !changes && awaited.is_empty() && all_serve(observed, &set) {
        let stale = checkpoints::stale(graph, observed, &decision.checkpoints);
        decision.stale_checkpoints = stale.into_iter().cloned().collect();
    }
    // Who routes by the generation keeps to the one that serves.
    let present = live.filter(|_| held_back).and_then(|set| generation::suffix_of(graph, set));
    decision.rollout.target = present.or_else(|| target.suffix.clone());
    decision.restart.clone_from(&plan.status);
    decision.grove = Some(GroveDecision { set, scale, held_back });
}

/// A graph as it would be on Grove.
struct Rendered {
    set: PodCliqueSet,
    checkpoints: Vec<ComponentCheckpoint>,
    /// Names of the components whose pods would wait.
    awaited: BTreeSet<String>,
    /// Names of the components whose engine is not told of other nodes.
    unjoined: Vec<String>,
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
) -> Result<Option<Rendered>, Refusal> {
    let (live, generation) = (observed.grove.set(), target.suffix.as_ref());
    let origin_version = origin_version(observed);
    let checkpoints = checkpoints::checkpoints(graph, observed, generation, &origin_version);
    let merged: Vec<DynamoComponentDeployment> = graph
        .spec
        .components
        .iter()
        .map(|component| {
            let replicas = component.wanted_replicas();
            let checkpoint = checkpoints::of(&checkpoints, &component.name).map(|checkpoint| checkpoint.name.as_str());
            let origin_version = &origin_version;
            let placement = Placement { generation, replicas, origin_version, checkpoint, fingerprint: None };
            let mut merged = component_deployment(graph, component, placement);
            merged.metadata.uid = observed.graph.uid();
            merged
        })
        .collect();
    let Some(valid) = merged.iter().map(|d| validate_on(RunsOn::Grove, d).ok()).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let gpus =
        |valid: &ValidatedComponent<'_>| graph.claimed_gpus.get(valid.component_name()).copied().unwrap_or_default();
    let unjoined = valid.iter().filter(|valid| !valid.joins_nodes(gpus(valid)));
    let unjoined = unjoined.map(|valid| valid.component_name().to_owned()).collect();
    let starts = valid.iter().map(|valid| start_of(valid, &checkpoints, graph, observed));
    let starts: Vec<Start> = starts.collect::<Result<_, _>>()?;
    let names = graph.spec.components.iter().map(|component| &component.name);
    let waits = |name: &str| checkpoints::of(&checkpoints, name).is_some_and(|one| one.awaited.is_some());
    let awaited = names.zip(&starts).filter(|(name, start)| matches!(start, Start::Awaited(_)) || waits(name));
    let awaited = awaited.map(|(name, _)| name.clone()).collect();
    let authors: Vec<ComponentSpec> = graph.spec.components.iter().zip(&starts).map(until_it_starts).collect();
    let components: Vec<GroveComponent<'_>> = authors
        .iter()
        .zip(valid)
        .enumerate()
        .map(|(index, (author, valid))| {
            let clique = live.and_then(|set| live::clique_of(set, &author.name));
            GroveComponent {
                author,
                valid,
                restore: starts.get(index).map_or(Restore::None, Start::as_restore),
                unknown_type: observed.grove.unknown_types.get(&author.name).map(String::as_str),
                legacy_type_is_worker: clique.is_some_and(|clique| has_legacy_type(&clique.labels, author.type_)),
                restart_at: marks.get(index).copied().flatten(),
                claimed_gpus: graph.claimed_gpus.get(author.name.as_str()).copied().unwrap_or_default(),
            }
        })
        .collect();
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
    for clique in &mut set.spec.template.cliques {
        let old = live.and_then(|set| set.spec.template.cliques.iter().find(|old| old.name == clique.name));
        spread::scope_clique(clique, old);
    }
    if let Some(live) = live {
        if target.unchanged {
            live::keep_programs(&mut set, live);
        }
        live::keep(&mut set, live, graph.spec, |component| serves(observed, component));
    }
    let services = components.iter().flat_map(|component| {
        [render_service(&rendering, component), render_ray_head_service(&rendering, component)].into_iter().flatten()
    });
    Ok(Some(Rendered {
        services: services.collect(),
        ingresses: components.iter().filter_map(|component| render_ingress(&rendering, component)).collect(),
        virtual_services: components.iter().filter_map(|c| render_virtual_service(&rendering, c)).collect(),
        set,
        awaited,
        unjoined,
        checkpoints,
    }))
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
    is_observed(set) && readiness(observed, &set.name_any(), component).not_ready.is_none()
}

/// Readiness of a component, as Grove reports it. Counts may be full, and of pods of before: Grove says of which template they
/// are, and counts no pods that drain.
pub fn readiness(observed: &Observed, set: &str, component: &ComponentSpec) -> GroveReadiness {
    let mut readiness = counted(observed, set, component);
    let live = observed.grove.set();
    let accepted = live.and_then(|set| set.status.as_ref()?.current_generation_hash.as_ref());
    let on_delete = live.and_then(|set| set.spec.update_strategy.as_ref()).is_some_and(|s| s.type_ == ON_DELETE);
    let updating = |message| Some(NotReadyYet { classification: Classification::Updating, message });
    match &mut readiness.not_ready {
        None => {
            let left = observed.grove.running_pods.get(&component.name).filter(|_| component.wanted_replicas() == 0);
            if let Some(left) = left {
                readiness.not_ready = updating(format!("{left} pods that are no longer wanted are still there"));
            } else if accepted.is_some_and(|accepted| readiness.revision.is_behind(accepted)) {
                let message = "Grove has not confirmed yet that its pods have the current template";
                readiness.not_ready = updating(message.to_owned());
            }
        }
        Some(why) if on_delete && why.classification == Classification::Updating => {
            let ComponentReplicaStatus { replicas, updated_replicas, .. } = readiness.replicas;
            if updated_replicas < replicas {
                why.message += "; with the update strategy OnDelete, Grove replaces a pod when it is deleted";
            }
        }
        Some(_) => {}
    }
    readiness
}

fn counted(observed: &Observed, set: &str, component: &ComponentSpec) -> GroveReadiness {
    let name = names::grove_child(set, &component.name);
    match (child(observed, set, component), child_of(component)) {
        (Some(Child::PodClique(clique)), _) => clique_readiness(&name, Some(&clique)),
        (Some(Child::PodCliqueScalingGroup(group)), _) => group_readiness(&name, Some(&group)),
        (None, ChildKind::PodClique) => clique_readiness(&name, None),
        (None, ChildKind::PodCliqueScalingGroup) => group_readiness(&name, None),
    }
}

/// Whether Grove has completed a reconcile of the latest spec of a set.
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

/// How the pods of a component start.
///
/// # Errors
/// What the author has to change.
fn start_of(
    valid: &ValidatedComponent<'_>,
    checkpoints: &[ComponentCheckpoint],
    graph: &ValidGraph<'_>,
    observed: &Observed,
) -> Result<Start, Refusal> {
    let name = valid.component_name();
    let Some(checkpoint) = checkpoints::of(checkpoints, name) else { return Ok(Start::Cold) };
    let live = observed.checkpoints.named(&checkpoint.name);
    if live.is_none() && checkpoint.awaited.is_none() {
        // It is made in this pass; admission looks for it whenever a pod is made.
        return Ok(Start::AtAdmission(checkpoint.name.clone()));
    }
    let facts = CheckpointFacts {
        namespace: graph.namespace.clone(),
        settings: graph.settings.snapshots.clone(),
        live: live.cloned(),
        place: observed.checkpoints.place.clone(),
    };
    start(valid, &facts).map_err(|mistake| Refusal {
        ready_reason: conditions::graph::FAILED,
        kstatus: Kstatus::Stalled(conditions::graph::INVALID_SPEC),
        message: format!("spec.components[{name}]: {mistake}"),
    })
}

/// The component as it is first made. Grove takes no template without pods: as few as it takes, until they are scaled away.
fn until_it_starts((author, start): (&ComponentSpec, &Start)) -> ComponentSpec {
    let mut author = author.clone();
    if matches!(start, Start::Awaited(_)) {
        author.replicas = Some(0);
    }
    author
}

/// Whether all pods are of the live set, as it shall be, and serve.
fn all_serve(observed: &Observed, set: &PodCliqueSet) -> bool {
    let name = set.name_any();
    let serves = |component: &ComponentSpec| readiness(observed, &name, component).not_ready.is_none();
    observed.grove.set().is_some_and(is_observed) && observed.graph.spec.components.iter().all(serves)
}

fn scale(observed: &Observed, set: &str, component: &ComponentSpec, to: i32) -> Option<Scale> {
    let child = child(observed, set, component)?;
    let from = child.replicas();
    (from != to && !child.is_going()).then_some(Scale { child, from, to })
}

/// Whether pods of a component serve.
fn serves(observed: &Observed, component: &ComponentSpec) -> bool {
    let set = observed.grove.set();
    set.and_then(|set| child(observed, &set.name_any(), component)).is_some_and(|child| child.serves())
}

/// The worker generation that a clique belongs to.
pub fn generation_of(clique: &PodCliqueTemplate) -> Option<GenerationSuffix> {
    clique.labels.get(labels::WORKER_HASH).filter(|value| !value.is_empty()).map(GenerationSuffix::from_label)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod checkpoint_tests;

#[cfg(test)]
mod topology_tests;

//! The Grove provider: a graph as one PodCliqueSet. Grove makes the pods and replaces them; we say which, and how many.

mod live;

use std::collections::BTreeSet;

use api_types::{
    annotations, conditions,
    external::VirtualService,
    grove::PodCliqueSet,
    v1beta1::{ComponentSpec, DynamoComponentDeployment},
};
use k8s_openapi::api::{core::v1::Service, networking::v1::Ingress};
use kube::ResourceExt;
use live::GroveTarget;
use rendering::{
    RenderInput, ValidatedComponent, WorkloadProvider,
    checkpoint::{CheckpointFacts, Start, start},
    grove::{
        GroveComponent, GroveGraph, render_ingress, render_pod_clique_set, render_ray_head_service, render_service,
        render_virtual_service, set_name,
    },
    has_legacy_type, validate_on,
};

use super::{checkpoints, restart, restart::RestartState, spread};
use crate::graph::{
    grove::{child, is_observed, readiness},
    merge,
    merge::{PlannedFields, component_deployment},
    model::{ComponentCheckpoint, GraphObserved, GraphObstacle, GraphPlan, GrovePlan, GroveScale, ValidGraph},
};

/// Plans a graph that Grove runs. Replicas never change through the PodCliqueSet: for Grove, any change of it is a
/// change of all, and would replace pods.
pub(super) fn plan(graph: &ValidGraph<'_>, observed: &GraphObserved, plan: &mut GraphPlan) {
    let with_policy = graph.spec.kv_transfer_policy().zip(observed.grove.set());
    let known = with_policy.and_then(|(policy, set)| live::known_domains(set, policy)).unwrap_or_default();
    if known.is_empty() || known == graph.topology_domains {
        return plan_target(graph, &live::target(graph, observed), observed, plan);
    }
    // A level that is added to the topology replaces no pod. Workers learn of it when they change for another
    // reason.
    let as_before = ValidGraph { topology_domains: &known, ..graph.clone() };
    let target = live::target(&as_before, observed);
    if target.unchanged {
        return plan_target(&as_before, &target, observed, plan);
    }
    plan_target(graph, &live::target(graph, observed), observed, plan);
}

fn plan_target(graph: &ValidGraph<'_>, target: &GroveTarget, observed: &GraphObserved, plan: &mut GraphPlan) {
    // What could be validated can be rendered; half a graph is never written.
    let states = restart_states(graph, observed);
    let live = observed.grove.set();
    let changes = graph.workers().next().is_some() && !target.unchanged;
    // A restart rolls with whatever else changes in the template: there is no second revision that would overtake it.
    let restart = restart::plan(&observed.graph, &states, false);
    let marks: Vec<_> = states.iter().map(|state| restart.mark_of(state)).collect();
    let rendered = match render(graph, observed, target, &marks) {
        Ok(Some(rendered)) => rendered,
        Ok(None) => return,
        Err(obstacle) => {
            plan.obstacle = Some(obstacle);
            return;
        }
    };
    plan.checkpoints = rendered.checkpoints;
    plan.unjoined = rendered.unjoined;
    let awaited = rendered.awaited;
    let waits = |component: &ComponentSpec| awaited.contains(&component.name);
    // What serves is not replaced by pods that wait, whether they or what they start from have changed.
    let serving = graph.spec.components.iter().any(|component| waits(component) && serves(observed, component));
    let held_back = live.is_some() && !awaited.is_empty() && (changes || serving);
    let mut set = rendered.set;
    if graph.workers().next().is_some() {
        let fingerprint = (annotations::REVISION_FINGERPRINT.to_owned(), target.fingerprint.clone());
        set.metadata.annotations.get_or_insert_default().extend([fingerprint]);
    }
    plan.objects.services.extend(rendered.services);
    plan.objects.ingresses.extend(rendered.ingresses);
    plan.objects.virtual_services.extend(rendered.virtual_services);
    let name = set.name_any();
    let desired = graph.spec.components.iter();
    let replicas = |component: &ComponentSpec| {
        // Pods of the live set that serve are of before: they need not wait.
        let holds = waits(component) && !(held_back && serves(observed, component));
        if !holds {
            return component.desired_replicas();
        }
        // Those that serve go on.
        let serving = child(observed, &name, component).filter(|child| child.serves());
        checkpoints::held(serving.map(|child| child.replicas()), component.desired_replicas())
    };
    let scale = desired.filter_map(|component| scale(observed, &name, component, replicas(component))).collect();
    if !changes && awaited.is_empty() && all_serve(observed, &set) {
        plan.stale_checkpoints = checkpoints::stale(graph, observed, &plan.checkpoints);
    }
    // Who routes by the revision keeps to the one that serves.
    let present = live.filter(|_| held_back).and_then(|set| live::suffix_of(graph, set));
    plan.rollout.target = present.or_else(|| target.suffix.clone());
    plan.restart.clone_from(&restart.status);
    plan.grove = Some(GrovePlan { set, scale, held_back });
}

/// A graph as it would be on Grove.
struct Rendered {
    set: PodCliqueSet,
    checkpoints: Vec<ComponentCheckpoint>,
    /// Names of the components whose pods would wait.
    awaited: BTreeSet<String>,
    /// Names of the components whose engine gets no flags for other nodes.
    unjoined: Vec<String>,
    services: Vec<Service>,
    ingresses: Vec<Ingress>,
    virtual_services: Vec<VirtualService>,
}

/// `marks` are the restarts that the components must have gone through, in the order of the spec.
fn render(
    graph: &ValidGraph<'_>,
    observed: &GraphObserved,
    target: &GroveTarget,
    marks: &[Option<&str>],
) -> Result<Option<Rendered>, GraphObstacle> {
    let (live, revision) = (observed.grove.set(), target.suffix.as_ref());
    let origin_version = origin_version(observed);
    let checkpoints = checkpoints::checkpoints(graph, observed, revision, &origin_version);
    let merged = graph.spec.components.iter().map(|component| {
        let (replicas, origin_version) = (component.desired_replicas(), &origin_version);
        let checkpoint = checkpoints::of(&checkpoints, &component.name).map(|checkpoint| checkpoint.name.as_str());
        let placement = PlannedFields { revision, replicas, origin_version, checkpoint, ..PlannedFields::default() };
        let mut merged = component_deployment(graph, component, placement);
        merged.metadata.uid = observed.graph.uid();
        merged
    });
    let merged: Vec<DynamoComponentDeployment> = merged.collect();
    let Some(valid) = merged.iter().map(|d| validate_on(WorkloadProvider::Grove, d).ok()).collect::<Option<Vec<_>>>()
    else {
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
    let specs: Vec<ComponentSpec> = graph.spec.components.iter().zip(&starts).map(until_it_starts).collect();
    let components = specs.iter().zip(valid).enumerate().map(|(index, (declared, valid))| {
        let clique = live.and_then(|set| live::clique_of(set, &declared.name));
        GroveComponent {
            declared,
            unknown_type: observed.grove.unknown_types.get(&declared.name).map(String::as_str),
            restart_at: marks.get(index).copied().flatten(),
            input: RenderInput {
                settings: &graph.settings.pods,
                pull_secrets: &observed.grove.pull_secrets,
                fallback_service_account: None,
                legacy_type_is_worker: has_legacy_type(clique.map(|clique| &clique.labels), declared.type_),
                restore: starts.get(index).unwrap_or(&Start::Cold),
                claimed_gpus: gpus(&valid),
            },
            valid,
        }
    });
    let components: Vec<GroveComponent<'_>> = components.collect();
    let settings = graph.settings.grove.rendering(observed.served.kai);
    let name = live.map_or_else(|| set_name(&graph.name, &graph.spec.components), ResourceExt::name_any);
    let rendering = GroveGraph {
        name: &graph.name,
        namespace: &graph.namespace,
        annotations: graph.annotations,
        spec: graph.spec,
        set_name: &name,
        components: &components,
        grove: &settings,
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
        ingresses: components.iter().filter_map(render_ingress).collect(),
        virtual_services: components.iter().filter_map(render_virtual_service).collect(),
        set,
        awaited,
        unjoined,
        checkpoints,
    }))
}

/// Returns the progress of the components in the restart, in the order of the spec.
fn restart_states<'a>(graph: &ValidGraph<'_>, observed: &'a GraphObserved) -> Vec<RestartState<'a>> {
    let set = observed.grove.set();
    let states = graph.spec.components.iter().map(|component| {
        let clique = set.and_then(|set| live::clique_of(set, &component.name));
        RestartState {
            component: component.name.clone(),
            is_new: clique.is_none(),
            mark: clique.and_then(|clique| clique.annotations.get(annotations::RESTART_AT)).map(String::as_str),
            done: set.is_some_and(|set| is_rolled_out(observed, set, component)),
        }
    });
    states.collect()
}

/// Whether all pods of a component are of the set's present template and serve.
fn is_rolled_out(observed: &GraphObserved, set: &PodCliqueSet, component: &ComponentSpec) -> bool {
    is_observed(set) && readiness(observed, &set.name_any(), component).not_ready.is_none()
}

/// Version of the operator that admitted the graph. The pods have it, so what is live counts first: a user
/// who replaces the graph's annotations does not replace its pods.
fn origin_version(observed: &GraphObserved) -> String {
    let cliques = observed.grove.set().into_iter().flat_map(|set| &set.spec.template.cliques);
    let mut remembered = cliques.filter_map(|clique| clique.annotations.get(annotations::ORIGIN_VERSION));
    remembered.next().cloned().unwrap_or_else(|| merge::origin_version(&observed.graph, &[]))
}

/// Determines how the pods of a component start.
///
/// # Errors
/// The change that the user has to make.
fn start_of(
    valid: &ValidatedComponent<'_>,
    checkpoints: &[ComponentCheckpoint],
    graph: &ValidGraph<'_>,
    observed: &GraphObserved,
) -> Result<Start, GraphObstacle> {
    let name = valid.component_name();
    let Some(checkpoint) = checkpoints::of(checkpoints, name) else { return Ok(Start::Cold) };
    let live = observed.checkpoints.named(&checkpoint.name);
    if live.is_none() && checkpoint.awaited.is_none() {
        // It is made in this pass; admission looks for it whenever a pod is made.
        return Ok(Start::AtAdmission(checkpoint.name.clone()));
    }
    let facts = CheckpointFacts {
        namespace: graph.namespace.clone(),
        settings: graph.settings.checkpoints.clone(),
        live: live.cloned(),
        place: observed.checkpoints.place.clone(),
    };
    start(valid, &facts).map_err(|violation| {
        let message = format!("spec.components[{name}]: {violation}");
        GraphObstacle::stalled(conditions::graph::FAILED, conditions::graph::INVALID_SPEC, message)
    })
}

/// The component as it is first made. Grove takes no template without pods: as few as it takes, until they are scaled
/// away.
fn until_it_starts((declared, start): (&ComponentSpec, &Start)) -> ComponentSpec {
    let mut declared = declared.clone();
    if matches!(start, Start::Awaited(_)) {
        declared.replicas = Some(0);
    }
    declared
}

/// Whether all pods are of the live set in its desired form, and serve.
fn all_serve(observed: &GraphObserved, set: &PodCliqueSet) -> bool {
    let name = set.name_any();
    let serves = |component: &ComponentSpec| readiness(observed, &name, component).not_ready.is_none();
    observed.grove.set().is_some_and(is_observed) && observed.graph.spec.components.iter().all(serves)
}

fn scale(observed: &GraphObserved, set: &str, component: &ComponentSpec, to: i32) -> Option<GroveScale> {
    let child = child(observed, set, component)?;
    let from = child.replicas();
    (from != to && child.metadata().deletion_timestamp.is_none()).then_some(GroveScale { child, from, to })
}

/// Whether pods of a component serve.
fn serves(observed: &GraphObserved, component: &ComponentSpec) -> bool {
    let set = observed.grove.set();
    set.and_then(|set| child(observed, &set.name_any(), component)).is_some_and(|child| child.serves())
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod checkpoint_tests;

#[cfg(test)]
mod topology_tests;

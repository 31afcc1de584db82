//! Status of a graph on Grove. Pure.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api_types::{
    conditions as c, grove,
    grove::{PodCliqueSet, UpdateProgress},
    names,
    v1beta1::{ComponentReplicaStatus, ComponentSpec, DynamoGraphDeployment},
};
use controller_kit::conditions::{Status, find};
use kube::ResourceExt;
use rendering::{
    PodCause, PodDiagnosis,
    grove::{Classification, GroveReadiness, has_topology},
};

use super::draft::Draft;
use crate::graph::{
    grove::{cliques_of, is_observed, readiness, revision_of},
    model::{GraphApplied, GraphObserved, GrovePlan},
};

/// Whether pods of a graph on Grove do not serve and must be diagnosed.
pub fn waits_for_pods(observed: &GraphObserved, plan: &GrovePlan) -> bool {
    let waits = |readiness: &GroveReadiness| {
        let is_reconciled = readiness.not_ready.as_ref().is_some_and(|(why, _)| *why != Classification::NotLookedAt);
        readiness.lacks_pods || is_reconciled
    };
    all_readiness(observed, &plan.set.name_any()).iter().any(|(_, readiness)| waits(readiness))
}

/// Sets the progress of a graph on Grove.
pub(super) fn set_progress(draft: &mut Draft, observed: &GraphObserved, plan: &GrovePlan, applied: &GraphApplied) {
    let (graph, set) = (&observed.graph, applied.grove.as_ref());
    let name = plan.set.name_any();
    let mut all = all_readiness(observed, &name);
    for scale in &plan.scale {
        // Just scaled; the counts are older.
        let child = &scale.child.metadata().name;
        let is_scaled = |component: &ComponentSpec| *child == Some(names::grove_child(&name, &component.name));
        if let Some((_, readiness)) = all.iter_mut().find(|(component, _)| is_scaled(component)) {
            let message = format!("{} replicas become {}", scale.from, scale.to);
            readiness.not_ready = Some((Classification::Updating, message));
        }
    }
    draft.status.components = components(graph, set, &all);
    topology(draft, graph, set);

    let mut obstacles: Vec<(Classification, String)> = Vec::new();
    if let Some(set) = set.filter(|set| !is_observed(set)) {
        // The observed revision lags until an update has ended.
        let updating = set.status.as_ref().and_then(|status| status.update_progress.as_ref());
        let (classification, text) = if updating.is_some_and(UpdateProgress::is_running) {
            (Classification::Updating, "Grove replaces pods of an older template")
        } else {
            (Classification::NotLookedAt, "Grove has not reconciled the latest spec yet")
        };
        obstacles.push((classification, format!("PodCliqueSet {}: {text}{}", set.name_any(), errors(set))));
    }
    for (component, readiness) in &all {
        if let Some(why) = &readiness.not_ready {
            let (classification, what) = explained(why, applied.troubles.get(&component.name));
            obstacles.push((classification, format!("{name}: {}: {what}", component.name)));
        }
    }
    obstacles.extend(applied.tally.waiting.iter().map(|why| (Classification::NotLookedAt, why.clone())));
    let Some((first, _)) = obstacles.first() else { return draft.settle() };
    let alike = obstacles.iter().all(|(classification, _)| classification == first);
    let reason = if alike { reason(*first) } else { c::graph::MIXED };
    let texts: Vec<_> = obstacles.iter().map(|(_, text)| text.as_str()).collect();
    draft.progress(reason, &format!("Resources not ready: {}", texts.join("; ")));
    let unready = all.iter().filter(|(_, readiness)| readiness.not_ready.is_some());
    let troubles = unready.filter_map(|(component, _)| Some((component, applied.troubles.get(&component.name)?)));
    let urgent = troubles.filter(|(_, trouble)| !trouble.cause.is_expected()).min_by_key(|(_, trouble)| trouble.cause);
    if let Some((component, trouble)) = urgent {
        let message = format!("{}: {}", component.name, trouble.message);
        draft.set(c::RECONCILING, true, trouble.cause.reason(), &message);
    }
}

/// Explains why a component is not ready, with the diagnosis of its pods. Grove's count of gated pods may be older than
/// the pods.
fn explained(why: &(Classification, String), trouble: Option<&PodDiagnosis>) -> (Classification, String) {
    let (classification, message) = why;
    match trouble {
        None => why.clone(),
        Some(trouble) if *classification == Classification::Gated && trouble.cause != PodCause::Gated => {
            let unplaced = trouble.cause == PodCause::Unschedulable;
            let classification = if unplaced { Classification::Capacity } else { Classification::Pods };
            (classification, trouble.message.clone())
        }
        Some(trouble) => (*classification, format!("{message}; {}", trouble.message)),
    }
}

/// Counts of a graph with an obstacle.
pub(super) fn counts(observed: &GraphObserved) -> BTreeMap<String, ComponentReplicaStatus> {
    let Some(set) = observed.grove.set() else { return BTreeMap::new() };
    components(&observed.graph, Some(set), &all_readiness(observed, &set.name_any()))
}

fn reason(classification: Classification) -> &'static str {
    match classification {
        Classification::NotLookedAt => c::graph::SOME_NOT_READY,
        Classification::Gated | Classification::Capacity => c::graph::INSUFFICIENT_CAPACITY,
        Classification::Updating => c::graph::UPDATING,
        Classification::Pods => c::graph::PODS_NOT_READY,
    }
}

fn all_readiness<'a>(observed: &'a GraphObserved, set: &str) -> Vec<(&'a ComponentSpec, GroveReadiness)> {
    let components = observed.graph.spec.components.iter();
    components.map(|component| (component, readiness(observed, set, component))).collect()
}

/// Counts by component. Those who route by a worker's Dynamo namespace must not lose the workers that serve: it changes
/// for all workers at once, when all of them run the set's present template.
fn components(
    graph: &DynamoGraphDeployment,
    set: Option<&PodCliqueSet>,
    all: &[(&ComponentSpec, GroveReadiness)],
) -> BTreeMap<String, ComponentReplicaStatus> {
    let accepted =
        set.filter(|set| is_observed(set)).and_then(|set| set.status.as_ref()?.current_generation_hash.as_ref());
    let mut workers = all.iter().filter(|(component, _)| component.is_worker());
    let complete = accepted.is_some() && workers.all(|(_, readiness)| readiness.revision.complete.as_ref() == accepted);
    let before = graph.status.as_ref().map(|status| &status.components);
    let of = |component: &ComponentSpec, readiness: &GroveReadiness| {
        let global = component.global_dynamo_namespace;
        let base = names::dynamo_namespace(&graph.namespace().unwrap_or_default(), &graph.name_any(), global);
        let runtime_namespace = if !component.is_worker() {
            Some(base)
        } else if complete {
            let revision = set.and_then(|set| cliques_of(set, &component.name).find_map(revision_of));
            Some(names::runtime_namespace(&base, revision.as_ref().map(|suffix| suffix.as_str())))
        } else {
            before.and_then(|all| all.get(&component.name)?.runtime_namespace.clone())
        };
        ComponentReplicaStatus { runtime_namespace, ..readiness.replicas.clone() }
    };
    all.iter().map(|(component, readiness)| (component.name.clone(), of(component, readiness))).collect()
}

fn errors(set: &PodCliqueSet) -> String {
    let errors = set.status.iter().flat_map(|status| &status.last_errors);
    errors.map(|error| format!("; {}: {}", error.code, error.description)).collect()
}

/// Sets the condition that says whether the topology exists, as Grove reports it.
fn topology(draft: &mut Draft, graph: &DynamoGraphDeployment, set: Option<&PodCliqueSet>) {
    let type_ = c::TOPOLOGY_AVAILABLE;
    let Some(set) = set.filter(|_| has_topology(&graph.spec)) else { return draft.remove(type_) };
    let conditions = set.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let found = find(conditions, grove::conditions::TOPOLOGY_LEVELS_UNAVAILABLE);
    let (holds, reason, message) = match found {
        None => (Status::Unknown, c::graph::TOPOLOGY_PENDING, "Grove has not reported the topology yet"),
        Some(found) if found.status == "True" => {
            let whole = found.reason == grove::conditions::CLUSTER_TOPOLOGY_NOT_FOUND;
            let reason = if whole { c::graph::TOPOLOGY_NOT_FOUND } else { c::graph::TOPOLOGY_LEVELS_UNAVAILABLE };
            (Status::False, reason, found.message.as_str())
        }
        Some(_) => (Status::True, c::graph::ALL_TOPOLOGY_LEVELS, "All requested levels exist"),
    };
    draft.set(type_, holds, reason, message);
}

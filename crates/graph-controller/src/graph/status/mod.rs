//! Computes a graph's status from what is live after the writes, never from the plan alone.

mod draft;
pub mod grove;
pub mod rejection;
mod rollout;

use std::collections::{BTreeMap, BTreeSet};

use api_types::{
    conditions as c,
    v1beta1::{
        ComponentReplicaStatus, DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentStatus,
        GraphState, MAIN_CONTAINER,
    },
};
use controller_kit::conditions::{find, is_true};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};
use kube::ResourceExt;
use rejection::unserved_fields;
use rendering::WorkloadProvider;

use self::{
    draft::Draft,
    rollout::{held, rolling_update, rollout_progressing},
};
use crate::graph::model::{ClusterApis, GraphApplied, GraphObserved, GraphObstacle, GraphPlan, is_current, is_stalled};

/// Status of a graph after the writes of its plan.
pub fn status(
    observed: &GraphObserved,
    plan: &GraphPlan,
    applied: &GraphApplied,
    rejection: Option<&GraphObstacle>,
    now: Timestamp,
) -> DynamoGraphDeploymentStatus {
    if let Some(obstacle) = &plan.obstacle {
        return of_obstacle(observed, obstacle, now);
    }
    let mut draft = begin(observed, now);
    draft.status.restart = plan.restart.clone();
    let checkpoints = plan.checkpoints.iter();
    draft.status.checkpoints = checkpoints.map(|one| (one.component.clone(), one.status())).collect();
    match &plan.grove {
        Some(on_grove) => {
            grove::set_progress(&mut draft, observed, on_grove, applied);
            nodes_joined(&mut draft, &plan.unjoined);
            if let Some(message) = checkpoints_awaited(plan) {
                wait_for_checkpoints(&mut draft, plan, &message);
            }
        }
        None => set_progress_of_components(&mut draft, plan, applied),
    }
    if let Some(rejection) = rejection {
        draft.obstruct(rejection);
    }
    draft.status
}

/// Sets the progress of a graph that runs as components.
fn set_progress_of_components(draft: &mut Draft, plan: &GraphPlan, applied: &GraphApplied) {
    let by_name: BTreeMap<_, _> = applied.live.iter().map(|d| (d.name_any(), d)).collect();
    let desired: Vec<_> = plan.components.iter().filter_map(|d| by_name.get(&d.name_any()).copied()).collect();
    let old: Vec<_> = plan.rollout.old.iter().filter_map(|name| by_name.get(name).copied()).collect();

    let unjoined =
        desired.iter().filter(|d| condition(d, c::component::NODES_JOINED).is_some_and(|c| c.status == "False"));
    let unjoined: Vec<_> = unjoined.map(|d| d.spec.component.name.clone()).collect();
    nodes_joined(draft, &unjoined);
    draft.status.components = components(&desired, &old);
    rolling_update(draft, &plan.rollout);
    rollout_progressing(draft, &plan.rollout);

    let mut waiting = applied.tally.waiting.clone();
    waiting.extend(waiting_for(plan, &by_name));
    waiting.extend(plan.rollout.waits.iter().cloned());
    if let Some(obstacle) = desired.iter().find_map(|d| obstacle_of(d)) {
        draft.obstruct(&obstacle);
        // The other components continue, so the graph has not failed.
        draft.status.state = GraphState::Pending;
    } else if let Some(message) = checkpoints_awaited(plan) {
        wait_for_checkpoints(draft, plan, &message);
    } else if let Some(hold) = &plan.rollout.hold {
        held(draft, hold, &waiting);
    } else if plan.rollout.in_progress() {
        let message = match waiting.is_empty() {
            true => "Rolling update in progress".to_owned(),
            false => format!("Rolling update in progress: {}", waiting.join("; ")),
        };
        draft.progress(c::graph::ROLLING_UPDATE, &message);
    } else if !waiting.is_empty() {
        draft.progress(c::graph::SOME_NOT_READY, &format!("Resources not ready: {}", waiting.join("; ")));
    } else {
        draft.settle();
    }
    if draft.status.state == GraphState::Pending
        && let Some((reason, message)) = trouble_of(&desired, &old)
        && is_true(&draft.status.conditions, c::RECONCILING)
    {
        draft.set(c::RECONCILING, true, reason, &message);
    }
}

/// The previous status, with what does not depend on a plan.
fn begin(observed: &GraphObserved, now: Timestamp) -> Draft {
    let mut draft = carried_over(&observed.graph, observed.provider, observed.served, now);
    set_mpi_key_condition(&mut draft, observed);
    draft
}

/// Sets the condition that names the missing SSH key for MPI. The webhook server reads it and creates the Secret; pods
/// that mount the Secret wait for it.
fn set_mpi_key_condition(draft: &mut Draft, observed: &GraphObserved) {
    let graph = &observed.graph;
    let namespace = graph.namespace().unwrap_or_default();
    let spans_nodes = graph.spec.components.iter().any(|component| component.is_multinode());
    let Some(key) = observed.missing_key.as_ref().filter(|_| spans_nodes) else {
        return draft.remove(c::MPI_KEY_AVAILABLE);
    };
    let message = format!(
        "Secret {namespace}/{key}: it holds the SSH key for MPI and does not exist; the webhook server makes it; make it yourself where none runs"
    );
    draft.set(c::MPI_KEY_AVAILABLE, false, c::graph::SECRET_MISSING, &message);
}

/// Sets the condition only where it is false. It blocks nothing: the user's program may join the nodes by itself.
fn nodes_joined(draft: &mut Draft, unjoined: &[String]) {
    if unjoined.is_empty() {
        return draft.remove(c::component::NODES_JOINED);
    }
    let message = format!(
        "spec.components[{}]: container {MAIN_CONTAINER} starts no `python … -m dynamo.<engine>` to which the flags could be \
         added that join the nodes of a replica; a program that joins them by itself needs none",
        unjoined.join(", ")
    );
    draft.set(c::component::NODES_JOINED, false, c::component::ENGINE_NOT_FOUND, &message);
}

/// The checkpoints that components wait for.
fn checkpoints_awaited(plan: &GraphPlan) -> Option<String> {
    let awaited = plan.checkpoints.iter().filter_map(|one| Some((&one.component, one.awaited.as_ref()?)));
    let lines: Vec<_> = awaited.map(|(component, what)| format!("{component} waits for {what}")).collect();
    (!lines.is_empty()).then(|| format!("Waiting for checkpoints: {}", lines.join("; ")))
}

/// A failed checkpoint stalls the graph.
fn wait_for_checkpoints(draft: &mut Draft, plan: &GraphPlan, message: &str) {
    let reason = c::graph::WAITING_FOR_CHECKPOINT;
    if plan.checkpoints.iter().any(|one| one.failed && one.awaited.is_some()) {
        draft.stall(reason, c::graph::CHECKPOINT_FAILED, message);
        // The other components continue, so the graph has not failed.
        draft.status.state = GraphState::Pending;
    } else {
        draft.progress(reason, message);
    }
}

/// The most urgent trouble of the components. Of old revisions only an unavailable webhook counts, because it blocks
/// their scale-down: their pods are deleted anyway.
fn trouble_of(
    desired: &[&DynamoComponentDeployment],
    old: &[&DynamoComponentDeployment],
) -> Option<(&'static str, String)> {
    const WEBHOOK: [&str; 1] = [c::component::WEBHOOK_UNAVAILABLE];
    let all = desired.iter().map(|d| (d, &c::component::TROUBLES[..])).chain(old.iter().map(|d| (d, &[][..])));
    let troubled = all.filter(|(d, _)| is_current(d)).filter_map(|(d, troubles)| {
        let reconciling = condition(d, c::RECONCILING).filter(|reconciling| reconciling.status == "True")?;
        let mut reasons = WEBHOOK.iter().chain(troubles).enumerate();
        let (urgency, reason) = reasons.find(|(_, reason)| **reason == reconciling.reason)?;
        Some((urgency, *reason, format!("{}: {}", d.name_any(), reconciling.message)))
    });
    troubled.min_by_key(|(urgency, ..)| *urgency).map(|(_, reason, message)| (reason, message))
}

/// Status of a graph with an obstacle. Live objects stay unchanged and in the status.
pub fn of_obstacle(observed: &GraphObserved, obstacle: &GraphObstacle, now: Timestamp) -> DynamoGraphDeploymentStatus {
    let mut draft = begin(observed, now);
    // What is desired is unknown, so every object counts, the newest of a component as its current one.
    let mut live: Vec<_> = observed.present().collect();
    live.sort_by_key(|d| std::cmp::Reverse(d.metadata.creation_timestamp.clone()));
    let mut seen = BTreeSet::new();
    let (newest, older): (Vec<_>, Vec<_>) = live.into_iter().partition(|d| seen.insert(d.spec.component.name.clone()));
    draft.status.components = components(&newest, &older);
    draft.status.components.extend(grove::counts(observed));
    draft.obstruct(obstacle);
    draft.status
}

/// Status of a graph that cannot be parsed. The rest of the previous status stays.
pub fn of_unreadable(
    graph: &DynamoGraphDeployment,
    obstacle: &GraphObstacle,
    now: Timestamp,
) -> DynamoGraphDeploymentStatus {
    let mut draft = carried_over(graph, WorkloadProvider::Component, ClusterApis::default(), now);
    draft.obstruct(obstacle);
    draft.status
}

fn carried_over(
    graph: &DynamoGraphDeployment,
    provider: WorkloadProvider,
    served: ClusterApis,
    now: Timestamp,
) -> Draft {
    let mut draft = Draft::of(graph, now);
    match unserved_fields(graph, provider, served) {
        fields if fields.is_empty() => draft.remove(c::SPEC_SERVED),
        fields => {
            let message = format!("accepted, but without effect: {}", fields.join(", "));
            draft.set(c::SPEC_SERVED, false, c::graph::FIELDS_WITHOUT_EFFECT, &message);
        }
    }
    draft
}

/// Replica counts by component. In a change of revision old and new workers are summed, only new ones count as updated,
/// and the Dynamo namespace stays the old one: those who route by it must not lose the workers that serve.
fn components(
    desired: &[&DynamoComponentDeployment],
    old: &[&DynamoComponentDeployment],
) -> BTreeMap<String, ComponentReplicaStatus> {
    let reported = |d: &DynamoComponentDeployment| d.status.as_ref().and_then(|s| s.component.clone());
    let mut counts: BTreeMap<String, ComponentReplicaStatus> = BTreeMap::new();
    for d in desired {
        counts.extend(reported(d).map(|status| (d.spec.component.name.clone(), status)));
    }
    for d in old {
        let name = &d.spec.component.name;
        let Some(part) = reported(d) else { continue };
        let Some(sum) = counts.get_mut(name) else {
            // The new revision has no status yet; the old one serves.
            counts.insert(name.clone(), ComponentReplicaStatus { updated_replicas: 0, ..part });
            continue;
        };
        sum.replicas += part.replicas;
        sum.ready_replicas = add(sum.ready_replicas, part.ready_replicas);
        sum.available_replicas = add(sum.available_replicas, part.available_replicas);
        sum.component_names.extend(part.component_names);
        sum.component_names.sort();
        if part.replicas > 0 {
            sum.runtime_namespace = part.runtime_namespace;
        }
    }
    counts
}

fn add(a: Option<i32>, b: Option<i32>) -> Option<i32> {
    match (a, b) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0) + b.unwrap_or(0)),
    }
}

/// Lists the objects that the graph waits for, one entry each: missing, behind its spec, or not available and why.
fn waiting_for(plan: &GraphPlan, live: &BTreeMap<String, &DynamoComponentDeployment>) -> Vec<String> {
    let mut waiting = Vec::new();
    for desired in &plan.components {
        let name = desired.name_any();
        let Some(d) = live.get(&name) else {
            waiting.push(format!("{name}: not created yet"));
            continue;
        };
        let available = condition(d, c::AVAILABLE);
        if !is_current(d) {
            waiting.push(format!("{name}: the latest spec has not been reconciled yet"));
        } else if available.is_none_or(|a| a.status != "True") {
            let why = available.map_or("no status yet", |a| a.message.as_str());
            let secrets = condition(d, c::component::PULL_SECRETS_FOUND).filter(|s| s.status == "False");
            let secrets = secrets.map(|s| format!("; {}", s.message)).unwrap_or_default();
            waiting.push(format!("{name}: {why}{secrets}"));
        }
    }
    waiting
}

fn condition<'a>(d: &'a DynamoComponentDeployment, type_: &str) -> Option<&'a Condition> {
    find(&d.status.as_ref()?.conditions, type_)
}

/// A stalled component stalls its graph, with the component's message.
fn obstacle_of(d: &DynamoComponentDeployment) -> Option<GraphObstacle> {
    let stalled = condition(d, c::STALLED).filter(|_| is_stalled(d))?;
    let reason = match stalled.reason.as_str() {
        c::component::NAME_TAKEN => c::graph::NAME_TAKEN,
        c::component::API_MISSING => c::graph::API_MISSING,
        _ => c::graph::INVALID_SPEC,
    };
    let message = format!("component {}: {}", d.spec.component.name, stalled.message);
    Some(GraphObstacle::stalled(c::graph::SOME_NOT_READY, reason, message))
}

#[cfg(test)]
mod tests;

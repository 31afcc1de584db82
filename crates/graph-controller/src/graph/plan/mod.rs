//! Plans the desired objects from the live ones. Pure.

pub mod accounts;
pub mod adapters;
pub mod bookkeeping;
pub mod checkpoints;
mod control;
pub mod discovery;
pub mod endpoint_picker;
mod graph_label;
pub mod grove;
pub mod objects;
pub mod restart;
pub mod revision;
pub mod rollout;
pub mod spread;
mod workers;

use std::collections::{BTreeMap, BTreeSet};

use api_types::v1beta1::{ComponentSpec, DynamoComponentDeployment};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff::Timestamp};
use kube::ResourceExt;
use rendering::WorkloadProvider;

use self::workers::plan_workers;
use crate::graph::{
    merge::{Placement, component_deployment, origin_version, sets_annotation},
    model::{Observed, Plan, Removal, ValidGraph},
};

/// Decides on a valid graph that is not being deleted. Only the deadline of a rollout depends on `now`.
pub fn plan(graph: &ValidGraph<'_>, observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan { objects: objects::objects(graph, observed), ..Plan::default() };
    if graph.obstacle.is_some() {
        return Plan { obstacle: graph.obstacle.clone(), old: scaled(graph, observed), ..plan };
    }
    match graph.provider {
        WorkloadProvider::Component => plan_components(graph, observed, now, &mut plan),
        WorkloadProvider::Grove => grove::plan(graph, observed, &mut plan),
    }
    plan.bookkeeping = bookkeeping::bookkeeping(&observed.graph, graph.provider, &plan.rollout);
    plan
}

/// While an image is awaited, components that are not changing revision can still be scaled.
fn scaled(graph: &ValidGraph<'_>, observed: &Observed) -> Vec<DynamoComponentDeployment> {
    let scale = |component: &ComponentSpec| {
        let mut live = observed.present().filter(|d| d.spec.component.name == component.name);
        let (Some(only), None) = (live.next(), live.next()) else { return None };
        let desired = component.desired_replicas();
        let differs = observed.owns(only) && only.spec.component.desired_replicas() != desired;
        differs.then(|| with_replicas(only, desired))
    };
    let waits = observed.legacy.awaited.is_some();
    graph.spec.components.iter().filter(|_| waits).filter_map(scale).collect()
}

/// The component provider: an object for each component, and for each revision of its workers.
fn plan_components(graph: &ValidGraph<'_>, observed: &Observed, now: Timestamp, plan: &mut Plan) {
    let origin_version = origin_version(&observed.graph, &observed.components);
    let (workers, others): (Vec<_>, Vec<_>) = observed.present().partition(|d| d.spec.component.is_worker());
    let target = graph.workers().next().map(|_| revision::target(graph, &workers));
    let course = target.map(|target| control::course(graph, observed, &workers, target));
    let suffix = course.as_ref().and_then(|course| course.target.suffix.as_ref());
    plan.checkpoints = checkpoints::checkpoints(graph, observed, suffix, &origin_version);
    if course.as_ref().is_some_and(|course| !course.is_of_spec) {
        // Those of the spec's workers belong to a revision that does not start.
        plan.checkpoints.retain(|checkpoint| !graph.has_worker(&checkpoint.component));
    }
    for component in graph.spec.components.iter().filter(|c| !c.is_worker()) {
        let checkpoint = checkpoints::of(&plan.checkpoints, &component.name);
        let placement = Placement {
            origin_version: &origin_version,
            checkpoint: checkpoint.map(|checkpoint| checkpoint.name.as_str()),
            ..Placement::default()
        };
        let mut desired = component_deployment(graph, component, placement);
        let live =
            others.iter().find(|d| d.name_any() == desired.name_any()).map(|d| d.spec.component.desired_replicas());
        let replicas = component.desired_replicas();
        let waits = checkpoint.is_some_and(|checkpoint| checkpoint.awaited.is_some());
        desired.spec.component.replicas = Some(if waits { checkpoints::held(live, replicas) } else { replicas });
        plan.components.push(desired);
    }
    match &course {
        Some(course) => plan_workers(graph, observed, &workers, (course, &origin_version, now), plan),
        None => plan.delete.extend(workers.iter().filter_map(|d| removal(observed, d))),
    }
    if plan.rollout.is_complete() {
        let stale = checkpoints::stale(graph, observed, &plan.checkpoints);
        plan.stale_checkpoints = stale.into_iter().cloned().collect();
    }

    plan.delete.extend(others.iter().filter_map(|d| removal(observed, d)));
    keep_engines(observed, plan);
    restart::plan_restart(observed, plan);
    keep_desired_and_adopt_the_rest(observed, plan);
}

/// The engine that a component was stored with stays for its life, as admission has it. Older versions of the Go
/// operator left it open, and what pods run does not change by a word that says what they run already.
fn keep_engines(observed: &Observed, plan: &mut Plan) {
    for desired in &mut plan.components {
        if let Some(live) = observed.present().find(|d| d.metadata.name == desired.metadata.name) {
            desired.spec.backend_framework = live.spec.backend_framework;
        }
    }
}

/// An object that is desired under its name is never deleted, whatever else it was before; one without an owner that
/// is not desired is adopted, so that it can be deleted in the next pass.
fn keep_desired_and_adopt_the_rest(observed: &Observed, plan: &mut Plan) {
    let desired: BTreeSet<String> = plan.components.iter().map(ResourceExt::name_any).collect();
    plan.delete.retain(|removal| !desired.contains(&removal.name));
    plan.old.retain(|d| !desired.contains(&d.name_any()));
    let known: BTreeSet<String> = plan.old.iter().map(ResourceExt::name_any).collect();
    let strays = observed.present().filter(|d| {
        let name = d.name_any();
        !observed.owns(d) && !desired.contains(&name) && !known.contains(&name)
    });
    let strays: Vec<_> = strays.map(|d| with_replicas(d, d.spec.component.desired_replicas())).collect();
    plan.old.extend(strays);
}

/// A live worker of an old revision with other replicas and everything else as it is.
fn with_replicas(d: &DynamoComponentDeployment, replicas: i32) -> DynamoComponentDeployment {
    let own = d.annotations().iter().filter(|(key, _)| sets_annotation(key));
    let own: BTreeMap<_, _> = own.map(|(key, value)| (key.clone(), value.clone())).collect();
    let mut spec = d.spec.clone();
    spec.component.replicas = Some(replicas);
    DynamoComponentDeployment {
        metadata: ObjectMeta {
            name: d.metadata.name.clone(),
            namespace: d.metadata.namespace.clone(),
            labels: d.metadata.labels.clone(),
            annotations: Some(own).filter(|own| !own.is_empty()),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    }
}

fn removal(observed: &Observed, d: &DynamoComponentDeployment) -> Option<Removal> {
    let uid = d.metadata.uid.clone().filter(|_| observed.owns(d))?;
    Some(Removal { name: d.name_any(), uid })
}

#[cfg(test)]
mod simulation_tests;

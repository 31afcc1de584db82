//! Plans the desired objects from the live ones. Pure.
//!
//! The plan includes notes on the graph itself: its workload provider, and the values that the upstream operator
//! reads, so that it can take the graph back without rolling a pod. All of it is written from live objects, and written
//! again if a user removes it.
//!
//! Admission notes the provider on every new graph. A graph that is older than the note, or came while admission was
//! away, gets it here: without it, admission would judge the graph by what the cluster serves today.
//!
//! The upstream operator reads two notes. The first holds the suffix of the live revision, opaque; the second a digest
//! of the spec, which only it can compute. With the first note alone it computes the digest, and lets run what runs. A
//! digest that it left beside another revision would make it roll all workers, so it goes with the revision that it was
//! made for.

pub mod adapters;
pub mod checkpoints;
mod control;
pub mod discovery;
pub mod endpoint_picker;
pub mod grove;
pub mod objects;
pub mod restart;
pub mod revision;
pub mod rollout;
#[cfg(test)]
mod simulation_tests;
pub mod spread;
pub mod volumes;
mod workers;

use std::collections::{BTreeMap, BTreeSet};

use api_types::{
    annotations::{CURRENT_WORKER_HASH, CURRENT_WORKER_HASH_V2, WORKLOAD_PROVIDER},
    labels, names,
    v1beta1::{ComponentSpec, DynamoComponentDeployment, DynamoGraphDeployment},
};
use controller_kit::apply::MetadataPatch;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff::Timestamp};
use kube::{Resource, ResourceExt};
use rendering::WorkloadProvider;

use self::workers::plan_workers;
use crate::graph::{
    merge::{PlannedFields, component_deployment, origin_version, sets_annotation},
    model::{GraphObserved, GraphPlan, Removal, Rollout, ValidGraph},
};

/// Plans a valid graph that is not being deleted. Only the deadline of a rollout depends on `now`.
pub fn plan(graph: &ValidGraph<'_>, observed: &GraphObserved, now: Timestamp) -> GraphPlan {
    let mut plan = GraphPlan { objects: objects::objects(graph, observed), ..GraphPlan::default() };
    if graph.obstacle.is_some() {
        return GraphPlan { obstacle: graph.obstacle.clone(), old: scaled(graph, observed), ..plan };
    }
    match graph.provider {
        WorkloadProvider::Component => plan_components(graph, observed, now, &mut plan),
        WorkloadProvider::Grove => grove::plan(graph, observed, &mut plan),
    }
    plan.bookkeeping = bookkeeping(&observed.graph, graph.provider, &plan.rollout);
    plan
}

/// While an image is awaited, components that are not changing revision can still be scaled.
fn scaled(graph: &ValidGraph<'_>, observed: &GraphObserved) -> Vec<DynamoComponentDeployment> {
    let scale = |component: &ComponentSpec| {
        let mut live = observed.present().filter(|d| d.spec.component.name == component.name);
        let (Some(only), None) = (live.next(), live.next()) else { return None };
        let desired = component.desired_replicas();
        let differs = observed.is_owner(only) && only.spec.component.desired_replicas() != desired;
        differs.then(|| with_replicas(only, desired))
    };
    let waits = observed.legacy.awaited.is_some();
    graph.spec.components.iter().filter(|_| waits).filter_map(scale).collect()
}

/// The component provider: an object for each component, and for each revision of its workers.
fn plan_components(graph: &ValidGraph<'_>, observed: &GraphObserved, now: Timestamp, plan: &mut GraphPlan) {
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
        let placement = PlannedFields {
            origin_version: &origin_version,
            checkpoint: checkpoint.map(|checkpoint| checkpoint.name.as_str()),
            ..PlannedFields::default()
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
        plan.stale_checkpoints = checkpoints::stale(graph, observed, &plan.checkpoints);
    }
    plan.delete.extend(others.iter().filter_map(|d| removal(observed, d)));
    keep_engines(observed, plan);
    restart::plan_restart(observed, plan);
    keep_desired_and_adopt_the_rest(observed, plan);
}

/// The engine that a component was stored with stays for its life, as admission has it. Older versions of the Go
/// operator left it open, and what pods run does not change by a word that says what they run already.
fn keep_engines(observed: &GraphObserved, plan: &mut GraphPlan) {
    for desired in &mut plan.components {
        if let Some(live) = observed.present().find(|d| d.metadata.name == desired.metadata.name) {
            desired.spec.backend_framework = live.spec.backend_framework;
        }
    }
}

/// An object that is desired under its name is never deleted, whatever else it was before; one without an owner that
/// is not desired is adopted, so that it can be deleted in the next pass.
fn keep_desired_and_adopt_the_rest(observed: &GraphObserved, plan: &mut GraphPlan) {
    let desired: BTreeSet<String> = plan.components.iter().map(ResourceExt::name_any).collect();
    plan.delete.retain(|removal| !desired.contains(&removal.name));
    plan.old.retain(|d| !desired.contains(&d.name_any()));
    let known: BTreeSet<String> = plan.old.iter().map(ResourceExt::name_any).collect();
    let strays = observed.present().filter(|d| {
        let name = d.name_any();
        !observed.is_owner(*d) && !desired.contains(&name) && !known.contains(&name)
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

fn removal(observed: &GraphObserved, d: &DynamoComponentDeployment) -> Option<Removal> {
    let uid = d.metadata.uid.clone().filter(|_| observed.is_owner(d))?;
    Some(Removal { name: d.name_any(), uid })
}

/// The changes of the graph's annotations; empty if they match what is live. Of revisions nothing is noted while they
/// change.
pub fn bookkeeping(graph: &DynamoGraphDeployment, provider: WorkloadProvider, rollout: &Rollout) -> MetadataPatch {
    let all = graph.annotations();
    let mut patch = MetadataPatch::default();
    if !all.contains_key(WORKLOAD_PROVIDER) {
        patch = patch.annotation(WORKLOAD_PROVIDER, Some(provider.as_str()));
    }
    let suffix = rollout.target.as_ref().filter(|_| !rollout.in_progress()).map(ToString::to_string);
    let reported = all.get(CURRENT_WORKER_HASH).or_else(|| all.get(CURRENT_WORKER_HASH_V2));
    if let Some(suffix) = suffix.filter(|suffix| reported != Some(suffix)) {
        patch = patch.annotation(CURRENT_WORKER_HASH_V2, None).annotation(CURRENT_WORKER_HASH, Some(&suffix));
    }
    // A note that another operator has written meanwhile must stay.
    patch.only_if_unchanged()
}

/// Metadata of an object with labels, without owner.
pub(crate) fn metadata<const N: usize>(namespace: &str, name: String, labels: [(&str, String); N]) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: Some(namespace.to_owned()),
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value)).into()),
        ..ObjectMeta::default()
    }
}

/// Adds the label by which the object is watched.
fn add_graph_label<K: Resource>(object: &mut K, graph: &ValidGraph<'_>) {
    let labels = object.meta_mut().labels.get_or_insert_default();
    labels.insert(labels::OWN_GRAPH.to_owned(), names::label_value(&graph.name));
}

#[cfg(test)]
mod tests {
    use api_types::names::RevisionSuffix;
    use serde_json::{Value, json};

    use super::*;
    use crate::graph::fixtures::graph_with;

    fn written(mut annotations: Value, target: Option<&str>, old: &[&str]) -> Option<MetadataPatch> {
        annotations[WORKLOAD_PROVIDER] = json!("component");
        let graph = graph_with(|g| g["metadata"]["annotations"] = annotations);
        let rollout = Rollout {
            target: target.map(RevisionSuffix::from_label),
            old: old.iter().map(|name| (*name).to_owned()).collect(),
            ..Rollout::default()
        };
        let patch = bookkeeping(&graph, WorkloadProvider::Component, &rollout);
        Some(patch).filter(|patch| *patch != MetadataPatch::default().only_if_unchanged())
    }

    #[test]
    fn a_graph_without_a_provider_gets_the_one_that_runs_it_also_while_revisions_change() {
        let graph = |annotations: Value| graph_with(|g| g["metadata"]["annotations"] = annotations);
        let changing = Rollout { old: vec!["old".to_owned()], ..Rollout::default() };
        for (provider, rollout) in
            [(WorkloadProvider::Grove, Rollout::default()), (WorkloadProvider::Component, changing)]
        {
            let reported = bookkeeping(&graph(json!({ "team": "a" })), provider, &rollout);
            let expected = MetadataPatch::default().annotation(WORKLOAD_PROVIDER, Some(provider.as_str()));
            assert_eq!(reported, expected.only_if_unchanged());
            let known = graph(json!({ WORKLOAD_PROVIDER: "component" }));
            let nothing = MetadataPatch::default().only_if_unchanged();
            assert_eq!(bookkeeping(&known, provider, &rollout), nothing, "it is never changed");
        }
    }

    #[test]
    fn the_go_operator_finds_the_live_revision_and_no_digest_of_another() {
        let (first, second) = (CURRENT_WORKER_HASH, CURRENT_WORKER_HASH_V2);
        let noted = MetadataPatch::default().annotation(first, Some("0a1b2c3d")).annotation(second, None);
        let noted = noted.only_if_unchanged();
        let table = [
            ("new", json!({ "team": "a" }), Some("0a1b2c3d"), &[][..], Some(noted.clone())),
            ("ours", json!({ first: "0a1b2c3d" }), Some("0a1b2c3d"), &[], None),
            ("taken over", json!({ second: "0a1b2c3d" }), Some("0a1b2c3d"), &[], None),
            ("taken over twice", json!({ first: "0a1b2c3d", second: "ffffffff" }), Some("0a1b2c3d"), &[], None),
            ("changing", json!({ second: "ffffffff" }), Some("0a1b2c3d"), &["old"], None),
            ("changed", json!({ first: "eeeeeeee", second: "ffffffff" }), Some("0a1b2c3d"), &[], Some(noted)),
            ("without workers", json!({}), None, &[], None),
        ];
        for (what, annotations, target, old, expected) in table {
            assert_eq!(written(annotations, target, old), expected, "{what}");
        }
    }
}

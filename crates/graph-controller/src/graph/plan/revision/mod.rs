//! Desired worker revision of a spec, from the children alone.
//!
//! All workers of a graph change revision together. A revision is known by its suffix (opaque, in names and labels) and
//! recognised by its fingerprint, which is stored with its objects. Nothing is remembered on the graph itself, so that
//! nothing is lost when a user replaces the graph's annotations.

use std::collections::BTreeMap;

use api_types::{
    annotations, labels,
    names::RevisionSuffix,
    v1beta1::{Checkpoint, CheckpointDeletionPolicy, ComponentSpec, DynamoComponentDeployment},
};
use controller_kit::apply::includes;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::spread;
use crate::graph::{
    merge::{PlannedFields, component_deployment},
    model::ValidGraph,
    plan::rollout::LiveCounts,
};

/// Version of the fingerprint's recipe. Fingerprints of other versions are not comparable; contents are compared then.
const RECIPE: &str = "v1";

/// Placeholder for the revision while its fingerprint is computed.
const PLACEHOLDER: &str = "generation";

/// The revision that the spec asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetRevision {
    /// Its suffix; `None` is a revision older than suffixes.
    pub suffix: Option<RevisionSuffix>,
    /// Its fingerprint.
    pub fingerprint: String,
}

/// Suffix of the revision that a live worker belongs to; `None` for workers older than revisions.
pub fn suffix_of(live: &DynamoComponentDeployment) -> Option<RevisionSuffix> {
    live.labels().get(labels::WORKER_HASH).filter(|v| *v != labels::LEGACY_REVISION).map(RevisionSuffix::from_label)
}

/// Finds the target revision among the live workers, or names a new one.
///
/// 1. A revision with our fingerprint is the one.
/// 2. Else one whose objects hold what the spec asks for: made by another operator, or under another recipe. It keeps
///    its suffix, so that taking over rolls no pod.
/// 3. Else a new one, whose suffix follows from the fingerprint and is unique.
pub fn target(graph: &ValidGraph<'_>, workers: &[&DynamoComponentDeployment]) -> TargetRevision {
    let fingerprint = fingerprint(graph);
    let mut revisions: BTreeMap<Option<RevisionSuffix>, Vec<&DynamoComponentDeployment>> = BTreeMap::new();
    for worker in workers {
        revisions.entry(suffix_of(worker)).or_default().push(worker);
    }
    let known = revisions.iter().find(|(_, members)| members.iter().any(|m| fingerprint_in(m) == Some(&fingerprint)));
    let same = || revisions.iter().find(|(suffix, members)| holds(graph, suffix.as_ref(), members));
    if let Some((suffix, _)) = known.or_else(same) {
        return TargetRevision { suffix: suffix.clone(), fingerprint };
    }
    let free = (0..).map(|attempt| RevisionSuffix::of(&fingerprint, attempt));
    let suffix = free.into_iter().find(|s| !revisions.contains_key(&Some(s.clone())));
    TargetRevision { suffix, fingerprint }
}

fn fingerprint_in(live: &DynamoComponentDeployment) -> Option<&String> {
    live.annotations().get(annotations::REVISION_FINGERPRINT)
}

/// Whether a fingerprint is of the present recipe. One of another is not comparable.
pub fn is_current_recipe(fingerprint: &str) -> bool {
    fingerprint.starts_with(&format!("{RECIPE}:"))
}

/// Digest of everything that makes worker pods what they are.
pub fn fingerprint(graph: &ValidGraph<'_>) -> String {
    let placeholder = RevisionSuffix::from_label(PLACEHOLDER);
    let desired = PlannedFields { revision: Some(&placeholder), ..PlannedFields::default() };
    let identity_of = |c| identity(&component_deployment(graph, c, desired));
    let content: BTreeMap<&str, Value> = graph.workers().map(|c| (c.name.as_str(), identity_of(c))).collect();
    format!("{RECIPE}:{}", controller_kit::apply::fingerprint(&json!(content)))
}

/// Returns the component that the spec requests, with the values that follow from a live member: the checkpoint from
/// which it starts, whose name follows from the revision, and the engine with which it was stored.
fn desired_like(
    graph: &ValidGraph<'_>,
    component: &ComponentSpec,
    revision: Option<&RevisionSuffix>,
    member: &DynamoComponentDeployment,
) -> DynamoComponentDeployment {
    let made = member.spec.component.checkpoint().and_then(Checkpoint::reference);
    let named = component.checkpoint().and_then(Checkpoint::reference);
    let checkpoint = made.filter(|_| graph.settings.checkpoints.is_some() && named.is_none());
    let placement = PlannedFields { revision, checkpoint, ..PlannedFields::default() };
    let mut desired = component_deployment(graph, component, placement);
    // It names the engine that was found in the command when the member was made.
    desired.spec.backend_framework = member.spec.backend_framework;
    desired
}

/// The differences between two revisions: labels and spec, without what may change in place.
fn identity(object: &DynamoComponentDeployment) -> Value {
    let mut spec = json!(object.spec);
    spread::without_scope(&mut spec);
    if let Some(checkpoint) = spec.pointer_mut("/experimental/checkpoint").and_then(Value::as_object_mut) {
        // What becomes of a checkpoint is nothing to those who start from it.
        checkpoint.insert("deletionPolicy".to_owned(), json!(CheckpointDeletionPolicy::default()));
    }
    if let Some(fields) = spec.as_object_mut() {
        for in_place in ["replicas", "minAvailable", "scalingAdapter", "runtimeVersionOverride"] {
            fields.remove(in_place);
        }
    }
    if let Some(kept) = spec.pointer_mut("/podTemplate/metadata/annotations").and_then(Value::as_object_mut) {
        // Neither reaches a pod as a change of what it runs: the one is bookkeeping, the other restarts in place.
        kept.remove(annotations::ORIGIN_VERSION);
        kept.remove(annotations::RESTART_AT);
    }
    let own: BTreeMap<_, _> = object.labels().iter().filter(|(k, _)| *k != labels::WORKER_HASH).collect();
    json!({ "labels": own, "spec": spec })
}

/// Whether every member of a live revision of another origin holds exactly what the spec asks for.
fn holds(graph: &ValidGraph<'_>, suffix: Option<&RevisionSuffix>, members: &[&DynamoComponentDeployment]) -> bool {
    let current = |m: &&DynamoComponentDeployment| fingerprint_in(m).is_some_and(|f| is_current_recipe(f));
    if members.iter().any(current) {
        return false;
    }
    members.iter().all(|member| {
        let Some(component) = graph.workers().find(|c| c.name == member.spec.component.name) else { return false };
        let expected = desired_like(graph, component, suffix, member);
        let (desired, live) = (identity(&expected), identity(member));
        // Others may have put labels on the object; what makes pods what they are is in the spec.
        let same_spec = includes(&desired["spec"], &live["spec"]) && includes(&live["spec"], &desired["spec"]);
        member.name_any() == expected.name_any() && same_spec && includes(&live, &desired)
    })
}

/// A revision of the graph's workers.
pub struct Revision<'a> {
    /// Its suffix; `None` is a revision older than suffixes.
    pub suffix: Option<RevisionSuffix>,
    /// Its live objects, one a component.
    pub members: Vec<&'a DynamoComponentDeployment>,
}

impl<'a> Revision<'a> {
    /// Its object of a component.
    pub fn of(&self, component: &str) -> Option<&'a DynamoComponentDeployment> {
        self.members.iter().copied().find(|d| d.spec.component.name == component)
    }

    /// Whether one of its components has no worker that can serve, so that the others are of no use.
    pub fn has_unserved_component(&self) -> bool {
        self.members.iter().any(|d| live_counts(d).serving() == 0)
    }

    /// Whether each of its components of which the spec desires workers has one that can serve.
    pub fn serves(&self, graph: &ValidGraph<'_>) -> bool {
        let is_desired = |name: &str| graph.workers().any(|c| c.name == name && c.desired_replicas() > 0);
        let mut desired = self.members.iter().filter(|d| is_desired(&d.spec.component.name)).peekable();
        desired.peek().is_some() && desired.all(|d| live_counts(d).serving() > 0)
    }
}

/// Live workers as revisions, oldest first. The objects are sorted by age, so a revision is as old as its first.
pub fn revisions<'a>(workers: &[&'a DynamoComponentDeployment]) -> Vec<Revision<'a>> {
    let mut revisions: Vec<Revision<'a>> = Vec::new();
    for d in workers.iter().copied() {
        let suffix = suffix_of(d);
        match revisions.iter_mut().find(|known| known.suffix == suffix) {
            Some(revision) => revision.members.push(d),
            None => revisions.push(Revision { suffix, members: vec![d] }),
        }
    }
    revisions
}

/// Sorts live workers by age.
pub fn sort_by_age(workers: &mut [&DynamoComponentDeployment]) {
    workers.sort_by_key(|d| (d.metadata.creation_timestamp.clone(), d.name_any()));
}

/// Replicas of a live worker.
pub fn live_counts(d: &DynamoComponentDeployment) -> LiveCounts {
    let status = d.status.as_ref().and_then(|s| s.component.as_ref());
    LiveCounts {
        spec: d.spec.component.desired_replicas(),
        available: status.and_then(|c| c.available_replicas.or(c.ready_replicas)).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests;

//! Writes one child, and returns the outcome.

use api_types::{labels, owner, v1beta1::DynamoGraphDeployment};
use controller_kit::{
    apply::{Applier, ApplyOutcome, Desired, Removed, RequestError},
    events::{Event, EventSink},
    store::{Packed, Store},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde_json::Value;

use super::{AppliedKind, bounded, live_value};
use crate::graph::{
    caches::GraphCaches,
    model::{MARKS, Tally},
};

/// Result of the write of one child.
pub(super) type ChildResult = Result<ChildOutcome, RequestError>;

/// Outcome of the write of one child.
pub(super) enum ChildOutcome {
    /// The object after the write.
    Written(Value),
    /// No write was needed.
    Unchanged,
    /// Something has to go first.
    Waiting(String),
}

impl ChildOutcome {
    /// Returns the reason for the wait.
    pub(super) fn reason(self) -> Option<String> {
        match self {
            Self::Waiting(why) => Some(why),
            Self::Written(_) | Self::Unchanged => None,
        }
    }
}

/// Writes the children of one graph.
#[derive(Clone, Copy)]
pub(super) struct Writer<'a> {
    pub(super) applier: &'a Applier,
    pub(super) events: &'a EventSink,
    pub(super) caches: &'a GraphCaches,
    pub(super) graph: &'a DynamoGraphDeployment,
}

impl Writer<'_> {
    pub(super) fn uid(&self) -> &str {
        self.graph.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Publishes an event on the graph about a child.
    pub(super) fn publish(&self, reason: &str, note: &str) {
        self.events.publish(&self.graph.object_ref(&()), Event::normal(reason, "Reconcile", note));
    }

    /// Applies one child.
    pub(super) async fn write<K: AppliedKind>(&self, store: &Store<Packed<K>>, object: &K) -> ChildResult {
        self.write_as(store, object, |desired| desired).await
    }

    /// Applies one child under further conditions.
    pub(super) async fn write_as<K: AppliedKind>(
        &self,
        store: &Store<Packed<K>>,
        object: &K,
        conditions: impl FnOnce(Desired) -> Desired,
    ) -> ChildResult {
        let object = self.owned(object);
        let live = live_value(store, &object);
        let desired = conditions(Desired::of(&object, self.uid())?);
        self.send_or_adopt(desired, object.meta(), live.as_ref()).await
    }

    async fn send_or_adopt(&self, mut desired: Desired, object: &ObjectMeta, live: Option<&Value>) -> ChildResult {
        if live.is_none_or(was_made_by_an_operator) {
            let (key, value) = mark_of_ours(object);
            desired = desired.adopt_if_labelled(key, &value);
        }
        // What no cache holds may have been made by hand under our name.
        let manager = object.labels.as_ref().and_then(|labels| labels.get(labels::MANAGED_BY));
        if let Some(manager) = manager.filter(|_| live.is_none()) {
            desired = desired.adopt_if_labelled(labels::MANAGED_BY, manager);
        }
        self.send(&desired, live).await
    }

    /// Creates one child of a kind that no cache holds.
    pub(super) async fn create<K: AppliedKind>(&self, object: &K) -> ChildResult {
        self.send(&Desired::of(&self.owned(object), self.uid())?, None).await
    }

    pub(super) fn owned<K: AppliedKind>(&self, object: &K) -> K {
        let mut object = object.clone();
        let owner = owner::controller::<DynamoGraphDeployment>(&self.graph.name_any(), self.uid());
        object.meta_mut().owner_references = Some(vec![owner]);
        object
    }

    /// Applies all children of one kind that are desired.
    pub(super) async fn write_all<K: AppliedKind>(&self, store: &Store<Packed<K>>, objects: &[K]) -> Tally {
        if !store.is_served() {
            if !objects.is_empty() {
                store.need();
            }
            return Tally { waiting: objects.iter().map(unserved).collect(), ..Tally::default() };
        }
        let written = bounded(objects.iter().map(|object| self.write(store, object)).collect()).await;
        written.into_iter().map(|written| written.map(ChildOutcome::reason)).collect()
    }

    pub(super) async fn send(&self, desired: &Desired, live: Option<&Value>) -> ChildResult {
        Ok(match self.applier.apply(desired, live).await? {
            ApplyOutcome::Created(value) | ApplyOutcome::Updated(value) => ChildOutcome::Written(value),
            ApplyOutcome::Unchanged => ChildOutcome::Unchanged,
            ApplyOutcome::Waiting { reason } => ChildOutcome::Waiting(format!("{}: {reason}", desired.id())),
        })
    }

    /// Deletes what the graph owns of a kind and no longer desires. Nothing else of those names is touched.
    pub(super) async fn prune<K: AppliedKind>(&self, store: &Store<Packed<K>>, desired: &[K]) -> Tally {
        let is_desired = |name: &str| desired.iter().any(|object| object.meta().name.as_deref() == Some(name));
        self.prune_with(store, is_desired, |_| {}).await
    }

    /// Prunes, and calls `deleted` with each name.
    pub(super) async fn prune_with<K: AppliedKind>(
        &self,
        store: &Store<Packed<K>>,
        is_desired: impl Fn(&str) -> bool,
        deleted: impl Fn(&str),
    ) -> Tally {
        let mut tally = Tally::default();
        for child in store.children_of(self.uid()) {
            let name = child.name_any();
            if child.metadata.deletion_timestamp.is_none() && !is_desired(&name) {
                let removed = tally.take(self.applier.delete(child.as_ref(), self.uid()).await);
                if removed == Some(Removed::Accepted) {
                    deleted(&name);
                }
            }
        }
        tally
    }
}

/// The line for an object whose kind the cluster does not serve.
pub(super) fn unserved<K: AppliedKind>(object: &K) -> String {
    format!(
        "{} {}: the cluster does not serve {} of {}; install it, or remove what needs it from the graph",
        K::kind(&()),
        object.name_any(),
        K::plural(&()),
        K::api_version(&()),
    )
}

/// Whether an object carries the bookkeeping that only an operator leaves. A label alone could be set by any client.
fn was_made_by_an_operator(live: &Value) -> bool {
    let annotations = live.pointer("/metadata/annotations");
    MARKS.iter().any(|mark| annotations.is_some_and(|a| a.get(*mark).is_some()))
}

/// The label by which an object that lost its owner is recognised as this graph's.
fn mark_of_ours(object: &ObjectMeta) -> (&'static str, String) {
    let mut known = [labels::GRAPH, labels::OWN_GRAPH, labels::APP_NAME].into_iter();
    let found = known.find_map(|key| Some((key, object.labels.as_ref()?.get(key)?.clone())));
    found.unwrap_or((labels::GRAPH, String::new()))
}

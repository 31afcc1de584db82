//! Carries a plan out.
//!
//! Order: first what pods need to start, such as their account, because a pod whose account is missing is refused;
//! then, all at once, what else the graph needs and the desired components. The account's rights are written from the
//! beginning on: nothing here waits for them. Old workers shrink after new ones were created; deletions last. A step
//! that fails holds up only what needs its object: new components need their accounts, a binding its role, the
//! shrinking of old workers the new ones.
//!
//! Objects that several graphs and requests share belong to none of them, and are written by functions of their own.

mod objects;
mod writer;

use std::{collections::BTreeSet, future::Future};

use api_types::{labels, typed::typed, v1beta1::DynamoComponentDeployment};
use controller_kit::{
    apply::{Applier, ApplyOutcome, Desired, RequestError},
    events::EventSink,
    failure::Class,
    store::{Key, Packed, Store, controller_owner},
};
use futures::{StreamExt, join, stream};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::Value;
use tracing::{debug, warn};

use self::writer::{ChildOutcome, ChildResult, Writer};
use crate::graph::{
    caches::GraphCaches,
    model::{GraphApplied, GraphObserved, GraphPlan},
};

/// Result of a step that may wait for an object, and then says why.
type WaitResult = Result<Option<String>, RequestError>;

/// A kind whose objects are written by server-side apply.
pub trait AppliedKind: Resource<DynamicType = ()> + Clone + Serialize + Send + Sync {}

impl<K: Resource<DynamicType = ()> + Clone + Serialize + Send + Sync> AppliedKind for K {}

/// Writes what differs, as far as the API server lets it.
pub async fn apply(
    applier: &Applier,
    events: &EventSink,
    caches: &GraphCaches,
    observed: &GraphObserved,
    plan: &GraphPlan,
) -> GraphApplied {
    let writer = Writer { applier, events, caches, graph: &observed.graph };
    let mut applied = GraphApplied { live: observed.present().cloned().collect(), ..GraphApplied::default() };
    let rest = async {
        let (mut tally, accounts_exist) = writer.write_before_pods(&plan.objects).await;
        tally.add(writer.write_checkpoints(&plan.checkpoints).await);
        // Pods of what is live run already; those of a new object would be refused.
        let is_live = |d: &DynamoComponentDeployment| caches.components.get(&Key::of(d)).is_some();
        let write = async |d| match accounts_exist || is_live(d) {
            true => Some((d, writer.write_component(observed, d).await)),
            false => None,
        };
        let components = bounded(plan.components.iter().map(write).collect());
        let (beside, components) = join!(writer.write_beside_pods(&plan.objects), components);
        tally.add(beside);
        (tally, accounts_exist, components)
    };
    let (rights, (tally, accounts_exist, components)) = join!(writer.write_rights(&plan.objects), rest);
    let mut written = BTreeSet::new();
    for (d, answer) in components.into_iter().flatten() {
        if let Some(answer) = applied.tally.take(answer) {
            written.insert(d.name_any());
            applied.take(answer);
        }
    }
    applied.tally.add(tally);
    applied.tally.add(rights);
    let lacks = |d: &&DynamoComponentDeployment| !written.contains(&d.name_any());
    let lacking: Vec<_> = plan.components.iter().filter(lacks).collect();
    let mut complete = lacking.is_empty();
    if let Some(plan) = &plan.grove {
        let (set, tally) = writer.apply_set(observed, plan, accounts_exist).await;
        complete &= tally.failed.is_empty();
        applied.grove = set;
        applied.tally.add(tally);
    }
    let lacks_worker = lacking.iter().any(|d| d.spec.component.is_worker());
    // A worker is replaced by new workers, another component by whatever the spec has in its place.
    let may_go = |d: &DynamoComponentDeployment| complete || (d.spec.component.is_worker() && !lacks_worker);
    writer.remove_old(observed, plan, &mut applied, may_go).await;
    applied.tally.add(writer.prune_adapters(&plan.objects).await);
    if complete && plan.rollout.is_complete() && plan.obstacle.is_none() {
        // Pods of an old revision may still mount what the new one does without.
        applied.tally.add(writer.prune_objects(&plan.objects).await);
    }
    if complete {
        applied.tally.add(writer.prune_checkpoints(&plan.stale_checkpoints).await);
    }
    if let Err(error) = applier.patch_metadata(writer.graph, writer.uid(), &plan.bookkeeping).await {
        // Nothing that runs depends on a note, so a policy that refuses it changes no status.
        match error.class() {
            Class::Transient => applied.tally.failed.push(error),
            _ => warn!(graph = writer.graph.name_any(), %error, "annotations of the graph cannot be written"),
        }
    }
    applied
}

impl Writer<'_> {
    /// Shrinks and deletes components that the spec no longer names, once the new ones were created.
    async fn remove_old(
        self,
        observed: &GraphObserved,
        plan: &GraphPlan,
        applied: &mut GraphApplied,
        may_go: impl Fn(&DynamoComponentDeployment) -> bool,
    ) {
        for old in plan.old.iter().filter(|old| may_go(old)) {
            let written = self.write_component(observed, old).await;
            if let Some(written) = applied.tally.take(written) {
                applied.take(written);
            }
        }
        for removal in &plan.delete {
            let is_it = |d: &DynamoComponentDeployment| d.metadata.uid.as_ref() == Some(&removal.uid) && may_go(d);
            let gone = applied.live.iter().position(is_it);
            let Some(gone) = gone.map(|index| applied.live.remove(index)) else { continue };
            let deleted = self.applier.delete_unchanged(&gone, self.uid()).await;
            if applied.tally.take(deleted).is_none() {
                applied.live.push(gone);
            }
        }
    }

    /// Writes one component as it was planned. Its replicas depend on a picture that may be old: any number can take
    /// workers away that the picture lacks, so the write is refused unless the object is still that of the picture.
    async fn write_component(self, observed: &GraphObserved, object: &DynamoComponentDeployment) -> ChildResult {
        let seen = observed.components.iter().find(|d| d.metadata.name == object.metadata.name);
        let version = seen.and_then(ResourceExt::resource_version).unwrap_or_default();
        self.write_as(&self.caches.components, object, |desired| desired.based_on(&version, "/spec/replicas")).await
    }
}

impl GraphApplied {
    fn take(&mut self, written: ChildOutcome) {
        match written {
            ChildOutcome::Written(after) => {
                if let Ok(after) = typed::<DynamoComponentDeployment>(after) {
                    self.live.retain(|d| d.name_any() != after.name_any());
                    self.live.push(after);
                }
            }
            ChildOutcome::Unchanged => {}
            ChildOutcome::Waiting(why) => self.tally.waiting.push(why),
        }
    }
}

/// The graph that an object belongs to: by its controller owner, else by its label. The controller of a pod is a
/// ReplicaSet.
pub fn graph_of<K: Resource>(object: &K) -> Option<Key> {
    let namespace = object.meta().namespace.as_deref()?;
    let owner = controller_owner(object).filter(|owner| owner.kind == "DynamoGraphDeployment");
    let label = || object.meta().labels.as_ref()?.get(labels::GRAPH).cloned();
    let name = owner.map(|owner| owner.name.clone()).or_else(label)?;
    Some(Key::new(namespace, &name))
}

/// Number of requests of one step that run at a time: the number of objects is the user's choice.
const AT_ONCE: usize = 8;

/// Runs all of the steps, a few at a time. The results have the order of the steps.
pub async fn bounded<T>(steps: Vec<impl Future<Output = T>>) -> Vec<T> {
    stream::iter(steps).buffered(AT_ONCE).collect().await
}

/// The live object of a desired one, as the apply engine compares it.
fn live_value<K: AppliedKind>(store: &Store<Packed<K>>, object: &K) -> Option<Value> {
    store.get(&Key::of(object)).map(|packed| packed.value())
}

/// Applies an object that several share. A foreign one of the same name is used as it is. `parent_uid` is
/// the object being reconciled. Gives what it waits for.
///
/// # Errors
/// The API server rejects the request, or does not answer.
pub async fn write_shared<K: AppliedKind>(
    applier: &Applier,
    parent_uid: &str,
    store: &Store<Packed<K>>,
    object: &K,
) -> Result<Option<String>, RequestError> {
    write_beside(applier, parent_uid, object, live_value(store, object).as_ref()).await
}

/// As [`write_shared`]. The role of a binding cannot be changed: one of ours that names another role is made anew, and
/// deleted only if the API server lets us create the new one.
///
/// # Errors
/// The API server rejects the request, or does not answer.
pub async fn write_binding(
    applier: &Applier,
    parent_uid: &str,
    store: &Store<Packed<RoleBinding>>,
    object: &RoleBinding,
) -> Result<Option<String>, RequestError> {
    let live = store.get(&Key::of(object)).filter(|live| controller_owner(live.as_ref()).is_none());
    if let Some(live) = live
        && live.unpack().is_ok_and(|binding| binding.role_ref != object.role_ref)
    {
        applier.check_creation(&Desired::of(object, parent_uid)?).await?;
        applier.delete(live.as_ref(), parent_uid).await?;
        return write_beside(applier, parent_uid, object, None).await;
    }
    write_shared(applier, parent_uid, store, object).await
}

async fn write_beside<K: AppliedKind>(
    applier: &Applier,
    parent_uid: &str,
    object: &K,
    live: Option<&Value>,
) -> WaitResult {
    let mut desired = Desired::of(object, parent_uid)?;
    for key in [labels::MANAGED_BY, labels::APP_NAME] {
        if let Some(value) = object.labels().get(key) {
            desired = desired.adopt_if_labelled(key, value);
        }
    }
    match applier.apply(&desired, live).await {
        Ok(ApplyOutcome::Waiting { reason }) => Ok(Some(format!("{}: {reason}", desired.id()))),
        Ok(_) => Ok(None),
        Err(error) if error.class() == Class::Foreign => {
            debug!(%error, "used as it is");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_worker_pod_belongs_to_the_graph_of_its_label() {
        let pod: Pod = serde_json::from_value(json!({ "metadata": {
            "name": "p", "namespace": "team-a", "labels": { "nvidia.com/dynamo-graph-deployment-name": "chat" },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u",
                "controller": true }] } }))
        .unwrap();
        assert_eq!(graph_of(&pod), Some(Key::new("team-a", "chat")));
    }
}

#[cfg(test)]
mod tally_tests {
    use std::cell::Cell;

    use super::{AT_ONCE, bounded};

    /// Found defect: a request for each of thousands of claims was sent at once.
    #[tokio::test]
    async fn a_few_requests_are_under_way_at_a_time_and_answers_keep_their_order() {
        let (running, most) = (Cell::new(0), Cell::new(0));
        let step = async |index: usize| {
            running.set(running.get() + 1);
            most.set(running.get().max(most.get()));
            for _ in 0..=(index % 3) {
                tokio::task::yield_now().await;
            }
            running.set(running.get() - 1);
            index
        };
        assert_eq!(bounded((0..100).map(step).collect()).await, (0..100).collect::<Vec<_>>());
        assert_eq!(most.get(), AT_ONCE);
    }
}

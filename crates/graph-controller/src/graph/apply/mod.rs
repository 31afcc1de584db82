//! Carries a decision out.
//!
//! Order: first what pods need to start, such as their account, because a pod whose account is missing is refused; then, all
//! at once, what else the graph needs and the wanted components. The account's rights are written from the beginning on: the API
//! server looks through all bindings before it lets us grant anything. Old workers shrink after new ones were asked for; deletions
//! last. A step that fails ends the pass: the next one starts from what is live.

mod checkpoints;
mod grove;
mod objects;
pub mod shared;
pub mod topology;
mod writer;

use api_types::grove::PodCliqueSet;
use api_types::labels;
use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use controller_kit::apply::{Applier, Desired, Error};
use controller_kit::events::EventSink;
use controller_kit::failure::Class;
use controller_kit::store::{Key, Packed, controller_owner};
use futures::future::join_all;
use futures::join;
use kube::{Resource, ResourceExt};
use tracing::warn;

use self::writer::{Writer, Written};
use super::decide::Decision;
use super::observe::pods::Troubles;
use super::observe::{Caches, Observed};

/// What is live after the writes.
#[derive(Debug, Default)]
pub struct Applied {
    /// The graph's components.
    pub live: Vec<DynamoComponentDeployment>,
    /// The graph's PodCliqueSet, if it runs on Grove.
    pub grove: Option<PodCliqueSet>,
    /// Why pods do not serve, on Grove and as far as it is known.
    pub troubles: Troubles,
    /// Objects that could not be written because they have to go first, and why, one line each.
    pub waiting: Vec<String>,
}

/// Writes what differs.
///
/// # Errors
/// The first step that failed.
pub async fn apply(
    applier: &Applier,
    events: &EventSink,
    caches: &Caches,
    observed: &Observed,
    decision: &Decision,
) -> Result<Applied, Error> {
    let writer = Writer { applier, events, graph: &observed.graph };
    let mut applied = Applied { live: observed.present().cloned().collect(), ..Applied::default() };
    let rest = async {
        let mut waiting = objects::before_pods(writer, caches, &decision.objects).await?;
        waiting.extend(checkpoints::write(writer, caches, &decision.checkpoints).await?);
        let components = join_all(decision.components.iter().map(|d| writer.write(&caches.components, d)));
        // One that is refused does not hold up the others.
        let (beside, components) = join!(objects::beside_pods(writer, caches, &decision.objects), components);
        for written in components {
            applied.take(written?.typed());
        }
        waiting.extend(beside?);
        Ok::<_, Error>(waiting)
    };
    let (rights, waiting) = join!(objects::rights(writer, caches, &decision.objects), rest);
    applied.waiting.extend(waiting?);
    applied.waiting.extend(rights?);
    if let Some(decision) = &decision.grove {
        applied.grove = grove::apply(writer, caches, observed, decision, &mut applied.waiting).await?;
    }
    for old in &decision.old {
        // This may take workers away: not on the word of a cache that is behind.
        applied.take(writer.write_as(&caches.components, old, Desired::only_if_unchanged).await?.typed());
    }
    for removal in &decision.delete {
        let gone = applied.live.iter().position(|d| d.metadata.uid.as_ref() == Some(&removal.uid));
        if let Some(gone) = gone.map(|index| applied.live.remove(index)) {
            applier.delete_unchanged(&gone, writer.uid()).await?;
        }
    }
    objects::prune_adapters(writer, caches, &decision.objects).await?;
    if !decision.rollout.in_progress() && decision.obstacle.is_none() {
        // Pods of an old generation may still mount what the new one does without.
        objects::prune(writer, caches, &decision.objects).await?;
    }
    checkpoints::prune(writer, &decision.stale_checkpoints).await?;
    if !decision.bookkeeping.is_empty()
        && let Err(error) = applier.edit_fields(writer.graph, writer.uid(), decision.bookkeeping.clone()).await
    {
        // Nothing that runs depends on a note, so a policy that refuses it changes no status.
        if error.class() == Class::Transient {
            return Err(error);
        }
        warn!(graph = writer.graph.name_any(), %error, "annotations of the graph cannot be written");
    }
    Ok(applied)
}

impl Applied {
    fn take(&mut self, written: Written<DynamoComponentDeployment>) {
        match written {
            Written::As(after) => {
                self.live.retain(|d| d.name_any() != after.name_any());
                self.live.push(*after);
            }
            Written::Not => {}
            Written::Waits(why) => self.waiting.push(why),
        }
    }
}

/// Lets a graph go that is being deleted: takes off the finalizer of another operator, and nothing else. Owner references
/// do the rest, in whichever way the deletion asked for.
///
/// # Errors
/// What the API server answered.
pub async fn release(applier: &Applier, graph: &Packed<DynamoGraphDeployment>) -> Result<(), Error> {
    applier.remove_finalizer(graph, api_types::LEGACY_FINALIZER).await?;
    Ok(())
}

/// The graph that an object belongs to: by its controller owner, else by its label. The controller of a pod is a ReplicaSet.
pub fn graph_of<K: Resource>(object: &K) -> Option<Key> {
    let namespace = object.meta().namespace.as_deref()?;
    let owner = controller_owner(object).filter(|owner| owner.kind == "DynamoGraphDeployment");
    let label = || object.meta().labels.as_ref()?.get(labels::GRAPH).cloned();
    let name = owner.map(|owner| owner.name.clone()).or_else(label)?;
    Some(Key::new(namespace, &name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

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

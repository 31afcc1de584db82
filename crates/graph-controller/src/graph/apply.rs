//! Carries a decision out.
//!
//! Order: the discovery account first, because a pod whose account is missing is refused; then, all at once, the rest of the
//! discovery access and the wanted components; old workers shrink after new ones were asked for; deletions last. A step
//! that fails ends the pass: the next one starts from what is live.

use api_types::labels;
use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use controller_kit::apply::{Applier, Desired, Error, Outcome};
use controller_kit::store::{Key, Packed, Store, controller_owner};
use futures::future::join_all;
use futures::join;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};
use serde::Serialize;

use super::decide::Decision;
use super::observe::{Caches, MARKS, Observed, live_value};

/// What is live after the writes.
#[derive(Debug, Default)]
pub struct Applied {
    /// The graph's components.
    pub live: Vec<DynamoComponentDeployment>,
    /// Objects that could not be written because they have to go first, and why, one line each.
    pub waiting: Vec<String>,
}

/// Writes what differs.
///
/// # Errors
/// The first step that failed.
pub async fn apply(
    applier: &Applier,
    caches: &Caches,
    observed: &Observed,
    decision: &Decision,
) -> Result<Applied, Error> {
    let writer = Writer { applier, graph: &observed.graph };
    let mut applied = Applied { live: observed.present().cloned().collect(), waiting: Vec::new() };
    let access = decision.discovery.as_ref();
    if let Some(access) = access {
        applied.waiting.extend(writer.write(&caches.accounts, &access.account).await?.reason());
    }
    let rights = async {
        let Some(access) = access else { return Ok(Vec::new()) };
        let role = writer.write(&caches.roles, &access.role).await?.reason();
        // The API server refuses a binding of a role that is not there.
        let binding = writer.write(&caches.bindings, &access.binding).await?.reason();
        Ok::<Vec<String>, Error>(role.into_iter().chain(binding).collect())
    };
    let components = join_all(decision.components.iter().map(|d| writer.write(&caches.components, d)));
    // One that is refused does not hold up the others.
    let (rights, components) = join!(rights, components);
    for written in components {
        applied.take(written?);
    }
    applied.waiting.extend(rights?);
    for old in &decision.old {
        // This may take workers away: not on the word of a cache that is behind.
        applied.take(writer.write_as(&caches.components, old, Desired::only_if_unchanged).await?);
    }
    for removal in &decision.delete {
        let gone = applied.live.iter().position(|d| d.metadata.uid.as_ref() == Some(&removal.uid));
        if let Some(gone) = gone.map(|index| applied.live.remove(index)) {
            applier.delete_unchanged(&gone, writer.uid()).await?;
        }
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

/// What became of one child.
enum Written<K> {
    /// It was written, and is like this now.
    As(Box<K>),
    /// It is as it should be.
    Not,
    /// Something has to go first.
    Waits(String),
}

impl<K> Written<K> {
    /// What it waits for.
    fn reason(self) -> Option<String> {
        match self {
            Self::Waits(why) => Some(why),
            Self::As(_) | Self::Not => None,
        }
    }
}

struct Writer<'a> {
    applier: &'a Applier,
    graph: &'a DynamoGraphDeployment,
}

impl Writer<'_> {
    fn uid(&self) -> &str {
        self.graph.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Applies one child.
    async fn write<K>(&self, store: &Store<Packed<K>>, wanted: &K) -> Result<Written<K>, Error>
    where
        K: Resource<DynamicType = ()> + Clone + Serialize + serde::de::DeserializeOwned,
    {
        self.write_as(store, wanted, |desired| desired).await
    }

    /// Applies one child under further conditions.
    async fn write_as<K>(
        &self,
        store: &Store<Packed<K>>,
        wanted: &K,
        conditions: impl FnOnce(Desired) -> Desired,
    ) -> Result<Written<K>, Error>
    where
        K: Resource<DynamicType = ()> + Clone + Serialize + serde::de::DeserializeOwned,
    {
        let mut wanted = wanted.clone();
        // A deletion in the foreground waits for children that say so.
        let owner = self.graph.controller_owner_ref(&());
        let owner = owner.map(|owner| OwnerReference { block_owner_deletion: Some(true), ..owner });
        wanted.meta_mut().owner_references = owner.map(|owner| vec![owner]);
        let namespace = wanted.namespace().unwrap_or_default();
        let live = live_value(store, &namespace, &wanted.name_any());
        let mut desired = Desired::of(&wanted, self.uid())?;
        if live.as_ref().is_none_or(was_made_by_an_operator) {
            let (key, value) = mark_of_ours(&wanted);
            desired = desired.adopt_if_labelled(key, &value);
        }
        let desired = conditions(desired);
        Ok(match self.applier.apply(&desired, live.as_ref()).await? {
            Outcome::Created(value) | Outcome::Updated(value) => {
                serde_json::from_value(value).map_or(Written::Not, |object| Written::As(Box::new(object)))
            }
            Outcome::Unchanged => Written::Not,
            Outcome::Waiting { reason } => Written::Waits(format!("{}: {reason}", desired.id())),
        })
    }
}

/// Whether an object carries the bookkeeping that only an operator leaves. A label alone could be anybody's.
fn was_made_by_an_operator(live: &serde_json::Value) -> bool {
    let annotations = live.pointer("/metadata/annotations");
    MARKS.iter().any(|mark| annotations.is_some_and(|a| a.get(*mark).is_some()))
}

/// The label by which an object that lost its owner is recognised as this graph's.
fn mark_of_ours<K: Resource>(wanted: &K) -> (&'static str, String) {
    let own = wanted.meta().labels.iter().flatten();
    let found = own.filter(|(key, _)| *key == labels::GRAPH || *key == labels::APP_NAME).min();
    match found {
        Some((key, value)) if key == labels::GRAPH => (labels::GRAPH, value.clone()),
        Some((_, value)) => (labels::APP_NAME, value.clone()),
        None => (labels::GRAPH, String::new()),
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

//! Carries a decision out.
//!
//! Order: the discovery account first, because a pod whose account is missing is refused; then the wanted components, new
//! workers before old ones shrink; deletions last. A step that fails ends the pass: the next one starts from what is live.

use api_types::labels;
use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use controller_kit::apply::{Applier, Desired, Error, Outcome};
use controller_kit::store::{Key, Packed, Store, controller_owner};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};
use serde::Serialize;

use super::decide::{Decision, discovery::DiscoveryAccess};
use super::observe::{Caches, Observed, live_value};

/// Writes what differs and returns the graph's components as they are after it.
///
/// # Errors
/// The first step that failed.
pub async fn apply(
    applier: &Applier,
    caches: &Caches,
    observed: &Observed,
    decision: &Decision,
) -> Result<Vec<DynamoComponentDeployment>, Error> {
    let writer = Writer { applier, graph: &observed.graph };
    match &decision.discovery {
        Some(access) => writer.discovery(caches, access).await?,
        None => writer.no_discovery(caches).await?,
    }
    let mut live: Vec<_> =
        observed.components.iter().filter(|d| d.metadata.deletion_timestamp.is_none()).cloned().collect();
    for component in decision.components.iter().chain(&decision.old) {
        if let Some(after) = writer.write(&caches.components, component).await? {
            live.retain(|d| d.name_any() != after.name_any());
            live.push(after);
        }
    }
    for removal in &decision.delete {
        let gone = live.iter().position(|d| d.metadata.uid.as_ref() == Some(&removal.uid));
        if let Some(gone) = gone.map(|index| live.remove(index)) {
            applier.delete(&gone, writer.uid()).await?;
        }
    }
    Ok(live)
}

struct Writer<'a> {
    applier: &'a Applier,
    graph: &'a DynamoGraphDeployment,
}

impl Writer<'_> {
    fn uid(&self) -> &str {
        self.graph.metadata.uid.as_deref().unwrap_or_default()
    }

    async fn discovery(&self, caches: &Caches, access: &DiscoveryAccess) -> Result<(), Error> {
        self.write(&caches.accounts, &access.account).await?;
        self.write(&caches.roles, &access.role).await?;
        self.write(&caches.bindings, &access.binding).await?;
        Ok(())
    }

    async fn no_discovery(&self, caches: &Caches) -> Result<(), Error> {
        for binding in caches.bindings.children_of(self.uid()) {
            self.applier.delete(binding.as_ref(), self.uid()).await?;
        }
        for role in caches.roles.children_of(self.uid()) {
            self.applier.delete(role.as_ref(), self.uid()).await?;
        }
        for account in caches.accounts.children_of(self.uid()) {
            self.applier.delete(account.as_ref(), self.uid()).await?;
        }
        Ok(())
    }

    /// Applies one child and returns it as the API server has it, if it was written.
    async fn write<K>(&self, store: &Store<Packed<K>>, wanted: &K) -> Result<Option<K>, Error>
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
        let mark = mark_of_ours(&wanted);
        let desired = Desired::of(&wanted, self.uid())?.adopt_if_labelled(mark.0, &mark.1);
        match self.applier.apply(&desired, live.as_ref()).await? {
            Outcome::Created(value) | Outcome::Updated(value) => Ok(serde_json::from_value(value).ok()),
            Outcome::Unchanged | Outcome::Waiting { .. } => Ok(None),
        }
    }
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

/// The graph that an object belongs to: by its controller owner, else by its label.
pub fn graph_of<K: Resource>(object: &K) -> Option<Key> {
    let namespace = object.meta().namespace.as_deref()?;
    let by_owner =
        controller_owner(object).map(|owner| (owner.kind == "DynamoGraphDeployment").then(|| owner.name.clone()));
    let name = by_owner.unwrap_or_else(|| object.meta().labels.as_ref()?.get(labels::GRAPH).cloned())?;
    Some(Key::new(namespace, &name))
}

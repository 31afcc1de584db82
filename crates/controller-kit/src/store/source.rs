//! Objects that a watch reads, and namespaces whose objects its cache keeps.

use futures::{Stream, stream};
use kube::{
    Api, Client, Resource,
    core::{ApiResource, DynamicResourceScope, NamespaceResourceScope},
};
use tokio::sync::watch;

use crate::places::{Places, place};

/// The namespaces that a controller watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All of them.
    Cluster,
    /// Only this one; no cluster-wide right is needed.
    Namespace(String),
}

impl Scope {
    /// An `Api` for this scope.
    pub fn api<K: Resource<Scope = NamespaceResourceScope, DynamicType: Default>>(&self, client: Client) -> Api<K> {
        match self {
            Self::Cluster => Api::all(client),
            Self::Namespace(namespace) => Api::namespaced(client, namespace),
        }
    }

    /// An `Api` for this scope that learns of its kind when the program runs.
    pub(super) fn untyped<W>(&self, client: Client, resource: &ApiResource) -> Api<W>
    where
        W: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
    {
        match self {
            Self::Cluster => Api::all_with(client, resource),
            Self::Namespace(namespace) => Api::namespaced_with(client, namespace, resource),
        }
    }
}

/// The namespaces whose objects the caches of a process keep, if other replicas keep the others. Cheap to clone; clones
/// share it. A new one has none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Share(watch::Sender<Places>);

impl Share {
    /// Keeps the objects of these places from now on. Those of others go at once; those of new places come when all
    /// caches are [read anew](super::anew::read_anew).
    pub(crate) fn set(&self, places: &Places) {
        self.0.send_if_modified(|known| {
            let is_new = known != places;
            if is_new {
                known.clone_from(places);
            }
            is_new
        });
    }

    pub(super) fn contains(&self, namespace: &str) -> bool {
        self.0.borrow().contains(place(namespace))
    }

    /// An item for each change.
    pub(super) fn changes(&self) -> impl Stream<Item = ()> + Send + use<> {
        stream::unfold(self.0.subscribe(), async |mut places| places.changed().await.ok().map(|()| ((), places)))
    }
}

/// Kept part of the objects of other replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    Nothing,
    /// Their identity and their labels.
    Identity,
}

/// The part of the objects that the cache of a replica keeps.
#[derive(Debug, Clone)]
pub(super) struct SourcePart {
    pub(super) share: Share,
    pub(super) others: Others,
}

/// Objects that a watch reads.
#[derive(Clone)]
pub struct WatchSource {
    pub(super) client: Client,
    pub(super) scope: Scope,
    /// None if the cache keeps the objects of all namespaces.
    pub(super) part: Option<SourcePart>,
}

impl WatchSource {
    /// All objects of a scope.
    pub fn all(client: Client, scope: &Scope) -> Self {
        Self { client, scope: scope.clone(), part: None }
    }

    /// Those of a replica's share, if it has one.
    pub(crate) fn shared(client: Client, scope: &Scope, share: Option<&Share>) -> Self {
        let part = share.map(|share| SourcePart { share: share.clone(), others: Others::Nothing });
        Self { part, ..Self::all(client, scope) }
    }

    /// Also keeps name, controller and labels of the objects of other replicas, for checks that need all names.
    #[must_use]
    pub fn with_identities(self) -> Self {
        let part = self.part.map(|part| SourcePart { others: Others::Identity, ..part });
        Self { part, ..self }
    }
}

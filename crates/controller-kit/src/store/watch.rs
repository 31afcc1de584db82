//! Watches that keep a store up to date.

use std::{
    fmt::Debug,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
};

use futures::{Stream, StreamExt, channel::mpsc, stream, stream::BoxStream};
use kube::{
    Api, Client, Resource,
    core::{ApiResource, DynamicObject, DynamicResourceScope, NamespaceResourceScope, PartialObjectMeta},
    runtime::{WatchStreamExt, watcher::Event},
};
use serde::de::DeserializeOwned;
use tracing::warn;

use super::{
    Change, Key, Packed, Store,
    keep::{self, Rule},
    list_watch::{self, WatchError},
    packed::prune,
    pause::Pauses,
};

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
    #[must_use]
    pub fn api<K>(&self, client: Client) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        match self {
            Self::Cluster => Api::all(client),
            Self::Namespace(namespace) => Api::namespaced(client, namespace),
        }
    }

    /// An `Api` for this scope that learns of its kind when the program runs.
    fn untyped<W>(&self, client: Client, resource: &ApiResource) -> Api<W>
    where
        W: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
    {
        match self {
            Self::Cluster => Api::all_with(client, resource),
            Self::Namespace(namespace) => Api::namespaced_with(client, namespace, resource),
        }
    }
}

/// The stream of changes that keeps a [`Store`] up to date. It never ends; nothing happens unless it is polled.
pub struct Watch<O> {
    pub(crate) store: Store<O>,
    changes: BoxStream<'static, Change<O>>,
}

impl<O> Stream for Watch<O> {
    type Item = Change<O>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.changes.poll_next_unpin(cx)
    }
}

/// Caches whole objects, those above [`OBJECT_BYTES`](super::keep::OBJECT_BYTES) without their content. `labels` is a
/// label selector; `None` selects everything in the scope.
#[must_use]
pub fn watch<K>(client: Client, scope: &Scope, labels: Option<&str>) -> (Store<Packed<K>>, Watch<Packed<K>>)
where
    K: Resource<Scope = NamespaceResourceScope> + 'static,
    K::DynamicType: Default,
{
    watch_by(client, scope, labels, keep::any)
}

/// As [`watch`], and keeps as much of each object as a rule says.
#[must_use]
pub fn watch_by<K>(
    client: Client,
    scope: &Scope,
    labels: Option<&str>,
    rule: Rule,
) -> (Store<Packed<K>>, Watch<Packed<K>>)
where
    K: Resource<Scope = NamespaceResourceScope> + 'static,
    K::DynamicType: Default,
{
    watch_untyped(client, scope, labels, None, rule)
}

/// [`watch_named`] that reconnects within half a second, for objects on which other processes act at once.
#[must_use]
pub fn watch_named_briskly<K>(client: Client, scope: &Scope, name: &str) -> (Store<Packed<K>>, Watch<Packed<K>>)
where
    K: Resource<Scope = NamespaceResourceScope> + 'static,
    K::DynamicType: Default,
{
    let fields = format!("metadata.name={name}");
    let watch = Watch::new(untyped_events(client, scope, None, Some(&fields), keep::any, Pauses::brisk()));
    (watch.store.clone(), watch)
}

/// Caches the objects of one name, one a namespace. A role that names the object is enough to follow it.
#[must_use]
pub fn watch_named<K>(client: Client, scope: &Scope, name: &str) -> (Store<Packed<K>>, Watch<Packed<K>>)
where
    K: Resource<Scope = NamespaceResourceScope> + 'static,
    K::DynamicType: Default,
{
    watch_untyped(client, scope, None, Some(&format!("metadata.name={name}")), keep::any)
}

/// Caches metadata only; the API server sends nothing else.
#[must_use]
pub fn watch_metadata<K>(
    client: Client,
    scope: &Scope,
    labels: Option<&str>,
) -> (Store<PartialObjectMeta<K>>, Watch<PartialObjectMeta<K>>)
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + Send + Sync + DeserializeOwned + 'static,
    K::DynamicType: Default,
{
    watch_metadata_by(client, scope, labels, None)
}

/// As [`watch_metadata`], narrowed further by a field selector such as `status.phase!=Failed`. Objects that stop
/// matching leave the cache.
#[must_use]
pub fn watch_metadata_by<K>(
    client: Client,
    scope: &Scope,
    labels: Option<&str>,
    fields: Option<&str>,
) -> (Store<PartialObjectMeta<K>>, Watch<PartialObjectMeta<K>>)
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + Send + Sync + DeserializeOwned + 'static,
    K::DynamicType: Default,
{
    watch_untyped(client, scope, labels, fields, keep::any)
}

/// Caches what an `Api` gives, in the form that its type has: for objects of the whole cluster, and for those of which
/// a small part is enough.
#[must_use]
pub fn watch_api<O>(api: Api<O>, labels: Option<&str>, fields: Option<&str>) -> (Store<O>, Watch<O>)
where
    O: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    O::DynamicType: Default,
{
    let watch = Watch::new(events(api, labels, fields, Pauses::default()));
    (watch.store.clone(), watch)
}

fn watch_untyped<O>(
    client: Client,
    scope: &Scope,
    labels: Option<&str>,
    fields: Option<&str>,
    rule: Rule,
) -> (Store<O>, Watch<O>)
where
    O: Untyped + Send + Sync + 'static,
    O::DynamicType: Default,
{
    let watch = Watch::new(untyped_events(client, scope, labels, fields, rule, Pauses::default()));
    (watch.store.clone(), watch)
}

/// What comes over the wire without a type of its own. All the machinery of lists and watches is compiled once for all
/// kinds, and not once for each of the twenty.
pub(crate) trait Untyped: Resource {
    type Wire: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static;

    /// The object in the form in which it is kept.
    fn typed(wire: Self::Wire, rule: Rule) -> Self;
}

impl<K: Resource> Untyped for Packed<K> {
    type Wire = Packed<DynamicObject>;

    fn typed(wire: Self::Wire, rule: Rule) -> Self {
        wire.kept(rule).of_kind()
    }
}

impl<K: Resource> Untyped for PartialObjectMeta<K> {
    type Wire = PartialObjectMeta<DynamicObject>;

    fn typed(mut wire: Self::Wire, _: Rule) -> Self {
        keep::bound_alone(&mut wire.metadata);
        Self { types: wire.types, metadata: wire.metadata, _phantom: PhantomData }
    }
}

/// The events of a watch of one kind.
pub(crate) fn untyped_events<O>(
    client: Client,
    scope: &Scope,
    labels: Option<&str>,
    fields: Option<&str>,
    rule: Rule,
    pauses: Pauses,
) -> impl Stream<Item = Result<Event<O>, WatchError>> + Send + 'static
where
    O: Untyped + 'static,
    O::DynamicType: Default,
{
    let resource = ApiResource::erase::<O>(&O::DynamicType::default());
    let events = events(scope.untyped::<O::Wire>(client, &resource), labels, fields, pauses);
    events.map(move |event| event.map(|event| map(event, |object| O::typed(object, rule))))
}

/// The same event of the same object in another form.
pub(crate) fn map<A, B>(event: Event<A>, form: impl FnOnce(A) -> B) -> Event<B> {
    match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(form(object)),
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(form(object)),
        Event::Delete(object) => Event::Delete(form(object)),
    }
}

/// The events of a watch that never ends and connects again by itself.
fn events<O>(
    api: Api<O>,
    labels: Option<&str>,
    fields: Option<&str>,
    pauses: Pauses,
) -> BoxStream<'static, Result<Event<O>, WatchError>>
where
    O: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    list_watch::events(api, labels, fields).backoff(pauses).boxed()
}

impl<O> Watch<O>
where
    O: Resource + Send + Sync + 'static,
    O::DynamicType: Default,
{
    /// The same watch, and the keys that `map` names for every changed object, as it was and as it is. With them a
    /// second controller of the process hears of the changes without a watch of its own, see
    /// [`Controller::also`](crate::controller::Controller::also).
    #[must_use]
    pub fn and_keys(self, map: impl Fn(&O) -> Vec<Key> + Send + 'static) -> (Self, BoxStream<'static, Key>) {
        let (sender, keys) = mpsc::unbounded();
        let send = move |change: &Change<O>| {
            let both = change.before.iter().chain(&change.after);
            // Fails only without a receiver.
            both.flat_map(|object| map(object)).for_each(|key| drop(sender.unbounded_send(key)));
        };
        (self.inspect_changes(send), keys.boxed())
    }

    /// The same watch; calls a function with each change after the store has it.
    pub(super) fn inspect_changes(self, look: impl Fn(&Change<O>) + Send + 'static) -> Self {
        Self { changes: self.changes.inspect(look).boxed(), ..self }
    }

    /// Follows any stream of watch events.
    pub(crate) fn new(events: impl Stream<Item = Result<Event<O>, WatchError>> + Send + 'static) -> Self {
        Self::into_store(Store::new(), events)
    }

    /// The same for a store that exists.
    pub(super) fn into_store(
        store: Store<O>,
        events: impl Stream<Item = Result<Event<O>, WatchError>> + Send + 'static,
    ) -> Self {
        let target = store.clone();
        let take_in = move |event: Result<Event<O>, WatchError>| {
            stream::iter(match event {
                Ok(event) => target.handle(event.modify(|object| prune(object.meta_mut()))),
                Err(error) => {
                    warn!(kind = target.kind(), %error, "watch broke; trying again");
                    Vec::new()
                }
            })
        };
        Self { store, changes: events.map(take_in).flatten().boxed() }
    }
}

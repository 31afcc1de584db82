//! Watches that keep a store up to date.

use std::{
    fmt::Debug,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{Stream, StreamExt, channel::mpsc, stream, stream::BoxStream};
use kube::{
    Api, Client, Resource,
    api::ObjectMeta,
    core::{ApiResource, ClusterResourceScope, DynamicObject, DynamicResourceScope, PartialObjectMeta},
    runtime::watcher::Event,
};
use serde::de::DeserializeOwned;
use tokio::time::sleep;
use tracing::warn;

use super::{
    CacheChange, Key, NamespacedKind, Packed, StaticKind, Store,
    cache::{CacheChanges, Kept},
    held::Compress,
    keep,
    keep::{Keep, KeepRule},
    list_watch,
    list_watch::WatchError,
    packed::prune,
    pause::Pauses,
    source::{Others, SourcePart, WatchSource},
};
use crate::request::read;

/// The stream of changes that keeps a [`Store`] up to date. It never ends; nothing happens unless it is polled.
pub struct Watch<O> {
    pub(crate) store: Store<O>,
    changes: BoxStream<'static, CacheChange<O>>,
}

impl<O> Stream for Watch<O> {
    type Item = CacheChange<O>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.changes.poll_next_unpin(cx)
    }
}

/// A cache, and the watch that keeps it up to date.
type Watched<O> = (Store<O>, Watch<O>);

/// Caches whole objects, those above [`OBJECT_BYTES`](super::keep::OBJECT_BYTES) without their content. `labels` is a
/// label selector; `None` selects everything in the scope.
#[must_use]
pub fn watch<K: NamespacedKind>(source: &WatchSource, labels: Option<&str>) -> Watched<Packed<K>> {
    watch_by(source, labels, keep::any)
}

/// As [`watch`], and keeps as much of each object as a rule says.
#[must_use]
pub fn watch_by<K: NamespacedKind>(source: &WatchSource, labels: Option<&str>, rule: KeepRule) -> Watched<Packed<K>> {
    watch_untyped(source, labels, None, rule, Pauses::default())
}

/// [`watch_named`] that reconnects within half a second, for objects on which other processes act at once.
#[must_use]
pub fn watch_named_briskly<K: NamespacedKind>(source: &WatchSource, name: &str) -> Watched<Packed<K>> {
    watch_untyped(source, None, Some(&format!("metadata.name={name}")), keep::any, Pauses::brisk())
}

/// Caches the objects of one name, one a namespace. A role that names the object is enough to follow it.
#[must_use]
pub fn watch_named<K: NamespacedKind>(source: &WatchSource, name: &str) -> Watched<Packed<K>> {
    watch_untyped(source, None, Some(&format!("metadata.name={name}")), keep::any, Pauses::default())
}

/// Caches metadata only; the API server sends nothing else. `fields` is a field selector such as
/// `status.phase!=Failed`. Objects that stop matching leave the cache.
#[must_use]
pub fn watch_metadata<K: NamespacedKind>(
    source: &WatchSource,
    labels: Option<&str>,
    fields: Option<&str>,
) -> Watched<PartialObjectMeta<K>> {
    watch_untyped(source, labels, fields, keep::any, Pauses::default())
}

/// Caches what an `Api` gives, in the form that its type has: for objects of the whole cluster, and for those of which
/// a small part is enough.
#[must_use]
pub fn watch_api<O>(api: Api<O>, labels: Option<&str>, fields: Option<&str>) -> Watched<O>
where
    O: StaticKind + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let watch = Watch::new(list_watch::events(api, labels, fields, Pauses::default()));
    (watch.store.clone(), watch)
}

/// As [`watch_api`], for the one object of this name in a cluster. The API server sends its metadata, and the object is
/// read after each change: a watch keeps the memory that its largest event took, and some definitions take a megabyte.
#[must_use]
pub fn watch_and_read<O>(client: &Client, name: &str) -> Watched<O>
where
    O: StaticKind<Scope = ClusterResourceScope>
        + From<ObjectMeta>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let resource = ApiResource::erase::<O>(&O::DynamicType::default());
    let metadata: Api<PartialObjectMeta> = Api::all_with(client.clone(), &resource);
    let events = list_watch::events(metadata, None, Some(&format!("metadata.name={name}")), Pauses::default());
    let (store, api) = (Store::new(), Api::all(client.clone()));
    let cache = store.clone();
    let events = events.filter_map(move |event| {
        let (cache, api) = (cache.clone(), api.clone());
        async move {
            let event = match event {
                Ok(Event::InitApply(object)) => Event::InitApply(content(&object.metadata, &cache, &api).await?),
                Ok(Event::Apply(object)) => Event::Apply(content(&object.metadata, &cache, &api).await?),
                Ok(Event::Delete(object)) => Event::Delete(object.metadata.into()),
                Ok(Event::Init) => Event::Init,
                Ok(Event::InitDone) => Event::InitDone,
                Err(error) => return Some(Err(error)),
            };
            Some(Ok(event))
        }
    });
    (store.clone(), follow(store, events, Some))
}

/// The object as it is now, from the cache if that has this version; `None` if it is deleted, which the next event
/// reports. Reads until the API server answers.
async fn content<O>(metadata: &ObjectMeta, cache: &Store<O>, api: &Api<O>) -> Option<O>
where
    O: StaticKind + Clone + Debug + DeserializeOwned,
{
    let name = metadata.name.as_deref().unwrap_or_default();
    let is_same = |object: &Arc<O>| object.meta().resource_version == metadata.resource_version;
    if let Some(object) = cache.get(&Key::new("", name)).filter(is_same) {
        return Some(Arc::unwrap_or_clone(object));
    }
    let mut pauses = Pauses::default();
    loop {
        match read(|| format!("read {}/{name}", api.resource_url()), api.get_opt(name)).await {
            Ok(object) => return object,
            Err(error) => warn!(%error, "failed to read an object; trying again"),
        }
        sleep(pauses.next_pause()).await;
    }
}

fn watch_untyped<O: Untyped + StaticKind + Send + Sync + 'static>(
    source: &WatchSource,
    labels: Option<&str>,
    fields: Option<&str>,
    rule: KeepRule,
    pauses: Pauses,
) -> Watched<O> {
    let events = untyped_events(source, labels, fields, rule, pauses);
    let watch = partly(Store::compressed(), source.part.as_ref(), events);
    (watch.store.clone(), watch)
}

/// Wire form of objects, without a type of its own. All the code of lists and watches is compiled once for all kinds,
/// and not once for each of the twenty.
pub(crate) trait Untyped: Resource + Compress {
    type Wire: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static;

    /// The object in the form in which it is kept.
    fn typed(wire: Self::Wire, rule: KeepRule) -> Self;

    /// Returns the identity of the object. It has no version: the whole object replaces it.
    fn identity(&self) -> Self;
}

impl<K: Resource> Untyped for Packed<K> {
    type Wire = Packed<DynamicObject>;

    fn typed(wire: Self::Wire, rule: KeepRule) -> Self {
        wire.kept(rule).of_kind()
    }

    fn identity(&self) -> Self {
        let mut identity = self.clone().kept(|_| Keep::Identity);
        identity.metadata.resource_version = None;
        identity
    }
}

impl<K: Resource> Untyped for PartialObjectMeta<K> {
    type Wire = PartialObjectMeta<DynamicObject>;

    fn typed(mut wire: Self::Wire, _: KeepRule) -> Self {
        keep::bound_alone(&mut wire.metadata);
        Self { types: None, metadata: wire.metadata, _phantom: PhantomData }
    }

    fn identity(&self) -> Self {
        let mut metadata = self.metadata.clone();
        keep::reduce(&mut metadata);
        metadata.resource_version = None;
        Self { types: None, metadata, _phantom: PhantomData }
    }
}

/// The events of a watch of one kind.
pub(crate) fn untyped_events<O: Untyped + StaticKind + 'static>(
    source: &WatchSource,
    labels: Option<&str>,
    fields: Option<&str>,
    rule: KeepRule,
    pauses: Pauses,
) -> impl Stream<Item = Result<Event<O>, WatchError>> + Send + 'static {
    let resource = ApiResource::erase::<O>(&O::DynamicType::default());
    let api = source.scope.untyped::<O::Wire>(source.client.clone(), &resource);
    let events = list_watch::events(api, labels, fields, pauses);
    events.map(move |event| event.map(|event| map(event, |object| O::typed(object, rule))))
}

/// Maps the object of an event.
pub(crate) fn map<A, B>(event: Event<A>, form: impl FnOnce(A) -> B) -> Event<B> {
    match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(form(object)),
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(form(object)),
        Event::Delete(object) => Event::Delete(form(object)),
    }
}

impl<O: StaticKind + Send + Sync + 'static> Watch<O> {
    /// The same watch, and the keys that `map` names for every changed object, as it was and as it is. With them a
    /// second controller of the process gets the changes without a watch of its own, see
    /// [`Controller::also`](crate::controller::Controller::also).
    #[must_use]
    pub fn and_keys(self, map: impl Fn(&O) -> Vec<Key> + Send + 'static) -> (Self, BoxStream<'static, Key>) {
        let (sender, keys) = mpsc::unbounded();
        let send = move |change: &CacheChange<O>| {
            let concerned = change.before.iter().chain(&change.after).flat_map(|object| map(object));
            // Fails only without a receiver.
            concerned.for_each(|key| drop(sender.unbounded_send(key)));
        };
        (self.inspect_changes(send), keys.boxed())
    }

    /// Calls a function with each change after the store has it.
    pub(super) fn inspect_changes(self, look: impl Fn(&CacheChange<O>) + Send + 'static) -> Self {
        Self { changes: self.changes.inspect(look).boxed(), ..self }
    }

    /// Follows any stream of watch events.
    pub(crate) fn new(events: impl Stream<Item = Result<Event<O>, WatchError>> + Send + 'static) -> Self {
        follow(Store::new(), events, Some)
    }
}

/// Follows events into a store, of which a replica keeps its part.
pub(super) fn partly<O: Untyped + StaticKind + Send + Sync + 'static>(
    store: Store<O>,
    part: Option<&SourcePart>,
    events: impl Stream<Item = Result<Event<O>, WatchError>> + Send + 'static,
) -> Watch<O> {
    let Some(part) = part.cloned() else { return follow(store, events, Some) };
    let (target, known, moves) = (store.clone(), part.clone(), part.share.changes());
    let moved = moves.flat_map(move |()| stream::iter(target.confine(|object| kept(object, &known))));
    let watch = follow(store, events, move |event| confined(event, &part));
    Watch { changes: stream::select(watch.changes, moved).boxed(), ..watch }
}

/// Follows events into a store; those for which `form` gives none are passed over.
fn follow<O: Resource + Send + Sync + 'static>(
    store: Store<O>,
    events: impl Stream<Item = Result<Event<O>, WatchError>> + Send + 'static,
    form: impl Fn(Event<O>) -> Option<Event<O>> + Send + 'static,
) -> Watch<O> {
    let target = store.clone();
    let take_in = move |event: Result<Event<O>, WatchError>| {
        stream::iter(match event {
            Ok(event) => {
                let event = form(event.modify(|object| prune(object.meta_mut())));
                event.map(|event| target.handle(event)).unwrap_or_default()
            }
            Err(error) => {
                warn!(kind = target.kind(), %error, "watch broke; trying again");
                CacheChanges::default()
            }
        })
    };
    Watch { store, changes: events.map(take_in).flatten().boxed() }
}

/// The event as the cache of a replica takes it in.
fn confined<O: Untyped>(event: Event<O>, part: &SourcePart) -> Option<Event<O>> {
    match event {
        Event::InitApply(object) => match kept(&object, part) {
            Kept::Whole => Some(Event::InitApply(object)),
            Kept::As(identity) => Some(Event::InitApply(identity)),
            Kept::Not => None,
        },
        Event::Apply(object) => Some(match kept(&object, part) {
            Kept::Whole => Event::Apply(object),
            Kept::As(identity) => Event::Apply(identity),
            Kept::Not => Event::Delete(object),
        }),
        event => Some(event),
    }
}

fn kept<O: Untyped>(object: &O, part: &SourcePart) -> Kept<O> {
    let is_own = part.share.contains(object.meta().namespace.as_deref().unwrap_or_default());
    match part.others {
        _ if is_own => Kept::Whole,
        Others::Nothing => Kept::Not,
        Others::Identity => Kept::As(object.identity()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::{Router, http::StatusCode, response::IntoResponse};
    use futures::FutureExt;
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    use kube::Config;
    use serde_json::json;
    use tokio::net::TcpListener;

    use super::*;
    use crate::{
        places::{Places, Span, place},
        store::Share,
    };

    type Object = Packed<ConfigMap>;
    type Events = mpsc::UnboundedSender<Result<Event<Object>, WatchError>>;

    fn object(namespace: &str, version: u64) -> Object {
        Packed::from_value(json!({
            "metadata": {
                "name": "m", "namespace": namespace, "resourceVersion": version.to_string(),
                "labels": { "nvidia.com/x": "y" }, "annotations": { "example.com/large": "value" },
            },
            "data": { "key": "value" },
        }))
        .unwrap()
    }

    fn places(namespaces: &[&str]) -> Places {
        Places::of(namespaces.iter().map(|name| Span { first: place(name), last: place(name) }))
    }

    fn listed(events: &Events, objects: Vec<Object>) {
        let objects = objects.into_iter().map(Event::InitApply);
        for event in [Event::Init].into_iter().chain(objects).chain([Event::InitDone]) {
            events.unbounded_send(Ok(event)).unwrap();
        }
    }

    fn start(others: Others) -> (Share, Events, Watch<Object>) {
        let (share, (events, received)) = (Share::default(), mpsc::unbounded());
        let part = SourcePart { share: share.clone(), others };
        (share, events, partly(Store::new(), Some(&part), received))
    }

    /// Takes in all that has happened, and gives the whole objects that the cache holds, by their namespaces.
    fn whole(watch: &mut Watch<Object>) -> Vec<String> {
        while watch.next().now_or_never().flatten().is_some() {}
        let all = watch.store.all();
        let whole = all.iter().filter(|object| object.value()["data"]["key"] == "value");
        let mut namespaces: Vec<_> = whole.filter_map(|object| object.metadata.namespace.clone()).collect();
        namespaces.sort();
        namespaces
    }

    #[test]
    fn the_cache_of_a_replica_keeps_the_objects_of_its_share() {
        for (others, all) in [(Others::Nothing, 0), (Others::Identity, 3)] {
            let (share, events, mut watch) = start(others);
            let objects = || vec![object("a", 1), object("b", 2), object("c", 3)];
            listed(&events, objects());
            assert!(whole(&mut watch).is_empty(), "it has no share yet");
            assert!(watch.store.is_ready());
            assert_eq!(watch.store.len(), all);

            share.set(&places(&["a", "b"]));
            listed(&events, objects());
            assert_eq!(whole(&mut watch), ["a", "b"], "the same versions as before, now whole");

            events.unbounded_send(Ok(Event::Apply(object("c", 4)))).unwrap();
            events.unbounded_send(Ok(Event::Apply(object("b", 5)))).unwrap();
            assert_eq!(whole(&mut watch), ["a", "b"]);
            assert_eq!(watch.store.get(&Key::new("b", "m")).unwrap().metadata.resource_version.as_deref(), Some("5"));

            share.set(&places(&["b"]));
            assert_eq!(whole(&mut watch), ["b"], "what is lost goes at once");
            assert_eq!(watch.store.len(), all.max(1));
            let identity = watch.store.get(&Key::new("a", "m")).map(|object| object.value()["metadata"].clone());
            let expected = json!({ "name": "m", "namespace": "a", "labels": { "nvidia.com/x": "y" } });
            assert_eq!(identity.is_some(), all > 0);
            if let Some(mut identity) = identity {
                identity.as_object_mut().unwrap().retain(|_, value| *value != json!({}));
                assert_eq!(identity, expected);
            }
            events.unbounded_send(Ok(Event::Delete(object("a", 6)))).unwrap();
            whole(&mut watch);
            assert!(watch.store.get(&Key::new("a", "m")).is_none());
        }
    }

    /// The content of an identity may change while the watch is broken.
    #[test]
    fn a_list_brings_new_labels_of_the_objects_of_others() {
        let (_share, events, mut watch) = start(Others::Identity);
        listed(&events, vec![object("a", 1)]);
        assert!(whole(&mut watch).is_empty());
        let mut relabelled = object("a", 2);
        relabelled.metadata.labels = Some([("nvidia.com/x".to_owned(), "z".to_owned())].into());
        listed(&events, vec![relabelled]);
        assert!(whole(&mut watch).is_empty());
        let known = watch.store.get(&Key::new("a", "m")).unwrap();
        assert_eq!(known.metadata.labels.as_ref().unwrap()["nvidia.com/x"], "z");
    }

    /// A list that began before a loss must not bring back what was lost.
    #[test]
    fn a_loss_during_a_list_counts() {
        let (share, events, mut watch) = start(Others::Nothing);
        share.set(&places(&["a", "b"]));
        events.unbounded_send(Ok(Event::Init)).unwrap();
        events.unbounded_send(Ok(Event::InitApply(object("a", 1)))).unwrap();
        events.unbounded_send(Ok(Event::InitApply(object("b", 1)))).unwrap();
        assert!(whole(&mut watch).is_empty());
        share.set(&places(&["b"]));
        assert!(whole(&mut watch).is_empty());
        events.unbounded_send(Ok(Event::InitDone)).unwrap();
        assert_eq!(whole(&mut watch), ["b"]);
    }

    #[test]
    fn a_process_without_a_share_keeps_all() {
        let (events, received) = mpsc::unbounded();
        let mut watch = partly(Store::new(), None, received);
        listed(&events, vec![object("a", 1), object("b", 2)]);
        assert_eq!(whole(&mut watch), ["a", "b"]);
    }

    #[tokio::test]
    async fn content_is_read_once_for_each_version_until_there_is_an_answer() {
        let requests = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&requests);
        let answer = move || async move {
            let object =
                json!({ "metadata": { "name": "n", "resourceVersion": "2" }, "spec": { "finalizers": ["f"] } });
            let missing = json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404 });
            match counted.fetch_add(1, Ordering::SeqCst) {
                0 => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
                1 => object.to_string().into_response(),
                _ => (StatusCode::NOT_FOUND, missing.to_string()).into_response(),
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        tokio::spawn(axum::serve(listener, Router::new().fallback(answer)).into_future());
        let (cache, api) = (Store::<Namespace>::new(), Api::all(Client::try_from(config).unwrap()));
        let version = |version: &str| ObjectMeta {
            name: Some("n".to_owned()),
            resource_version: Some(version.to_owned()),
            ..ObjectMeta::default()
        };
        let read = content(&version("1"), &cache, &api).await.unwrap();
        assert_eq!(read.metadata.resource_version.as_deref(), Some("2"), "a newer one");
        assert_eq!(requests.load(Ordering::SeqCst), 2);

        for event in [Event::Init, Event::InitApply(read.clone()), Event::InitDone] {
            cache.handle(event);
        }
        assert_eq!(content(&version("2"), &cache, &api).await, Some(read));
        assert_eq!(requests.load(Ordering::SeqCst), 2, "the cache has this version");
        assert_eq!(content(&version("3"), &cache, &api).await, None, "it is deleted");
    }
}

//! The cache itself: a map, an index by owner, and what changed with each event.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use kube::{Resource, runtime::watcher::Event};
use tokio::sync::{Notify, watch};

use super::{
    Key, StaticKind,
    held::{Compress, HeldObject, number},
};

/// An object that appeared, changed or went.
#[derive(Debug)]
pub struct CacheChange<O> {
    /// As it was; `None` if it is new.
    pub before: Option<Arc<O>>,
    /// As it is; `None` if it is gone.
    pub after: Option<Arc<O>>,
}

/// Changes of one event, in the form in which the cache holds the objects: a list can bring all objects of a kind, and
/// they are read one by one.
#[derive(Debug)]
pub struct CacheChanges<O>(std::vec::IntoIter<HeldChange<O>>);

#[derive(Debug)]
struct HeldChange<O> {
    before: Option<HeldObject<O>>,
    after: Option<HeldObject<O>>,
}

impl<O> Default for CacheChanges<O> {
    fn default() -> Self {
        Self(Vec::new().into_iter())
    }
}

impl<O> Iterator for CacheChanges<O> {
    type Item = CacheChange<O>;

    fn next(&mut self) -> Option<Self::Item> {
        let HeldChange { before, after } = self.0.next()?;
        Some(CacheChange { before: before.map(|held| held.object()), after: after.map(|held| held.object()) })
    }
}

/// Kept part of an object.
#[derive(Debug)]
pub(super) enum Kept<O> {
    Whole,
    As(O),
    Not,
}

/// All objects of one kind that a watch selects, as of its last event. Cheap to clone; clones share the content.
#[derive(Debug)]
pub struct Store<O> {
    shared: Arc<SharedCache<O>>,
}

#[derive(Debug)]
struct SharedCache<O> {
    group: String,
    kind: String,
    content: RwLock<CacheContent<O>>,
    ready: watch::Sender<bool>,
    served: AtomicBool,
    needed: Notify,
}

/// View of a cache for the apply engine.
pub trait CacheView: Send + Sync {
    /// Group and kind of the objects.
    fn group_kind(&self) -> (&str, &str);

    /// The newest resourceVersion seen, deletions included.
    fn latest(&self) -> u64;

    /// Returns the state of the object with this uid in the cache.
    fn shows(&self, key: &Key, uid: &str) -> Shown;
}

/// State of an object in a cache, in the reverse order of its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shown {
    /// Not there, or another of its name is.
    Absent,
    /// Marked for deletion.
    Deleting,
    /// There.
    Alive,
}

impl<O> Clone for Store<O> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<O: StaticKind> Store<O> {
    /// An empty store, which holds objects as they are. Stores that follow the API server are made by
    /// [`watch`](super::watch()); this one is for few objects and for tests, fed with [`Store::handle`].
    #[must_use]
    pub fn new() -> Self {
        Self::holding(HeldObject::whole)
    }

    /// An empty store, which holds objects compressed.
    pub(super) fn compressed() -> Self
    where
        O: Compress,
    {
        Self::holding(HeldObject::compressed)
    }

    fn holding(hold: fn(O) -> HeldObject<O>) -> Self {
        let dynamic = O::DynamicType::default();
        let shared = SharedCache {
            group: O::group(&dynamic).into_owned(),
            kind: O::kind(&dynamic).into_owned(),
            content: RwLock::new(CacheContent::new(hold)),
            ready: watch::Sender::new(false),
            served: AtomicBool::new(true),
            needed: Notify::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// A complete store that no watch feeds: of these objects, or of a kind that is not served.
    #[must_use]
    pub fn snapshot(objects: Option<Vec<O>>) -> Self {
        let store = Self::new();
        store.set_served(objects.is_some());
        store.handle(Event::Init);
        for object in objects.into_iter().flatten() {
            store.handle(Event::InitApply(object));
        }
        store.handle(Event::InitDone);
        store
    }
}

impl<O: Resource> Store<O> {
    /// The object of this name.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<O>> {
        let held = self.read(|content| content.objects.get(key).cloned());
        held.map(|held| held.object())
    }

    /// The objects whose controller owner has this uid, in the order of their keys.
    #[must_use]
    pub fn children_of(&self, uid: &str) -> Vec<Arc<O>> {
        self.objects(|content| {
            let first = (Some(uid.into()), Key::new("", ""));
            let keys = content.by_owner.range(first..).take_while(|(owner, _)| owner.as_deref() == Some(uid));
            keys.filter_map(|(_, key)| content.objects.get(key).cloned()).collect()
        })
    }

    /// The objects of this namespace that no controller owns, in the order of their keys.
    #[must_use]
    pub fn orphans(&self, namespace: &str) -> Vec<Arc<O>> {
        self.objects(|content| {
            let first = (None, Key::new(namespace, ""));
            let is_here = |(owner, key): &&(Option<Arc<str>>, Key)| owner.is_none() && key.namespace == namespace;
            let keys = content.by_owner.range(first..).take_while(is_here);
            keys.filter_map(|(_, key)| content.objects.get(key).cloned()).collect()
        })
    }

    /// The keys of all objects, in order.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        self.read(|content| content.objects.keys().cloned().collect())
    }

    /// The keys of all objects and their resourceVersions as numbers, in order.
    #[must_use]
    pub fn versions(&self) -> Vec<(Key, Option<u64>)> {
        self.read(|content| content.objects.iter().map(|(key, held)| (key.clone(), held.number())).collect())
    }

    /// Number of changes so far: what was derived from all objects is current while it is the same.
    #[must_use]
    pub fn change_count(&self) -> u64 {
        self.read(|content| content.change_count)
    }

    /// Whether there are objects in this namespace.
    #[must_use]
    pub fn has_namespace(&self, namespace: &str) -> bool {
        self.read(|content| content.in_namespace(namespace).next().is_some())
    }

    /// The keys of the objects of this namespace, in order.
    #[must_use]
    pub fn keys_in(&self, namespace: &str) -> Vec<Key> {
        self.read(|content| content.in_namespace(namespace).map(|(key, _)| key.clone()).collect())
    }

    /// All objects, in the order of their keys. For caches of few objects; others are read by [`Store::keys`] and
    /// [`Store::get`], so that they are not in memory all at once.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<O>> {
        self.objects(|content| content.objects.values().cloned().collect())
    }

    /// The objects of this namespace, in the order of their keys.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<O>> {
        self.objects(|content| content.in_namespace(namespace).map(|(_, held)| held.clone()).collect())
    }

    /// The uids of all objects, each of which is read for that.
    #[must_use]
    pub fn uids(&self) -> HashSet<String> {
        let all = self.read(|content| content.objects.values().cloned().collect::<Vec<_>>());
        all.iter().filter_map(|held| held.object().meta().uid.clone()).collect()
    }

    /// Number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read(|content| content.objects.len())
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True once the first list is complete.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        *self.shared.ready.borrow()
    }

    /// Returns once the first list is complete. Something else must drive the [`Watch`](super::Watch) meanwhile.
    pub async fn wait_until_ready(&self) {
        // Fails only when the sender is gone, and `self` holds it.
        let _ = self.shared.ready.subscribe().wait_for(|ready| *ready).await;
    }

    /// False while the API server is known not to serve this kind; only stores of
    /// [`watch_if_served`](super::watch_if_served()) can be in that state, and they are empty then.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.shared.served.load(Ordering::Relaxed)
    }

    /// Reads at once whether the API server serves this kind, if it did not: an object needs it.
    pub fn need(&self) {
        if !self.is_served() {
            self.shared.needed.notify_one();
        }
    }

    /// Returns once an object has needed the kind.
    pub(super) async fn needed(&self) {
        self.shared.needed.notified().await;
    }

    pub(super) fn set_served(&self, served: bool) {
        self.shared.served.store(served, Ordering::Relaxed);
    }

    /// Kind of the objects.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.shared.kind
    }

    /// Applies one event and returns the changes.
    pub fn handle(&self, event: Event<O>) -> CacheChanges<O> {
        let done = matches!(event, Event::InitDone);
        let changes = self.shared.content.write().unwrap_or_else(PoisonError::into_inner).handle(event);
        if done {
            self.shared.ready.send_replace(true);
        }
        CacheChanges(changes.into_iter())
    }

    /// Reduces each object by `kept` from now on, and returns the changes.
    pub(super) fn confine(&self, kept: impl Fn(&O) -> Kept<O>) -> CacheChanges<O> {
        let changes = self.shared.content.write().unwrap_or_else(PoisonError::into_inner).confine(kept);
        CacheChanges(changes.into_iter())
    }

    /// Selects objects, and decompresses them after the lock is released: the watch can write to the cache meanwhile.
    fn objects(&self, select: impl FnOnce(&CacheContent<O>) -> Vec<HeldObject<O>>) -> Vec<Arc<O>> {
        self.read(select).iter().map(HeldObject::object).collect()
    }

    fn read<T>(&self, look: impl FnOnce(&CacheContent<O>) -> T) -> T {
        look(&self.shared.content.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<O: StaticKind> Default for Store<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Resource + Send + Sync> CacheView for Store<O> {
    fn group_kind(&self) -> (&str, &str) {
        (&self.shared.group, &self.shared.kind)
    }

    fn latest(&self) -> u64 {
        self.read(|content| content.latest)
    }

    fn shows(&self, key: &Key, uid: &str) -> Shown {
        match self.get(key) {
            Some(object) if object.meta().uid.as_deref() == Some(uid) => {
                if object.meta().deletion_timestamp.is_some() {
                    Shown::Deleting
                } else {
                    Shown::Alive
                }
            }
            _ => Shown::Absent,
        }
    }
}

#[derive(Debug)]
struct CacheContent<O> {
    objects: BTreeMap<Key, HeldObject<O>>,
    /// Uids of controller owners and their children, and before them the objects that no controller owns.
    by_owner: BTreeSet<(Option<Arc<str>>, Key)>,
    /// Objects of a list that is not complete yet.
    incoming: BTreeMap<Key, HeldObject<O>>,
    latest: u64,
    change_count: u64,
    hold: fn(O) -> HeldObject<O>,
}

impl<O> CacheContent<O> {
    fn new(hold: fn(O) -> HeldObject<O>) -> Self {
        Self {
            objects: BTreeMap::new(),
            by_owner: BTreeSet::new(),
            incoming: BTreeMap::new(),
            latest: 0,
            change_count: 0,
            hold,
        }
    }

    fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = (&Key, &HeldObject<O>)> {
        let first = Key::new(namespace, "");
        self.objects.range(first..).take_while(move |(key, _)| key.namespace == namespace)
    }
}

impl<O: Resource> CacheContent<O> {
    fn handle(&mut self, event: Event<O>) -> Vec<HeldChange<O>> {
        match event {
            Event::Init => {
                self.incoming.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                self.incoming.insert(Key::of(&object), (self.hold)(object));
                Vec::new()
            }
            Event::InitDone => self.replace_all(),
            Event::Apply(object) => vec![self.put(Key::of(&object), (self.hold)(object))],
            Event::Delete(object) => {
                self.see(number(object.meta().resource_version.as_deref()));
                self.take(&Key::of(&object)).into_iter().collect()
            }
        }
    }

    /// Only what really differs is a change: after a broken connection most objects come back as they were.
    fn replace_all(&mut self) -> Vec<HeldChange<O>> {
        let incoming = std::mem::take(&mut self.incoming);
        // The watch accepts an older list only from an API server that was restored; its versions count from there.
        let is_older = |(key, held): (&Key, &HeldObject<O>)| {
            self.objects.get(key).is_some_and(|known| known.number() > held.number())
        };
        if incoming.iter().any(is_older) {
            self.latest = incoming.values().filter_map(HeldObject::number).max().unwrap_or_default();
        }
        let gone: Vec<Key> = self.objects.keys().filter(|key| !incoming.contains_key(*key)).cloned().collect();
        let mut changes: Vec<_> = gone.iter().filter_map(|key| self.take(key)).collect();
        for (key, held) in incoming {
            if self.objects.get(&key).is_none_or(|known| !held.is_same(known)) {
                changes.push(self.put(key, held));
            }
        }
        changes
    }

    fn confine(&mut self, kept: impl Fn(&O) -> Kept<O>) -> Vec<HeldChange<O>> {
        for (key, held) in std::mem::take(&mut self.incoming) {
            match kept(&held.object()) {
                Kept::Whole => drop(self.incoming.insert(key, held)),
                Kept::As(other) => drop(self.incoming.insert(key, (self.hold)(other))),
                Kept::Not => {}
            }
        }
        let mut changes = Vec::new();
        for key in self.objects.keys().cloned().collect::<Vec<_>>() {
            let Some(known) = self.objects.get(&key) else { continue };
            match kept(&known.object()) {
                Kept::Whole => {}
                Kept::As(other) => {
                    let other = (self.hold)(other);
                    if !other.is_same(known) {
                        changes.push(self.put(key, other));
                    }
                }
                Kept::Not => changes.extend(self.take(&key)),
            }
        }
        changes
    }

    fn put(&mut self, key: Key, held: HeldObject<O>) -> HeldChange<O> {
        self.see(held.number());
        let before = self.objects.insert(key.clone(), held.clone());
        if let Some(before) = &before {
            self.unlink(before, &key);
        }
        self.by_owner.insert((held.owner.clone(), key));
        self.change_count += 1;
        HeldChange { before, after: Some(held) }
    }

    fn take(&mut self, key: &Key) -> Option<HeldChange<O>> {
        let before = self.objects.remove(key)?;
        self.unlink(&before, key);
        self.change_count += 1;
        Some(HeldChange { before: Some(before), after: None })
    }

    fn unlink(&mut self, object: &HeldObject<O>, key: &Key) {
        self.by_owner.remove(&(object.owner.clone(), key.clone()));
    }

    fn see(&mut self, version: Option<u64>) {
        self.latest = self.latest.max(version.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests;

//! The cache itself: a map, an index by owner, and what changed with each event.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use kube::{Resource, runtime::watcher::Event};
use tokio::sync::{Notify, watch};

use super::{Key, StaticKind, packed::controller_owner};

/// An object that appeared, changed or went.
#[derive(Debug)]
pub struct CacheChange<O> {
    /// As it was; `None` if it is new.
    pub before: Option<Arc<O>>,
    /// As it is; `None` if it is gone.
    pub after: Option<Arc<O>>,
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
    /// An empty store. Stores that follow the API server are made by [`watch`](super::watch()); this one is for tests,
    /// fed with [`Store::handle`].
    #[must_use]
    pub fn new() -> Self {
        let dynamic = O::DynamicType::default();
        let shared = SharedCache {
            group: O::group(&dynamic).into_owned(),
            kind: O::kind(&dynamic).into_owned(),
            content: RwLock::new(CacheContent::default()),
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
        self.read(|content| content.objects.get(key).cloned())
    }

    /// The objects whose controller owner has this uid, in the order of their keys.
    #[must_use]
    pub fn children_of(&self, uid: &str) -> Vec<Arc<O>> {
        self.read(|content| {
            let keys = content.by_owner.get(uid).into_iter().flatten();
            keys.filter_map(|key| content.objects.get(key).cloned()).collect()
        })
    }

    /// The keys of all objects, in no particular order.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        self.read(|content| content.objects.keys().cloned().collect())
    }

    /// Whether there are objects in this namespace.
    #[must_use]
    pub fn has_namespace(&self, namespace: &str) -> bool {
        self.read(|content| content.objects.keys().any(|key| key.namespace == namespace))
    }

    /// All objects, in no particular order.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<O>> {
        self.read(|content| content.objects.values().cloned().collect())
    }

    /// The objects of this namespace, in no particular order.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<O>> {
        self.read(|content| {
            let here = content.objects.iter().filter(|(key, _)| key.namespace == namespace);
            here.map(|(_, object)| Arc::clone(object)).collect()
        })
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

    /// Applies one event and returns the change.
    pub fn handle(&self, event: Event<O>) -> Vec<CacheChange<O>> {
        let done = matches!(event, Event::InitDone);
        let changes = self.shared.content.write().unwrap_or_else(PoisonError::into_inner).handle(event);
        if done {
            self.shared.ready.send_replace(true);
        }
        changes
    }

    /// Reduces each object by `kept` from now on, and returns the changes.
    pub(super) fn confine(&self, kept: impl Fn(&O) -> Kept<O>) -> Vec<CacheChange<O>> {
        self.shared.content.write().unwrap_or_else(PoisonError::into_inner).confine(kept)
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
    objects: HashMap<Key, Arc<O>>,
    by_owner: HashMap<String, BTreeSet<Key>>,
    /// Objects of a list that is not complete yet.
    incoming: HashMap<Key, O>,
    latest: u64,
}

impl<O> Default for CacheContent<O> {
    fn default() -> Self {
        Self { objects: HashMap::new(), by_owner: HashMap::new(), incoming: HashMap::new(), latest: 0 }
    }
}

impl<O: Resource> CacheContent<O> {
    fn handle(&mut self, event: Event<O>) -> Vec<CacheChange<O>> {
        match event {
            Event::Init => {
                self.incoming.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                self.incoming.insert(Key::of(&object), object);
                Vec::new()
            }
            Event::InitDone => self.replace_all(),
            Event::Apply(object) => vec![self.put(object)],
            Event::Delete(object) => {
                self.see(&object);
                self.take(&Key::of(&object)).into_iter().collect()
            }
        }
    }

    /// Only what really differs is a change: after a broken connection most objects come back as they were.
    fn replace_all(&mut self) -> Vec<CacheChange<O>> {
        let incoming = std::mem::take(&mut self.incoming);
        // The watch accepts an older list only from an API server that was restored; its versions count from there.
        let is_older = |(key, object): (&Key, &O)| {
            self.objects.get(key).is_some_and(|known| number(known.as_ref()) > number(object))
        };
        if incoming.iter().any(is_older) {
            self.latest = incoming.values().filter_map(number).max().unwrap_or_default();
        }
        let gone: Vec<Key> = self.objects.keys().filter(|key| !incoming.contains_key(*key)).cloned().collect();
        let mut changes: Vec<_> = gone.iter().filter_map(|key| self.take(key)).collect();
        for (key, object) in incoming {
            let known = self.objects.get(&key);
            if known.is_none_or(|known| !is_same(known.as_ref(), &object)) {
                changes.push(self.put(object));
            }
        }
        changes
    }

    fn confine(&mut self, kept: impl Fn(&O) -> Kept<O>) -> Vec<CacheChange<O>> {
        for (key, object) in std::mem::take(&mut self.incoming) {
            match kept(&object) {
                Kept::Whole => drop(self.incoming.insert(key, object)),
                Kept::As(other) => drop(self.incoming.insert(key, other)),
                Kept::Not => {}
            }
        }
        let all: Vec<_> = self.objects.iter().map(|(key, object)| (key.clone(), kept(object))).collect();
        let changes = all.into_iter().filter_map(|(key, kept)| match kept {
            Kept::Whole => None,
            Kept::As(other) => {
                let was_reduced = self.objects.get(&key).is_some_and(|known| is_same(known.as_ref(), &other));
                (!was_reduced).then(|| self.put(other))
            }
            Kept::Not => self.take(&key),
        });
        changes.collect()
    }

    fn put(&mut self, object: O) -> CacheChange<O> {
        self.see(&object);
        let key = Key::of(&object);
        let object = Arc::new(object);
        if let Some(owner) = controller_owner(object.as_ref()) {
            self.by_owner.entry(owner.uid.clone()).or_default().insert(key.clone());
        }
        let before = self.objects.insert(key.clone(), Arc::clone(&object));
        if let Some(before) = &before
            && owner_uid(before.as_ref()) != owner_uid(object.as_ref())
        {
            self.unlink(before.as_ref(), &key);
        }
        CacheChange { before, after: Some(object) }
    }

    fn take(&mut self, key: &Key) -> Option<CacheChange<O>> {
        let before = self.objects.remove(key)?;
        self.unlink(before.as_ref(), key);
        Some(CacheChange { before: Some(before), after: None })
    }

    fn unlink(&mut self, object: &O, key: &Key) {
        let Some(uid) = owner_uid(object) else { return };
        if let Some(keys) = self.by_owner.get_mut(uid) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_owner.remove(uid);
            }
        }
    }

    fn see(&mut self, object: &O) {
        self.latest = self.latest.max(number(object).unwrap_or_default());
    }
}

/// Whether an object is as it was known. One that is kept without a version is compared by what is kept.
fn is_same<O: Resource>(known: &O, object: &O) -> bool {
    version(known) == version(object) && (version(object).is_some() || known.meta() == object.meta())
}

fn version<O: Resource>(object: &O) -> Option<&str> {
    object.meta().resource_version.as_deref()
}

fn number<O: Resource>(object: &O) -> Option<u64> {
    version(object)?.parse().ok()
}

fn owner_uid<O: Resource>(object: &O) -> Option<&str> {
    controller_owner(object).map(|owner| owner.uid.as_str())
}

#[cfg(test)]
mod tests;

//! Calls a reconcile function for every object that changed, or whose children did.
//!
//! One key is worked on at a time by one task, different keys in parallel up to a bound. Failures back off per key.
//! Nothing starts before every cache is complete, because a plan on half a cache would delete or create the wrong
//! things.
//!
//! This is a loop of our own and not `kube::runtime::Controller`, which cannot be shut down before its first list
//! succeeded, has no backoff per key, and loses deletions that happened while a watch was broken.

mod reconcile;
mod running;
mod wiring;

use std::{future::Future, sync::Arc};

use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{BoxStream, SelectAll},
};
use kube::Resource;

use self::running::RunningReconciles;
pub use self::{
    reconcile::{Conclusion, Outputs, Reconcile, StatusPace, reconcile},
    running::Action,
    wiring::Wiring,
};
use crate::{
    apply::Applier,
    context::{Context, Readiness, Shutdown},
    failure::Failure,
    metrics::Metrics,
    scope::{Fence, Released},
    store::{CacheChange, Key, Packed, StaticKind, Store, Watch, controller_owner, keep::is_a},
};

// A panic in one reconcile must not end the process, and with it the work on every other object.
#[cfg(panic = "abort")]
compile_error!("build with panic = \"unwind\": a panic counts as an error of one object only");

/// A controller of one root kind.
pub struct Controller<K> {
    root: Watch<Packed<K>>,
    others: SelectAll<BoxStream<'static, Vec<Key>>>,
    synced: Vec<BoxFuture<'static, ()>>,
    applier: Option<Applier>,
    waits_for: String,
}

impl<K: StaticKind + Send + Sync + 'static> Controller<K> {
    /// A controller of the objects of this watch.
    pub fn new(root: Watch<Packed<K>>) -> Self {
        let synced = vec![ready(&root.store)];
        let waits_for = format!("{} caches", root.store.kind());
        Self { root, others: SelectAll::new(), synced, applier: None, waits_for }
    }

    /// Names the objects of the controller, where a process has several controllers of one kind: what it waits for
    /// is named like this then.
    #[must_use]
    pub fn of_those(mut self, which: &str) -> Self {
        self.waits_for = format!("{} caches ({which})", self.root.store.kind());
        self
    }

    /// Ties the controller to the applier its reconcile function writes with: no reconcile starts before the caches
    /// show what the last one wrote, and the applier forgets objects that are gone.
    #[must_use]
    pub fn writes_with(mut self, applier: &Applier) -> Self {
        self.applier = Some(applier.clone());
        self
    }

    /// Also reconciles the keys that `map` names for a changed object. It sees the object before and after the change,
    /// so one that moved from one owner to another wakes both.
    #[must_use]
    pub fn triggered_by<O>(mut self, watch: Watch<O>, map: impl Fn(&O) -> Vec<Key> + Send + 'static) -> Self
    where
        O: Resource + Send + Sync + 'static,
    {
        self.trigger(watch, map);
        self
    }

    fn trigger<O>(&mut self, watch: Watch<O>, map: impl Fn(&O) -> Vec<Key> + Send + 'static)
    where
        O: Resource + Send + Sync + 'static,
    {
        self.synced.push(ready(&watch.store));
        let keys = watch.map(move |change| {
            let both = change.before.iter().chain(&change.after);
            both.flat_map(|object| map(object)).collect::<Vec<Key>>()
        });
        self.others.push(keys.boxed());
    }

    /// Also reconciles the keys of this stream, for causes that no watch of its own shows.
    #[must_use]
    pub fn also(mut self, keys: BoxStream<'static, Key>) -> Self {
        self.others.push(keys.map(|key| vec![key]).boxed());
        self
    }

    /// [`Controller::run`] with a [`Reconcile`], tied to its applier as by [`Controller::writes_with`].
    pub async fn drive<R: Reconcile<Object = K>>(self, context: &Context, reconciler: Arc<R>) {
        let controller = self.writes_with(&reconciler.outputs().applier);
        let pass = move |object: Arc<Packed<K>>| {
            let reconciler = Arc::clone(&reconciler);
            async move { reconcile(reconciler.as_ref(), &object).await }
        };
        controller.run(context, pass).await;
    }

    /// Runs until the process is to stop, and lets running reconciles finish. Until the caches are complete, the
    /// process is not ready and nothing is reconciled.
    ///
    /// An error is logged, counted and tried again as it says itself. A panic counts as an error of that object only.
    pub async fn run<F, Fut, E>(self, context: &Context, reconcile: F)
    where
        F: Fn(Arc<Packed<K>>) -> Fut,
        Fut: Future<Output = Result<Action, E>> + Send + 'static,
        E: Failure,
    {
        let Context { readiness, shutdown, metrics, concurrency, fence, .. } = context;
        self.run_with(readiness, shutdown, metrics, *concurrency, fence, reconcile).await;
    }

    async fn run_with<F, Fut, E>(
        self,
        readiness: &Readiness,
        shutdown: &Shutdown,
        metrics: &Metrics,
        concurrency: usize,
        fence: &Fence,
        reconcile: F,
    ) where
        F: Fn(Arc<Packed<K>>) -> Fut,
        Fut: Future<Output = Result<Action, E>> + Send + 'static,
        E: Failure,
    {
        let store = self.root.store.clone();
        let gate = readiness.gate(&self.waits_for);
        let mut triggers = self.others;
        let applier = self.applier.clone();
        triggers.push(self.root.map(move |change| root_keys(&change, applier.as_ref())).boxed());
        triggers.push(released_keys(fence, &store));
        let mut synced = self.synced;
        let markers = fence.clone();
        synced.push(async move { markers.known().await }.boxed());
        let running = RunningReconciles::new(store, self.applier, metrics.clone(), concurrency, fence.clone());
        running.drive(triggers, synced, &gate, shutdown, reconcile).await;
    }
}

/// The key of the controller owner, if that is a `K`.
pub fn owner_key<K: StaticKind, O: Resource>(object: &O) -> Option<Key> {
    let owner = controller_owner(object)?;
    is_a::<K>(owner).then(|| Key::new(object.meta().namespace.as_deref().unwrap_or_default(), &owner.name))
}

fn ready<O: Resource + Send + Sync + 'static>(store: &Store<O>) -> BoxFuture<'static, ()> {
    let store = store.clone();
    async move { store.wait_until_ready().await }.boxed()
}

/// The root objects of every namespace in which the process may act again: what happened there meanwhile was not
/// reconciled.
fn released_keys<K>(fence: &Fence, store: &Store<Packed<K>>) -> BoxStream<'static, Vec<Key>>
where
    K: Resource + Send + Sync + 'static,
{
    let store = store.clone();
    let keys = move |released: Released| {
        store.keys().into_iter().filter(|key| released.contains(&key.namespace)).collect::<Vec<_>>()
    };
    fence.released().map(keys).boxed()
}

/// The key of a changed root object. One that is gone, or was replaced by another of its name, is forgotten.
fn root_keys<K: Resource>(change: &CacheChange<Packed<K>>, applier: Option<&Applier>) -> Vec<Key> {
    let uid = |object: &Option<Arc<Packed<K>>>| object.as_ref().and_then(|object| object.metadata.uid.clone());
    if let (Some(applier), Some(before)) = (applier, uid(&change.before))
        && uid(&change.after).as_deref() != Some(&before)
    {
        applier.forget(&before);
    }
    change.after.iter().chain(&change.before).take(1).map(|object| Key::of(object.as_ref())).collect()
}

#[cfg(test)]
mod tests;

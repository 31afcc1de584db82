//! Calls a reconcile function for every object that changed, or whose children did.
//!
//! One key is worked on at a time by one task, different keys in parallel up to a bound. Failures back off per key. Nothing
//! starts before every cache is complete, because a decision on half a cache would delete or create the wrong things.
//!
//! This is a loop of our own and not `kube::runtime::Controller`, which cannot be shut down before its first list
//! succeeded, has no backoff per key, and loses deletions that happened while a watch was broken.

mod queue;

use std::{collections::HashMap, future::Future, sync::Arc, time::Duration};

use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, join_all},
    stream::{BoxStream, SelectAll},
};
use kube::Resource;
use tokio::{
    task::{Id, JoinError, JoinSet},
    time::Instant,
};
use tracing::{Instrument, debug, error, info, info_span, warn};

use self::queue::Queue;
use crate::{
    apply::Applier,
    backoff::Backoff,
    failure::{Class, ErrorType, Failure, Retry},
    metrics::{Metrics, ReconcileResult},
    process::{Context, Gate, Readiness, Shutdown},
    store::{Change, Key, Packed, Store, Watch, controller_owner},
};

/// How a successful reconcile wants to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing to do until something changes.
    AwaitChange,
    /// Look again after this time, even if nothing changes.
    Requeue(Duration),
}

impl Action {
    /// [`Action::AwaitChange`].
    #[must_use]
    pub fn await_change() -> Self {
        Self::AwaitChange
    }

    /// [`Action::Requeue`].
    #[must_use]
    pub fn requeue(after: Duration) -> Self {
        Self::Requeue(after)
    }
}

/// A controller of one root kind.
pub struct Controller<K> {
    root: Watch<Packed<K>>,
    others: SelectAll<BoxStream<'static, Vec<Key>>>,
    synced: Vec<BoxFuture<'static, ()>>,
    applier: Option<Applier>,
}

impl<K> Controller<K>
where
    K: Resource + Send + Sync + 'static,
    K::DynamicType: Default,
{
    /// A controller of the objects of this watch.
    #[must_use]
    pub fn new(root: Watch<Packed<K>>) -> Self {
        let synced = vec![ready(&root.store)];
        Self { root, others: SelectAll::new(), synced, applier: None }
    }

    /// Ties the controller to the applier its reconcile function writes with: no reconcile starts before the caches show
    /// what the last one wrote, and the applier forgets objects that are gone.
    #[must_use]
    pub fn writes_with(mut self, applier: &Applier) -> Self {
        self.applier = Some(applier.clone());
        self
    }

    /// Also reconciles the keys that `map` names for a changed object. It sees the object before and after the change, so
    /// one that moved from one owner to another wakes both.
    #[must_use]
    pub fn triggered_by<O>(mut self, watch: Watch<O>, map: impl Fn(&O) -> Vec<Key> + Send + 'static) -> Self
    where
        O: Resource + Send + Sync + 'static,
    {
        self.synced.push(ready(&watch.store));
        let keys = watch.map(move |change| {
            let both = change.before.iter().chain(&change.after);
            both.flat_map(|object| map(object)).collect::<Vec<Key>>()
        });
        self.others.push(keys.boxed());
        self
    }

    /// Also reconciles the controller owner of a changed object, if it is of the root kind.
    #[must_use]
    pub fn owns<O>(self, watch: Watch<O>) -> Self
    where
        O: Resource + Send + Sync + 'static,
    {
        self.triggered_by(watch, |object| owner_key::<K, O>(object).into_iter().collect())
    }

    /// Also reconciles the keys of this stream, for causes that no watch of its own shows.
    #[must_use]
    pub fn also(mut self, keys: BoxStream<'static, Key>) -> Self {
        self.others.push(keys.map(|key| vec![key]).boxed());
        self
    }

    /// Runs until the process is to stop, and lets running reconciles finish. Until the caches are complete, the process
    /// is not ready and nothing is reconciled.
    ///
    /// An error is logged, counted and tried again as it says itself. A panic counts as an error of that object only.
    pub async fn run<F, Fut, E>(self, context: &Context, reconcile: F)
    where
        F: Fn(Arc<Packed<K>>) -> Fut,
        Fut: Future<Output = Result<Action, E>> + Send + 'static,
        E: Failure,
    {
        let Context { readiness, shutdown, metrics, concurrency, .. } = context;
        self.run_with(readiness, shutdown, metrics, *concurrency, reconcile).await;
    }

    async fn run_with<F, Fut, E>(
        self,
        readiness: &Readiness,
        shutdown: &Shutdown,
        metrics: &Metrics,
        concurrency: usize,
        reconcile: F,
    ) where
        F: Fn(Arc<Packed<K>>) -> Fut,
        Fut: Future<Output = Result<Action, E>> + Send + 'static,
        E: Failure,
    {
        let store = self.root.store.clone();
        let gate = readiness.gate(&format!("{} caches", store.kind()));
        let mut triggers = self.others;
        let applier = self.applier.clone();
        triggers.push(self.root.map(move |change| root_keys(&change, applier.as_ref())).boxed());
        let running = Running {
            store,
            applier: self.applier,
            metrics: metrics.clone(),
            queue: Queue::new(concurrency),
            backoff: Backoff::default(),
            tasks: JoinSet::new(),
            keys: HashMap::new(),
        };
        running.drive(triggers, self.synced, &gate, shutdown, reconcile).await;
    }
}

/// The key of the controller owner, if that is a `K`.
#[must_use]
pub fn owner_key<K, O>(object: &O) -> Option<Key>
where
    K: Resource,
    K::DynamicType: Default,
    O: Resource,
{
    let dynamic = K::DynamicType::default();
    let owner = controller_owner(object)?;
    let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    (owner.kind == K::kind(&dynamic) && group == K::group(&dynamic))
        .then(|| Key::new(object.meta().namespace.as_deref().unwrap_or_default(), &owner.name))
}

fn ready<O: Resource + Send + Sync + 'static>(store: &Store<O>) -> BoxFuture<'static, ()> {
    let store = store.clone();
    async move { store.wait_until_ready().await }.boxed()
}

/// The key of a changed root object. One that is gone, or was replaced by another of its name, is forgotten.
fn root_keys<K: Resource>(change: &Change<Packed<K>>, applier: Option<&Applier>) -> Vec<Key> {
    let uid = |object: &Option<Arc<Packed<K>>>| object.as_ref().and_then(|object| object.metadata.uid.clone());
    if let (Some(applier), Some(before)) = (applier, uid(&change.before))
        && uid(&change.after).as_deref() != Some(&before)
    {
        applier.forget(&before);
    }
    change.after.iter().chain(&change.before).take(1).map(|object| Key::of(object.as_ref())).collect()
}

/// How one reconcile ended.
struct Ended<E> {
    result: Result<Action, E>,
    took: Duration,
}

/// The state of a controller that runs.
struct Running<K, E> {
    store: Store<Packed<K>>,
    applier: Option<Applier>,
    metrics: Metrics,
    queue: Queue,
    backoff: Backoff<Key>,
    tasks: JoinSet<Ended<E>>,
    keys: HashMap<Id, Key>,
}

impl<K, E> Running<K, E>
where
    K: Resource + Send + Sync + 'static,
    K::DynamicType: Default,
    E: Failure,
{
    async fn drive<F, Fut>(
        mut self,
        mut triggers: SelectAll<BoxStream<'static, Vec<Key>>>,
        synced: Vec<BoxFuture<'static, ()>>,
        gate: &Gate,
        shutdown: &Shutdown,
        reconcile: F,
    ) where
        F: Fn(Arc<Packed<K>>) -> Fut,
        Fut: Future<Output = Result<Action, E>> + Send + 'static,
    {
        let mut synced = join_all(synced).fuse();
        let mut complete = false;
        loop {
            if complete {
                self.start_all(&reconcile);
            }
            let timer = self.queue.next_timer();
            tokio::select! {
                () = shutdown.requested() => break,
                Some(keys) = triggers.next() => keys.into_iter().for_each(|key| self.queue.trigger(key)),
                Some(ended) = self.tasks.join_next_with_id() => self.end(ended),
                () = sleep_until(timer) => self.queue.ring(Instant::now()),
                _ = &mut synced, if !complete => {
                    complete = true;
                    gate.open();
                    info!(kind = self.store.kind(), objects = self.store.len(), "caches are complete");
                }
            }
        }
        while let Some(ended) = self.tasks.join_next_with_id().await {
            self.end(ended);
        }
    }

    fn start_all<F, Fut>(&mut self, reconcile: &F)
    where
        F: Fn(Arc<Packed<K>>) -> Fut,
        Fut: Future<Output = Result<Action, E>> + Send + 'static,
    {
        while let Some(key) = self.queue.start() {
            let Some(object) = self.store.get(&key) else {
                debug!(kind = self.store.kind(), %key, "is gone");
                self.backoff.clear(&key);
                self.queue.finish(&key, Instant::now(), None);
                continue;
            };
            let uid = object.metadata.uid.as_deref().unwrap_or_default();
            if let Some(wait) = self.applier.as_ref().and_then(|applier| applier.stale(uid)) {
                debug!(kind = self.store.kind(), %key, "waiting for the caches to show the last writes");
                self.queue.finish(&key, Instant::now(), Some(wait));
                continue;
            }
            let span = info_span!("reconcile", kind = self.store.kind(), namespace = key.namespace, name = key.name);
            let work = reconcile(object);
            let timed = async move {
                let start = Instant::now();
                let result = work.await;
                Ended { result, took: start.elapsed() }
            };
            let task = self.tasks.spawn(timed.instrument(span));
            self.keys.insert(task.id(), key);
        }
    }

    fn end(&mut self, ended: Result<(Id, Ended<E>), JoinError>) {
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(key) = self.keys.remove(&id) else { return };
        let after = match ended {
            Ok((_, Ended { result: Ok(action), took })) => self.succeeded(&key, action, took),
            Ok((_, Ended { result: Err(error), took })) => self.failed(&key, &error, took),
            Err(panic) => {
                error!(kind = self.store.kind(), %key, %panic, "a reconcile panicked; this is a defect, please report it");
                self.metrics.failed(self.store.kind(), &key.namespace, ErrorType::Internal, Duration::ZERO);
                Some(self.backoff.next(&key))
            }
        };
        self.queue.finish(&key, Instant::now(), after);
    }

    fn succeeded(&mut self, key: &Key, action: Action, took: Duration) -> Option<Duration> {
        self.backoff.clear(key);
        let (result, after) = match action {
            Action::AwaitChange => (ReconcileResult::Success, None),
            Action::Requeue(after) => (ReconcileResult::Requeue, Some(after)),
        };
        self.metrics.reconciled(self.store.kind(), &key.namespace, result, took);
        after
    }

    fn failed(&mut self, key: &Key, error: &E, took: Duration) -> Option<Duration> {
        let type_ = error.error_type();
        self.metrics.failed(self.store.kind(), &key.namespace, type_, took);
        let after = match error.retry() {
            Retry::Backoff => Some(self.backoff.next(key)),
            Retry::AwaitChange => {
                self.backoff.clear(key);
                None
            }
        };
        let (kind, retry_in) = (self.store.kind(), after.map_or(0, |after| after.as_secs()));
        if type_.class() == Class::Transient {
            info!(kind, %key, %error, error_type = %type_, retry_in, "reconcile has to be repeated");
        } else {
            warn!(kind, %key, %error, error_type = %type_, retry_in, "reconcile failed");
        }
        after
    }
}

async fn sleep_until(timer: Option<Instant>) {
    match timer {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;

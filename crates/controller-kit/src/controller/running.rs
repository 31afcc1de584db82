//! The loop itself: starts reconciles, and judges how they ended.

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

use super::{Action, queue::Queue};
use crate::{
    apply::Applier,
    backoff::Backoff,
    context::{Gate, Shutdown},
    failure::{Class, ErrorType, Failure, Retry},
    metrics::{Metrics, ReconcileResult},
    scope::Fence,
    store::{Key, Packed, Store},
};

/// How one reconcile ended.
struct EndedReconcile<E> {
    result: Result<Action, E>,
    took: Duration,
}

/// The state of a controller that runs.
pub(super) struct Running<K, E> {
    store: Store<Packed<K>>,
    applier: Option<Applier>,
    metrics: Metrics,
    queue: Queue,
    backoff: Backoff<Key>,
    tasks: JoinSet<EndedReconcile<E>>,
    keys: HashMap<Id, Key>,
    fence: Fence,
}

impl<K, E> Running<K, E>
where
    K: Resource + Send + Sync + 'static,
    K::DynamicType: Default,
    E: Failure,
{
    pub(super) fn new(
        store: Store<Packed<K>>,
        applier: Option<Applier>,
        metrics: Metrics,
        concurrency: usize,
        fence: Fence,
    ) -> Self {
        let queue = Queue::new(concurrency);
        Self {
            store,
            applier,
            metrics,
            queue,
            backoff: Backoff::default(),
            tasks: JoinSet::new(),
            keys: HashMap::new(),
            fence,
        }
    }

    /// Works until the process is to stop, and lets running reconciles finish.
    pub(super) async fn drive<F, Fut>(
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
                if !self.store.has_namespace(&key.namespace) {
                    self.metrics.forget(self.store.kind(), &key.namespace);
                }
                continue;
            };
            let permit = match self.fence.begin_work(&key.namespace) {
                Ok(permit) => permit,
                Err(reason) => {
                    debug!(kind = self.store.kind(), %key, %reason, "left alone");
                    self.queue.finish(&key, Instant::now(), None);
                    continue;
                }
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
                drop(permit);
                EndedReconcile { result, took: start.elapsed() }
            };
            let task = self.tasks.spawn(timed.instrument(span));
            self.keys.insert(task.id(), key);
        }
    }

    fn end(&mut self, ended: Result<(Id, EndedReconcile<E>), JoinError>) {
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(key) = self.keys.remove(&id) else { return };
        let after = match ended {
            Ok((_, EndedReconcile { result: Ok(action), took })) => self.succeeded(&key, action, took),
            Ok((_, EndedReconcile { result: Err(error), took })) => self.failed(&key, &error, took),
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

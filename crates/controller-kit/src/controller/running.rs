//! The loop itself: selects the next key, starts its reconcile, and judges how it ended.
//!
//! The selection of the next key and the times to reconcile again are pure: time is an argument.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    future::Future,
    sync::Arc,
    time::Duration,
};

use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, join_all},
    stream::{BoxStream, SelectAll},
};
use tokio::{
    task::{Id, JoinError, JoinSet},
    time::Instant,
};
use tracing::{Instrument, debug, error, info, info_span, warn};

use crate::{
    apply::Applier,
    context::{Gate, Shutdown},
    failure::{Class, ErrorType, Failure, Retry},
    fairness::{Backoff, FairQueue},
    metrics::{Metrics, ReconcileResult},
    scope::{Excluded, Fence},
    store::{Key, Packed, StaticKind, Store},
};

/// Number of objects of one namespace that are reconciled in a turn, of half the places at most: about as many as a
/// graph has components. Those of a graph then become ready together; the more time lies between them, the more often
/// the status of the graph changes.
const RUN: usize = 4;

/// Pause before a reconcile that was skipped, if nothing announces that it may begin.
const SKIPPED_RETRY: Duration = Duration::from_secs(2);

/// How a reconcile that was started has ended.
enum EndedReconcile<E> {
    /// With a result, after this time.
    Reconciled(Result<Action, E>, Duration),
    /// Before it began: the process may not act in the namespace.
    Skipped(Excluded),
}

/// The state of a controller that runs.
pub(super) struct RunningReconciles<K, E> {
    store: Store<Packed<K>>,
    applier: Option<Applier>,
    metrics: Metrics,
    queue: Queue,
    backoff: Backoff<Key>,
    tasks: JoinSet<EndedReconcile<E>>,
    keys: HashMap<Id, Key>,
    fence: Fence,
}

impl<K: StaticKind + Send + Sync + 'static, E: Failure> RunningReconciles<K, E> {
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

    /// Not part of the caller, whose stack frame would have room for all of a reconcile even while nothing is to be
    /// done.
    #[inline(never)]
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
            let uid = object.metadata.uid.as_deref().unwrap_or_default();
            if let Some(wait) = self.applier.as_ref().and_then(|applier| applier.stale(uid)) {
                debug!(kind = self.store.kind(), %key, "waiting for the caches to show the last writes");
                self.queue.finish(&key, Instant::now(), Some(wait));
                continue;
            }
            let span = info_span!("reconcile", kind = self.store.kind(), namespace = key.namespace, name = key.name);
            // A reconcile takes tens of kilobytes, which each wrapper would copy.
            let work = reconcile(object).boxed();
            let (fence, namespace) = (self.fence.clone(), key.namespace.clone());
            let timed = async move {
                let permit = match fence.begin_work(&namespace).await {
                    Ok(permit) => permit,
                    Err(reason) => return EndedReconcile::Skipped(reason),
                };
                let start = Instant::now();
                let result = work.await;
                drop(permit);
                EndedReconcile::Reconciled(result, start.elapsed())
            };
            let task = self.tasks.spawn(timed.instrument(span));
            self.keys.insert(task.id(), key);
        }
    }

    fn end(&mut self, ended: Result<(Id, EndedReconcile<E>), JoinError>) {
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(key) = self.keys.remove(&id) else { return };
        let after = match ended {
            Ok((_, EndedReconcile::Reconciled(Ok(action), took))) => self.succeeded(&key, action, took),
            Ok((_, EndedReconcile::Reconciled(Err(error), took))) => self.failed(&key, &error, took),
            Ok((_, EndedReconcile::Skipped(reason))) => {
                debug!(kind = self.store.kind(), %key, %reason, "skipped");
                // The end of any other exclusion triggers the key.
                reason.is_temporary().then_some(SKIPPED_RETRY)
            }
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

/// Keys that wait for a reconcile. A key is never worked on twice at the same time, and any number of triggers before
/// it starts are one. Namespaces take turns.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: FairQueue<Key>,
    queued: HashSet<Key>,
    running: HashSet<Key>,
    /// Triggered while running: what the reconcile saw may be out of date.
    again: HashSet<Key>,
    timers: BTreeSet<(Instant, Key)>,
    timer_of: HashMap<Key, Instant>,
}

impl Queue {
    /// At most `concurrency` keys run at the same time; at least one does.
    pub(super) fn new(concurrency: usize) -> Self {
        Self {
            waiting: FairQueue::new(concurrency.max(1)).in_runs_of(RUN.min(concurrency / 2)),
            queued: HashSet::new(),
            running: HashSet::new(),
            again: HashSet::new(),
            timers: BTreeSet::new(),
            timer_of: HashMap::new(),
        }
    }

    /// Something about this key changed.
    pub(super) fn trigger(&mut self, key: Key) {
        if self.running.contains(&key) {
            self.again.insert(key);
        } else if self.queued.insert(key.clone()) {
            self.waiting.push(&key.namespace.clone(), key);
        }
    }

    /// The next key to start, if one waits and there is room. Its timer is over: the reconcile will set a new one.
    pub(super) fn start(&mut self) -> Option<Key> {
        let key = self.waiting.pop()?;
        self.waiting.take(&key.namespace, 1);
        self.queued.remove(&key);
        self.cancel(&key);
        self.running.insert(key.clone());
        Some(key)
    }

    /// A key is done; `after` is when it is reconciled again without a trigger.
    pub(super) fn finish(&mut self, key: &Key, now: Instant, after: Option<Duration>) {
        if self.running.remove(key) {
            self.waiting.give_back(&key.namespace);
        }
        if self.again.remove(key) {
            self.trigger(key.clone());
        }
        if let Some(at) = after.and_then(|delay| now.checked_add(delay)) {
            self.cancel(key);
            self.timers.insert((at, key.clone()));
            self.timer_of.insert(key.clone(), at);
        }
    }

    /// Returns the end of the next timer.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Triggers every key whose timer has ended.
    pub(super) fn ring(&mut self, now: Instant) {
        while let Some((at, key)) = self.timers.first().cloned() {
            if at > now {
                break;
            }
            self.cancel(&key);
            self.trigger(key);
        }
    }

    fn cancel(&mut self, key: &Key) {
        if let Some(at) = self.timer_of.remove(key) {
            self.timers.remove(&(at, key.clone()));
        }
    }
}

/// Time of the next reconcile of an object after a success.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Action {
    /// Wait for a change of the object or of its children.
    #[default]
    AwaitChange,
    /// Reconcile again after this time, even if nothing changes.
    Requeue(Duration),
}

impl Action {
    /// Moves the next reconcile forward to this time at the latest.
    #[must_use]
    pub fn no_later_than(self, after: Duration) -> Self {
        match self {
            Self::Requeue(sooner) if sooner < after => self,
            Self::Requeue(_) | Self::AwaitChange => Self::Requeue(after),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::Queue;
    use crate::store::Key;

    fn key(name: &str) -> Key {
        Key::new("n", name)
    }

    #[test]
    fn triggers_before_the_start_are_one() {
        let mut queue = Queue::new(8);
        for name in ["a", "b", "a", "a"] {
            queue.trigger(key(name));
        }
        assert_eq!(queue.start(), Some(key("a")));
        assert_eq!(queue.start(), Some(key("b")));
        assert_eq!(queue.start(), None);
    }

    #[test]
    fn a_key_never_runs_twice_at_once_and_no_trigger_is_lost() {
        let mut queue = Queue::new(8);
        queue.trigger(key("a"));
        assert_eq!(queue.start(), Some(key("a")));
        queue.trigger(key("a"));
        queue.trigger(key("a"));
        assert_eq!(queue.start(), None, "it is running");
        queue.finish(&key("a"), Instant::now(), None);
        assert_eq!(queue.start(), Some(key("a")), "triggered while running");
        queue.finish(&key("a"), Instant::now(), None);
        assert_eq!(queue.start(), None, "once is enough");
    }

    #[test]
    fn concurrency_is_bounded() {
        let mut queue = Queue::new(2);
        for name in ["a", "b", "c"] {
            queue.trigger(key(name));
        }
        assert!(queue.start().is_some() && queue.start().is_some());
        assert_eq!(queue.start(), None);
        queue.finish(&key("b"), Instant::now(), None);
        assert_eq!(queue.start(), Some(key("c")));
    }

    /// One graph of a tenant waited until all objects of another tenant were reconciled.
    #[test]
    fn a_namespace_with_ten_thousand_keys_does_not_delay_another() {
        let mut queue = Queue::new(8);
        (0..10_000).for_each(|number| queue.trigger(key(&number.to_string())));
        while queue.start().is_some() {}
        let other = Key::new("other", "graph");
        queue.trigger(other.clone());
        assert_eq!(queue.start(), Some(other));
    }

    #[test]
    fn timers_ring_in_time_and_once() {
        let (mut queue, now) = (Queue::new(8), Instant::now());
        for (name, seconds) in [("late", 9), ("soon", 3)] {
            queue.trigger(key(name));
            queue.start();
            queue.finish(&key(name), now, Some(Duration::from_secs(seconds)));
        }
        assert_eq!(queue.next_timer(), Some(now + Duration::from_secs(3)));
        queue.ring(now + Duration::from_secs(2));
        assert_eq!(queue.start(), None);
        queue.ring(now + Duration::from_secs(5));
        assert_eq!(queue.start(), Some(key("soon")));
        assert_eq!(queue.start(), None);
        assert_eq!(queue.next_timer(), Some(now + Duration::from_secs(9)));
    }

    #[test]
    fn a_trigger_overtakes_the_timer_and_ends_it() {
        let (mut queue, now) = (Queue::new(8), Instant::now());
        queue.trigger(key("a"));
        queue.start();
        queue.finish(&key("a"), now, Some(Duration::from_secs(60)));
        queue.trigger(key("a"));
        assert_eq!(queue.start(), Some(key("a")), "a change is not held back");
        assert_eq!(queue.next_timer(), None);
        queue.finish(&key("a"), now, None);
        queue.ring(now + Duration::from_secs(120));
        assert_eq!(queue.start(), None);
    }

    /// Ticks in which a graph of one tenant has 30 reconciles, while `others` objects of another tenant change all the
    /// time. A reconcile takes four ticks; the first ones take less, so that workers are free at different ticks.
    fn ticks_of_a_graph(workers: usize, others: usize) -> u32 {
        let (mut queue, graph, mut left) = (Queue::new(workers), Key::new("other", "graph"), 30);
        let now = Instant::now();
        let mut running: Vec<(u32, Key)> = Vec::new();
        (0..others).for_each(|number| queue.trigger(key(&number.to_string())));
        for tick in 0.. {
            let (ended, open): (Vec<_>, Vec<_>) = running.into_iter().partition(|(end, _)| *end <= tick);
            running = open;
            for (_, key) in ended {
                queue.finish(&key, now, None);
                if key == graph {
                    left -= 1;
                    if left == 0 {
                        return tick;
                    }
                } else {
                    queue.trigger(key);
                }
            }
            // The other tenant is first at each free worker.
            let start = |queue: &mut Queue, running: &mut Vec<(u32, Key)>| {
                while let Some(key) = queue.start() {
                    let ticks = if tick == 0 && key != graph { 1 + running.len() % 4 } else { 4 };
                    running.push((tick + u32::try_from(ticks).unwrap(), key));
                }
            };
            start(&mut queue, &mut running);
            if !running.iter().any(|(_, key)| *key == graph) {
                queue.trigger(graph.clone());
                start(&mut queue, &mut running);
            }
        }
        unreachable!()
    }

    #[test]
    fn a_graph_beside_ten_thousand_objects_takes_at_most_twice_its_time() {
        for workers in [1, 2, 4, 8, 16] {
            let (alone, beside) = (ticks_of_a_graph(workers, 0), ticks_of_a_graph(workers, 10_000));
            assert!(beside <= 2 * alone, "{workers} workers: {alone} alone, {beside} beside the others");
        }
    }
}

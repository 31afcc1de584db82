//! One process on the API server, and its metrics.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    hash::{BuildHasher, RandomState},
    sync::atomic::AtomicU64,
    time::{Duration, Instant},
};

use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{BoxStream, FuturesUnordered, SelectAll},
};
use k8s_openapi::api::coordination::v1::Lease;
use prometheus_client::metrics::{counter::Counter, gauge::Gauge, histogram::Histogram};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{info, warn};

use super::{
    LeaseAnswer, LeaseRequest, LeaseTarget,
    handover::Duty,
    lease::{LeaseDone, Leases, record},
    member::Seen,
    replica::Replica,
};
use crate::{
    context::{Context, Gate},
    lease::{Ended, WORK_GRACE, identity, lease_namespace},
    metrics::Metrics,
    places::{Places, Span},
    scope::{Fence, Released},
    store::{Scope, WatchSource, anew::read_anew, watch_named_briskly},
};

/// Gate that the process waits for until it has seen the Leases.
const GATE: &str = "leader election";

/// Interval between the checks of a process for due steps.
const TICK: Duration = Duration::from_millis(500);

/// Time limit for the end of reconciles in lost places. After it, their next write is refused.
const PATIENCE: Duration = Duration::from_secs(5);

/// Time limit for giving the Leases back.
const LEAVING: Duration = Duration::from_secs(2);

/// Runs `work` at once, with the namespaces of this process's shard, as its fence holds them, until it ends.
///
/// # Errors
/// If the work fails.
pub async fn share<F, Fut, E>(context: Context, work: F) -> Result<(), Ended<E>>
where
    F: FnOnce(Context) -> Fut,
    Fut: Future<Output = Result<(), E>>,
    E: fmt::Display,
{
    let mut process = ShardProcess::new(&context);
    let outcome = tokio::select! {
        outcome = work(context.clone()) => outcome.map_err(Ended::Work),
        () = process.run(&context) => Ok(()),
        () = context.shutdown.deadline(WORK_GRACE) => {
            warn!(seconds = WORK_GRACE.as_secs(), "did not stop in time; giving up what still runs");
            Ok(())
        }
    };
    if timeout(LEAVING, process.leave()).await.is_err() {
        warn!("failed to give the member Lease back in time; it expires by itself");
    }
    outcome
}

type LeaseChanges = BoxStream<'static, (LeaseTarget, Option<Lease>)>;

struct ShardProcess {
    leases: Leases,
    replica: Replica,
    /// The Leases as they were seen last.
    known: BTreeMap<LeaseTarget, Lease>,
    fence: Fence,
    changes: SelectAll<LeaseChanges>,
    requests: FuturesUnordered<BoxFuture<'static, LeaseDone>>,
    readings: FuturesUnordered<BoxFuture<'static, u64>>,
    draining_since: Option<Instant>,
    metrics: ShardMetrics,
    gate: Gate,
}

impl ShardProcess {
    fn new(context: &Context) -> Self {
        let settings = &context.settings.leader_election;
        let namespace = lease_namespace(settings, context);
        let leases = Leases::new(context.client.clone(), &namespace, context.name, settings.lease_name(context.name));
        let source = WatchSource::all(context.client.clone(), &Scope::Namespace(namespace));
        let changes = LeaseTarget::all().map(|target| {
            let (_, watch) = watch_named_briskly::<Lease>(&source, &leases.name(target));
            watch.map(move |change| (target, change.after.and_then(|lease| lease.unpack().ok()))).boxed()
        });
        Self {
            changes: changes.collect(),
            leases,
            replica: Replica::new(&identity()),
            known: BTreeMap::new(),
            fence: context.fence.clone(),
            requests: FuturesUnordered::new(),
            readings: FuturesUnordered::new(),
            draining_since: None,
            metrics: ShardMetrics::register(&context.metrics),
            gate: context.readiness.gate(GATE),
        }
    }

    /// Never returns.
    async fn run(&mut self, context: &Context) {
        let mut ready = Box::pin(context.readiness.ready()).fuse();
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let shard = self.fence.shard().cloned().unwrap_or_default();
        loop {
            tokio::select! {
                Some((target, lease)) = self.changes.next() => {
                    self.replica.observe(target, lease.as_ref().map(record), Instant::now());
                    self.record_lease(target, lease);
                }
                Some(done) = self.requests.next() => self.take_in(done),
                Some(reading) = self.readings.next() => {
                    let gained = self.replica.loaded(reading);
                    self.act_in(gained);
                }
                () = &mut ready => self.replica.ready(),
                () = shard.ended(), if self.awaits_work() => {}
                _ = tick.tick() => {}
            }
            self.settle();
        }
    }

    fn take_in(&mut self, LeaseDone { target, started, answer, lease }: LeaseDone) {
        self.replica.answered(target, started, answer, Instant::now());
        self.record_lease(target, lease);
    }

    /// Keeps the Lease whose version the next write replaces.
    fn record_lease(&mut self, target: LeaseTarget, lease: Option<Lease>) {
        if let Some(lease) = lease.filter(|lease| self.replica.version(target) == Some(record(lease).version)) {
            self.known.insert(target, lease);
        }
    }

    fn act_in(&mut self, gained: Places) {
        if gained.is_empty() {
            return;
        }
        info!(share = gained.share(), "gained places");
        self.metrics.gained(Instant::now());
        self.assign();
        self.fence.announce([Released::Places(gained)]);
    }

    /// Sets in the fence where the process may act.
    fn assign(&mut self) {
        let duty = self.replica.duty();
        let is_patient = self.draining_since.is_none_or(|since| since.elapsed() < PATIENCE);
        let none = Places::default();
        if let Some(shard) = self.fence.shard() {
            shard.cached().set(&duty.cached());
            shard.assign(duty.active(), if is_patient { duty.draining() } else { &none });
        }
        self.fence.leads_until(self.replica.acts_until().unwrap_or_else(Instant::now));
        self.fence.elected_until(self.replica.elected_until());
        self.metrics.show(duty, Instant::now());
    }

    /// Draws the consequences of what has happened, and sends what is due.
    fn settle(&mut self) {
        self.assign();
        self.drain();
        if let Some(shard) = self.fence.shard().filter(|_| !self.replica.duty().ending().is_empty()) {
            self.replica.runs_in(&shard.busy());
        }
        if self.replica.has_read_leases() {
            self.gate.open();
        }
        while let Some(reading) = self.replica.begin_loading() {
            self.readings.push(read_anew().map(move |()| reading).boxed());
        }
        for request in self.replica.requests(Instant::now(), random()) {
            self.send(request);
        }
    }

    /// Whether a hand-over waits for work that runs.
    fn awaits_work(&self) -> bool {
        !self.replica.duty().draining().is_empty() || !self.replica.duty().ending().is_empty()
    }

    /// Closes what is lost, as soon as nothing runs there.
    fn drain(&mut self) {
        let draining = self.replica.duty().draining().clone();
        if draining.is_empty() {
            self.draining_since = None;
            return;
        }
        let since = *self.draining_since.get_or_insert_with(Instant::now);
        let is_patient = since.elapsed() < PATIENCE;
        if self.fence.shard().is_none_or(|shard| shard.close(&draining, is_patient)) {
            info!(share = draining.share(), "lost places");
            self.metrics.lost();
            self.replica.drained(&draining);
            self.draining_since = None;
        }
    }

    fn send(&mut self, request: LeaseRequest) {
        let known = self.known.get(&request.target()).cloned();
        self.requests.push(self.leases.clone().send(request, known).boxed());
    }

    /// Gives the Leases back. Nothing of the process runs any more.
    async fn leave(&mut self) {
        if let Some(shard) = self.fence.shard() {
            shard.assign(&Places::default(), &Places::default());
            while !shard.close(&Places::of([Span::ALL]), false) {
                shard.ended().await;
            }
        }
        while let Some(done) = self.requests.next().await {
            self.take_in(done);
        }
        for request in self.replica.leave() {
            self.send(request);
        }
        while let Some(done) = self.requests.next().await {
            self.take_in(done);
        }
    }
}

/// Returns when no member acts any more. A leader that acts alone calls it after it has taken a Lease with an assignment,
/// which is void from then on.
pub(crate) async fn until_ended(context: &Context) {
    let settings = &context.settings.leader_election;
    let namespace = lease_namespace(settings, context);
    let leases = Leases::new(context.client.clone(), &namespace, context.name, settings.lease_name(context.name));
    let start = Instant::now();
    for slot in LeaseTarget::all().filter(|target| *target != LeaseTarget::Elected) {
        let mut seen = Seen::default();
        while !seen.is_free(start, Instant::now()) {
            let done = leases.clone().send(LeaseRequest::Read(slot), None).await;
            match done.answer {
                LeaseAnswer::Found(record) => seen.read(record, done.started, Instant::now()),
                LeaseAnswer::Written(_) | LeaseAnswer::Conflict | LeaseAnswer::Unknown => {}
            }
            tokio::time::sleep(TICK).await;
        }
    }
}

/// A random number.
fn random() -> u64 {
    RandomState::new().hash_one(())
}

/// Upper bounds of the hand-over histogram, in seconds. A killed owner is waited for.
const BUCKETS: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0];

/// Metrics of the places of a replica, and of its wait for places that it is given.
pub(super) struct ShardMetrics {
    ranges: Gauge,
    share: Gauge<f64, AtomicU64>,
    gains: Counter,
    losses: Counter,
    lag: Histogram,
    /// Since when it has been given places where it does not act yet.
    waiting: Option<Instant>,
}

impl ShardMetrics {
    /// Adds the families to those of the process.
    pub(super) fn register(metrics: &Metrics) -> Self {
        let this = Self {
            ranges: Gauge::default(),
            share: Gauge::default(),
            gains: Counter::default(),
            losses: Counter::default(),
            lag: Histogram::new(BUCKETS),
            waiting: None,
        };
        metrics.register(|registry| {
            registry.register("shard_ranges", "Ranges of namespaces in which this replica acts", this.ranges.clone());
            registry.register("shard_share", "Share of all places in which this replica acts", this.share.clone());
            registry.register("shard_gains", "Hand-overs of ranges to this replica", this.gains.clone());
            registry.register("shard_losses", "Hand-overs of ranges from this replica", this.losses.clone());
            registry.register(
                "shard_handover_duration_seconds",
                "Time from the assignment of ranges until this replica acts there",
                this.lag.clone(),
            );
        });
        this
    }

    /// Records where the replica acts, and whether it waits for more.
    pub(super) fn show(&mut self, duty: &Duty, now: Instant) {
        self.ranges.set(i64::try_from(duty.active().spans().len()).unwrap_or(i64::MAX));
        self.share.set(duty.active().share());
        let waits = !duty.mine().without(duty.active()).is_empty();
        self.waiting = waits.then(|| self.waiting.unwrap_or(now));
    }

    /// The replica acts in places that it was given.
    pub(super) fn gained(&mut self, now: Instant) {
        self.gains.inc();
        let waiting = self.waiting.map_or(0.0, |since| now.saturating_duration_since(since).as_secs_f64());
        self.lag.observe(waiting);
    }

    /// Another replica may act in places of this one.
    pub(super) fn lost(&self) {
        self.losses.inc();
    }
}

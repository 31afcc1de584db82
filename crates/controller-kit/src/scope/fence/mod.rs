//! Whether this process may act in a namespace.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::BoxStream};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use tokio::{
    sync::{Notify, broadcast, watch},
    time::{MissedTickBehavior, interval, timeout},
};
use tracing::{info, warn};

use super::{
    Excluded, MARKER_LEASE, MAX_AGE, Marker, Markers, Released,
    marker_reads::{ANSWER_LIMIT, MarkerLookup, MarkerReads},
    shard::{Permit, Shard, ShardWork},
};
use crate::{
    settings::OperatorConfiguration,
    store::{CacheChange, Packed, Scope, Watch, WatchSource, watch_named_briskly},
    sync::locked,
};

/// Number of releases that may wait for a reader before it has to reconcile everything.
const RELEASES: usize = 64;

/// Interval between the checks of a process for due steps.
const TICK: Duration = Duration::from_secs(1);

/// Age at which an answer is replaced while a cluster-wide process works: before it is too old to act on.
const REPLACED_AFTER: Duration = Duration::from_secs(5);

/// The same in a member, which has to see renewals of short markers in time.
const REPLACED_AFTER_IN_MEMBER: Duration = Duration::from_secs(2);

/// Observations of one process that determine where it may act. Cheap to clone; clones share them.
#[derive(Debug, Clone)]
pub struct Fence {
    shared: Arc<SharedFence>,
}

#[derive(Debug)]
struct SharedFence {
    role: Role,
    observed: Mutex<FenceObserved>,
    /// Until when the process leads; none without leader election.
    leads_until: Mutex<Option<Instant>>,
    /// Until when it is the elected one of several that act; none if all that lead do so alone.
    elected_until: Mutex<Option<Instant>>,
    /// Shard in which it acts, if other replicas act elsewhere.
    shard: Option<Shard>,
    /// Whether the markers are known; sent with each answer.
    known: watch::Sender<bool>,
    /// An answer is needed that is newer than the last one.
    needed: Notify,
    released: broadcast::Sender<Released>,
}

/// Observations of the process.
#[derive(Debug, Default)]
struct FenceObserved {
    markers: Markers,
    /// Time at which the last request that the API server has answered was sent; none until the markers are known.
    true_at: Option<Instant>,
}

impl FenceObserved {
    /// Whether they may be acted on.
    fn hold(&self, now: Instant) -> bool {
        self.is_younger(MAX_AGE, now)
    }

    fn is_younger(&self, age: Duration, now: Instant) -> bool {
        self.true_at.is_some_and(|at| now.duration_since(at) < age)
    }
}

/// Scope in which the process may act.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Role {
    /// It acts wherever it looks.
    Unfenced,
    /// It acts everywhere but in marked namespaces.
    Cluster,
    /// It acts in one namespace, while the marker there is its install's.
    Member { namespace: String, owner: String },
}

/// Reason why the fence is evaluated again.
enum Wake {
    /// The watch brought something, or has ended.
    Changed(Option<CacheChange<Packed<Lease>>>),
    /// The watch has brought all that there is.
    Ready,
    /// A read of the markers has ended.
    Found(MarkerLookup),
    /// A newer answer is needed.
    Needed,
    /// Time passes.
    Tick,
}

impl Fence {
    /// The fence of a process: cluster-wide processes keep out of marked namespaces, members of a namespace-restricted
    /// install (`namespace.scope.owner` is set) act only while their install holds the marker.
    pub fn new(scope: &Scope, settings: &OperatorConfiguration) -> Self {
        let owner = settings.namespace.scope.owner.as_str();
        let role = match scope {
            Scope::Cluster => Role::Cluster,
            Scope::Namespace(_) if owner.is_empty() => Role::Unfenced,
            Scope::Namespace(namespace) => Role::Member { namespace: namespace.clone(), owner: owner.to_owned() },
        };
        Self::of(role, None)
    }

    /// Makes this the fence of one of several replicas that act. It admits no write before places are assigned.
    #[must_use]
    pub fn sharded(self) -> Self {
        let fence = Self::of(self.shared.role.clone(), Some(Shard::default()));
        fence.leads_until(Instant::now());
        fence.elected_until(Some(Instant::now()));
        fence
    }

    /// A fence that excludes no process.
    pub fn unfenced() -> Self {
        Self::of(Role::Unfenced, None)
    }

    fn of(role: Role, shard: Option<Shard>) -> Self {
        let known = watch::Sender::new(role == Role::Unfenced);
        let (observed, released) = (Mutex::default(), broadcast::Sender::new(RELEASES));
        let (leads_until, elected_until, needed) = (Mutex::default(), Mutex::default(), Notify::new());
        let shared = SharedFence { role, observed, leads_until, elected_until, shard, known, needed, released };
        Self { shared: Arc::new(shared) }
    }

    /// The shard of the process, if other replicas act as well.
    pub(crate) fn shard(&self) -> Option<&Shard> {
        self.shared.shard.as_ref()
    }

    /// The process is the elected one until then; none: it is not.
    pub(crate) fn elected_until(&self, deadline: Option<Instant>) {
        *locked(&self.shared.elected_until) = Some(deadline.unwrap_or_else(Instant::now));
    }

    /// Whether the process does what one process does for all namespaces.
    pub fn is_elected(&self) -> bool {
        let until = *locked(&self.shared.elected_until);
        until.is_none_or(|until| Instant::now() < until)
    }

    /// Begins work in a namespace, which holds the permit until it ends: another replica waits for it, for a while,
    /// before it takes the namespace.
    ///
    /// # Errors
    /// If the process may not act there, with the reason.
    pub async fn begin_work(&self, namespace: &str) -> Result<Option<Permit>, Excluded> {
        self.begin(namespace, ShardWork::Reconcile).await
    }

    /// Begins a write into a namespace.
    pub(super) async fn begin_write(&self, namespace: &str) -> Result<Option<Permit>, Excluded> {
        self.begin(namespace, ShardWork::Write).await
    }

    async fn begin(&self, namespace: &str, work: ShardWork) -> Result<Option<Permit>, Excluded> {
        self.confirmed(namespace).await?;
        // Checked last: what has begun is counted.
        match &self.shared.shard {
            Some(shard) => shard.begin(namespace, work).map(Some).ok_or_else(|| elsewhere(namespace)),
            None => Ok(None),
        }
    }

    /// Whether the process may act in this namespace by what the API server has answered within the last
    /// [`MAX_AGE`]. Waits for an answer if there is none.
    async fn confirmed(&self, namespace: &str) -> Result<(), Excluded> {
        self.refreshed().await;
        self.confirmed_at(namespace, Instant::now())
    }

    fn confirmed_at(&self, namespace: &str, now: Instant) -> Result<(), Excluded> {
        self.leads(now)?;
        self.markers_allow(namespace, now)?;
        self.markers_hold(now)
    }

    /// Returns when there is an answer to act on, or none has come in time.
    async fn refreshed(&self) {
        if self.shared.role != Role::Cluster {
            return;
        }
        self.request_if_old();
        let mut answers = self.shared.known.subscribe();
        let answered = async {
            // An answer may have come before the subscription.
            while self.markers_hold(Instant::now()).is_err() {
                // Fails only when the sender is gone, and `self` holds it.
                let _ = answers.changed().await;
            }
        };
        // Without an answer nothing holds, and the caller learns that.
        let _ = timeout(ANSWER_LIMIT, answered).await;
    }

    /// Has the last answer replaced if it will soon be too old to act on.
    fn request_if_old(&self) {
        if !locked(&self.shared.observed).is_younger(REPLACED_AFTER, Instant::now()) {
            self.shared.needed.notify_one();
        }
    }

    fn markers_hold(&self, now: Instant) -> Result<(), Excluded> {
        let holds = self.shared.role != Role::Cluster || locked(&self.shared.observed).hold(now);
        holds.then_some(()).ok_or(Excluded::Unknown)
    }

    /// The process leads until then, and acts nowhere after it.
    pub(crate) fn leads_until(&self, deadline: Instant) {
        *locked(&self.shared.leads_until) = Some(deadline);
    }

    /// Whether the process leads, or needs not to.
    pub(super) fn leads(&self, now: Instant) -> Result<(), Excluded> {
        let until = *locked(&self.shared.leads_until);
        until.is_none_or(|until| now < until).then_some(()).ok_or(Excluded::NotLeading)
    }

    /// Whether the process may act in this namespace by what it knows now. What it does there needs more: see
    /// [`Self::begin_work`].
    ///
    /// # Errors
    /// If it may not, with the reason.
    pub fn may_act(&self, namespace: &str) -> Result<(), Excluded> {
        self.may_act_at(namespace, Instant::now())
    }

    /// Whether a namespace-restricted operator has marked the namespace, by what the process knows now. A newer answer
    /// is asked for if the last one is old, and not waited for. Nothing is marked before the markers are known.
    pub fn is_taken(&self, namespace: &str) -> bool {
        self.request_if_old();
        self.is_marked(namespace)
    }

    fn is_marked(&self, namespace: &str) -> bool {
        matches!(self.markers_allow(namespace, Instant::now()), Err(Excluded::Marked { .. }))
    }

    /// Whether this process serves the namespace by what it knows now: no other operator has marked it, and no other
    /// replica owns it.
    pub fn serves(&self, namespace: &str) -> bool {
        !self.is_marked(namespace) && self.owns(namespace)
    }

    fn owns(&self, namespace: &str) -> bool {
        self.shared.shard.as_ref().is_none_or(|shard| shard.contains(namespace))
    }

    /// Whether this is a member of an install for this namespace, and the install does not hold it: another operator
    /// may act there.
    pub fn is_open(&self, namespace: &str) -> bool {
        matches!(self.markers_allow(namespace, Instant::now()), Err(Excluded::NotHeld { .. }))
    }

    fn may_act_at(&self, namespace: &str, now: Instant) -> Result<(), Excluded> {
        self.leads(now)?;
        self.markers_allow(namespace, now)?;
        self.owns(namespace).then_some(()).ok_or_else(|| elsewhere(namespace))
    }

    fn markers_allow(&self, namespace: &str, now: Instant) -> Result<(), Excluded> {
        match &self.shared.role {
            Role::Unfenced => Ok(()),
            Role::Cluster => {
                let observed = locked(&self.shared.observed);
                match observed.markers.in_force(namespace) {
                    Some(marker) => {
                        Err(Excluded::Marked { namespace: namespace.to_owned(), holder: marker.holder.clone() })
                    }
                    None => observed.true_at.map(|_| ()).ok_or(Excluded::Unknown),
                }
            }
            Role::Member { .. } if !*self.shared.known.borrow() => Err(Excluded::Unknown),
            Role::Member { namespace: own, owner } => {
                let ours = |marker: &Marker| marker.owner.as_deref() == Some(owner.as_str());
                // The marker does not concern objects outside of the namespace, such as our own Leases.
                if namespace != own {
                    return Ok(());
                }
                let observed = locked(&self.shared.observed);
                if !observed.hold(now) {
                    return Err(Excluded::Unknown);
                }
                let held = observed.markers.valid_for_its_owner(own, now).is_some_and(ours);
                held.then_some(()).ok_or_else(|| Excluded::NotHeld { namespace: own.clone() })
            }
        }
    }

    /// Returns once the markers are known.
    pub async fn known(&self) {
        // Fails only when the sender is gone, and `self` holds it.
        let _ = self.shared.known.subscribe().wait_for(|known| *known).await;
    }

    /// Every namespace in which the process may act from now on and could not before.
    #[must_use]
    pub fn released(&self) -> BoxStream<'static, Released> {
        let receiver = self.shared.released.subscribe();
        futures::stream::unfold(receiver, async |mut receiver| match receiver.recv().await {
            Ok(released) => Some((released, receiver)),
            Err(broadcast::error::RecvError::Lagged(_)) => Some((Released::Anywhere, receiver)),
            Err(broadcast::error::RecvError::Closed) => None,
        })
        .boxed()
    }

    /// Follows the markers for as long as the process lives. A process without a fence sends no request.
    pub fn follow(&self, client: Client, scope: &Scope) {
        if self.shared.role == Role::Unfenced {
            return;
        }
        // After an outage markers seem to have expired, and are renewed at once: late observers act in vain, or
        // beside another.
        let (store, leases) = watch_named_briskly::<Lease>(&WatchSource::all(client.clone(), scope), MARKER_LEASE);
        let ready = async move { store.wait_until_ready().await }.boxed();
        let (fence, api) = (self.clone(), scope.api(client));
        tokio::spawn(async move { fence.keep(leases, ready, api).await });
    }

    /// Keeps the markers up to date: from the watch, which brings changes at once, and by reading the markers from
    /// the API server. Only its answer shows that there is nothing new: a watch that hangs is as silent as one without
    /// changes. A cluster-wide process needs an answer when it acts, and when a marker seems to have expired; a member
    /// needs them all the time, because the time of a renewal is not known better than that of the answer before it.
    async fn keep(&self, mut leases: Watch<Packed<Lease>>, ready: BoxFuture<'static, ()>, api: Api<Lease>) {
        let mut marked = BTreeSet::new();
        let mut ready = ready.fuse();
        let in_cluster = self.shared.role == Role::Cluster;
        let mut reads = MarkerReads::new(if in_cluster { REPLACED_AFTER } else { REPLACED_AFTER_IN_MEMBER });
        let (mut listed, mut acted, mut needed) = (false, false, true);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let wake = tokio::select! {
                // What the watch has brought is taken in before anything is concluded from it.
                biased;
                change = leases.next() => Wake::Changed(change),
                () = &mut ready => Wake::Ready,
                found = reads.done() => Wake::Found(found),
                () = self.shared.needed.notified() => Wake::Needed,
                _ = tick.tick() => Wake::Tick,
            };
            // What a member held may have expired since the last turn.
            let held = acted && self.own_namespace_held();
            match wake {
                Wake::Changed(Some(change)) => self.take_in(&change),
                Wake::Changed(None) => return,
                Wake::Ready => listed = true,
                Wake::Found(found) => needed &= !self.conclude(found, Instant::now()),
                Wake::Needed => needed = !locked(&self.shared.observed).is_younger(REPLACED_AFTER, Instant::now()),
                Wake::Tick => {}
            }
            let now = Instant::now();
            if listed && (needed || self.needs_answers(now)) {
                reads.begin_if_due(&api, now);
            }
            acted = self.own_namespace_held();
            let now: BTreeSet<String> = locked(&self.shared.observed).markers.marked().map(str::to_owned).collect();
            self.log(&marked, &now);
            match &self.shared.role {
                Role::Unfenced => {}
                Role::Cluster => self.announce(marked.difference(&now).cloned().map(Released::Namespace)),
                Role::Member { namespace, .. } if !held && acted => {
                    info!(namespace, "acquired namespace");
                    self.announce([Released::Namespace(namespace.clone())]);
                }
                Role::Member { .. } => {}
            }
            marked = now;
        }
    }

    /// Whether answers are needed though nothing waits for one.
    fn needs_answers(&self, now: Instant) -> bool {
        match &self.shared.role {
            Role::Unfenced => false,
            Role::Cluster => locked(&self.shared.observed).markers.has_unconfirmed_expiry(now),
            Role::Member { .. } => true,
        }
    }

    /// Records what a read has found. Returns whether it was answered.
    fn conclude(&self, found: MarkerLookup, now: Instant) -> bool {
        let Ok(answer) = found.inspect_err(|error| {
            warn!(%error, "the Leases {MARKER_LEASE} cannot be read; marked namespaces stay marked");
        }) else {
            return false;
        };
        let mut observed = locked(&self.shared.observed);
        let known = observed.true_at.is_some();
        observed.markers.observe_all(answer.markers, answer.started, now);
        observed.true_at = Some(answer.started);
        if !known {
            observed.markers.settle();
        }
        drop(observed);
        self.shared.known.send_replace(true);
        true
    }

    fn take_in(&self, change: &CacheChange<Packed<Lease>>) {
        let Some(object) = change.after.as_ref().or(change.before.as_ref()) else { return };
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        let lease = change.after.as_ref().and_then(|lease| lease.unpack().ok());
        locked(&self.shared.observed).markers.observe(&namespace, lease.as_ref().and_then(Marker::of), Instant::now());
    }

    /// Whether this is a member of an install that holds its marker.
    fn own_namespace_held(&self) -> bool {
        matches!(&self.shared.role, Role::Member { namespace, .. } if self.may_act(namespace).is_ok())
    }

    pub(crate) fn announce(&self, released: impl IntoIterator<Item = Released>) {
        for released in released {
            // Fails only without a receiver.
            let _ = self.shared.released.send(released);
        }
    }

    fn log(&self, before: &BTreeSet<String>, after: &BTreeSet<String>) {
        for namespace in after.difference(before) {
            let holder = locked(&self.shared.observed).markers.in_force(namespace).map(|marker| marker.holder.clone());
            info!(namespace, holder, "namespace is marked by a namespace-restricted operator");
        }
        for namespace in before.difference(after) {
            info!(namespace, "marker of the namespace is gone or has expired");
        }
    }
}

fn elsewhere(namespace: &str) -> Excluded {
    Excluded::Elsewhere { namespace: namespace.to_owned() }
}

#[cfg(test)]
mod tests;

//! Whether this process may act in a namespace.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::BoxStream};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use tokio::{
    sync::{broadcast, watch},
    time::{MissedTickBehavior, interval},
};
use tracing::{info, warn};

use super::{
    MARKER_LEASE, MAX_AGE, Marker, Markers,
    look::{Found, Look},
};
use crate::{
    settings::OperatorConfiguration,
    store::{Change, Packed, Scope, Watch, watch_named_briskly},
};

/// How many releases may wait for a reader before it has to reconcile everything.
const RELEASES: usize = 64;

/// How often a process checks what has become due.
const TICK: Duration = Duration::from_secs(1);

/// Another operator acts in the namespace, or none yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Excluded {
    /// A namespace-restricted operator has marked it.
    #[error("namespace {namespace} belongs to {holder}, which holds the Lease {MARKER_LEASE} there")]
    Marked {
        /// The namespace.
        namespace: String,
        /// As the marker says.
        holder: String,
    },
    /// We are the restricted operator, and our marker is not there, not ours, or too old.
    #[error(
        "this install does not hold the Lease {MARKER_LEASE} in namespace {namespace}; lease-scope takes it when all of the install is up"
    )]
    NotHeld {
        /// The namespace.
        namespace: String,
    },
    /// The markers are not known yet, or not any more: the API server has not answered for a while, or the process did
    /// not run.
    #[error("the Leases {MARKER_LEASE} are not known at present")]
    Unknown,
    /// The process has not renewed its leader election Lease in time: another replica may act.
    #[error("the leader election Lease was not renewed in time; another replica may act")]
    NotLeading,
}

/// Where this process may act again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// In this namespace.
    Namespace(String),
    /// Too many releases to list: reconcile everything.
    Anywhere,
}

/// What one process knows about where it may act. Cheap to clone; clones share it.
#[derive(Debug, Clone)]
pub struct Fence {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    role: Role,
    observed: Mutex<Observed>,
    /// Until when the process leads; none without leader election.
    leads_until: Mutex<Option<Instant>>,
    known: watch::Sender<bool>,
    released: broadcast::Sender<Released>,
}

/// What the process has seen.
#[derive(Debug, Default)]
struct Observed {
    markers: Markers,
    /// When the last request that the API server has answered was sent; never, until the markers are known.
    true_at: Option<Instant>,
}

impl Observed {
    fn hold(&self, now: Instant) -> bool {
        self.true_at.is_some_and(|at| now.duration_since(at) < MAX_AGE)
    }
}

/// What the process may act on.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Role {
    /// It acts wherever it looks.
    Unfenced,
    /// It acts everywhere but in marked namespaces.
    Cluster,
    /// It acts in one namespace, while the marker there is its install's.
    Member { namespace: String, owner: String },
}

/// Why the fence is evaluated again.
enum Wake {
    /// The watch brought something, or has ended.
    Changed(Option<Change<Packed<Lease>>>),
    /// The watch has brought all that there is.
    Ready,
    /// A look has ended.
    Found(Found),
    /// Time passes.
    Tick,
}

impl Fence {
    /// The fence of a process: cluster-wide processes keep out of marked namespaces, members of a namespace-restricted
    /// install (`namespace.scope.owner` is set) act only while their install holds the marker.
    #[must_use]
    pub fn new(scope: &Scope, settings: &OperatorConfiguration) -> Self {
        let owner = settings.namespace.scope.owner.as_str();
        Self::on(match scope {
            Scope::Cluster => Role::Cluster,
            Scope::Namespace(_) if owner.is_empty() => Role::Unfenced,
            Scope::Namespace(namespace) => Role::Member { namespace: namespace.clone(), owner: owner.to_owned() },
        })
    }

    /// A fence that excludes no process.
    #[must_use]
    pub fn unfenced() -> Self {
        Self::on(Role::Unfenced)
    }

    fn on(role: Role) -> Self {
        let known = watch::Sender::new(role == Role::Unfenced);
        let (observed, released) = (Mutex::default(), broadcast::Sender::new(RELEASES));
        Self { shared: Arc::new(Shared { role, observed, leads_until: Mutex::default(), known, released }) }
    }

    /// The process leads until then, and acts nowhere after it.
    pub(crate) fn leads_until(&self, deadline: Instant) {
        *self.shared.leads_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(deadline);
    }

    /// Whether the process leads, or needs not to.
    pub(super) fn leads(&self, now: Instant) -> Result<(), Excluded> {
        let until = *self.shared.leads_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_none_or(|until| now < until).then_some(()).ok_or(Excluded::NotLeading)
    }

    /// Whether the process may act in this namespace now.
    ///
    /// # Errors
    /// If it may not, with the reason.
    pub fn may_act(&self, namespace: &str) -> Result<(), Excluded> {
        self.may_act_at(namespace, Instant::now())
    }

    /// Whether a namespace-restricted operator has marked the namespace. Nothing is marked before the markers are
    /// known.
    #[must_use]
    pub fn is_taken(&self, namespace: &str) -> bool {
        matches!(self.may_act(namespace), Err(Excluded::Marked { .. }))
    }

    /// Whether this is a member of an install for this namespace, and the install does not hold it: another operator
    /// may act there.
    #[must_use]
    pub fn is_open(&self, namespace: &str) -> bool {
        matches!(self.may_act(namespace), Err(Excluded::NotHeld { .. }))
    }

    fn may_act_at(&self, namespace: &str, now: Instant) -> Result<(), Excluded> {
        self.leads(now)?;
        match &self.shared.role {
            Role::Unfenced => Ok(()),
            Role::Cluster => {
                let observed = self.observed();
                match observed.markers.standing(namespace) {
                    Some(marker) => {
                        Err(Excluded::Marked { namespace: namespace.to_owned(), holder: marker.holder.clone() })
                    }
                    None => observed.hold(now).then_some(()).ok_or(Excluded::Unknown),
                }
            }
            Role::Member { .. } if !*self.shared.known.borrow() => Err(Excluded::Unknown),
            Role::Member { namespace: own, owner } => {
                let ours = |marker: &Marker| marker.owner.as_deref() == Some(owner.as_str());
                // The marker does not concern objects outside of the namespace, such as our own Leases.
                if namespace != own {
                    return Ok(());
                }
                let observed = self.observed();
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

    /// Follows the markers for as long as the process lives. A process without a fence asks the API server nothing.
    pub fn follow(&self, client: Client, scope: &Scope) {
        if self.shared.role == Role::Unfenced {
            return;
        }
        // After an outage markers seem to have expired, and are renewed at once: who hears of it late acts in vain, or
        // beside another.
        let (store, leases) = watch_named_briskly::<Lease>(client.clone(), scope, MARKER_LEASE);
        let ready = async move { store.wait_until_ready().await }.boxed();
        let (fence, api) = (self.clone(), scope.api(client));
        tokio::spawn(async move { fence.keep(leases, ready, api).await });
    }

    /// Keeps what the process knows true: from the watch, which brings changes at once, and by reading the markers from
    /// the API server every two seconds. Only an answer of the API server shows that there is nothing new: a watch that
    /// hangs is as silent as one without changes.
    async fn keep(&self, mut leases: Watch<Packed<Lease>>, ready: BoxFuture<'static, ()>, api: Api<Lease>) {
        let mut marked = BTreeSet::new();
        let mut ready = ready.fuse();
        let (mut look, mut listed, mut acted) = (Look::default(), false, false);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let wake = tokio::select! {
                // What the watch has brought is taken in before anything is concluded from it.
                biased;
                change = leases.next() => Wake::Changed(change),
                () = &mut ready => Wake::Ready,
                found = look.done() => Wake::Found(found),
                _ = tick.tick() => Wake::Tick,
            };
            // What a member held may have expired since the last turn.
            let held = acted && self.own_namespace_held();
            let mut anywhere = false;
            match wake {
                Wake::Changed(Some(change)) => self.take_in(&change),
                Wake::Changed(None) => return,
                Wake::Ready => listed = true,
                Wake::Found(found) => anywhere = self.conclude(found, Instant::now()),
                Wake::Tick => {}
            }
            if listed {
                look.begin_if_due(&api, Instant::now());
            }
            acted = self.own_namespace_held();
            let now: BTreeSet<String> = self.observed().markers.marked().map(str::to_owned).collect();
            self.log(&marked, &now);
            match &self.shared.role {
                Role::Unfenced => {}
                Role::Cluster if anywhere => self.announce([Released::Anywhere]),
                Role::Cluster => self.announce(marked.difference(&now).cloned().map(Released::Namespace)),
                Role::Member { namespace, .. } if !held && acted => {
                    info!(namespace, "the namespace is ours");
                    self.announce([Released::Namespace(namespace.clone())]);
                }
                Role::Member { .. } => {}
            }
            marked = now;
        }
    }

    /// Records what a read has found. Returns whether the process knows again where it may act, after a time in which
    /// it did not.
    fn conclude(&self, found: Found, now: Instant) -> bool {
        let answer = match found {
            Ok(answer) => answer,
            Err(error) => {
                warn!(%error, "the Leases {MARKER_LEASE} cannot be read; marked namespaces stay marked");
                return false;
            }
        };
        let mut observed = self.observed();
        let (known, lapsed) = (observed.true_at.is_some(), !observed.hold(now));
        observed.markers.observe_all(answer.markers, answer.started, now);
        observed.true_at = Some(answer.started);
        if !known {
            observed.markers.settle();
        }
        drop(observed);
        self.shared.known.send_replace(true);
        known && lapsed
    }

    fn take_in(&self, change: &Change<Packed<Lease>>) {
        let Some(object) = change.after.as_ref().or(change.before.as_ref()) else { return };
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        let lease = change.after.as_ref().and_then(|lease| lease.unpack().ok());
        self.observed().markers.observe(&namespace, lease.as_ref().and_then(Marker::of), Instant::now());
    }

    /// Whether this is a member of an install that holds its marker.
    fn own_namespace_held(&self) -> bool {
        matches!(&self.shared.role, Role::Member { namespace, .. } if self.may_act(namespace).is_ok())
    }

    fn announce(&self, released: impl IntoIterator<Item = Released>) {
        for released in released {
            // Fails only without a receiver.
            let _ = self.shared.released.send(released);
        }
    }

    fn log(&self, before: &BTreeSet<String>, after: &BTreeSet<String>) {
        for namespace in after.difference(before) {
            let holder = self.observed().markers.standing(namespace).map(|marker| marker.holder.clone());
            info!(namespace, holder, "namespace is marked by a namespace-restricted operator");
        }
        for namespace in before.difference(after) {
            info!(namespace, "marker of the namespace is gone or has expired");
        }
    }

    fn observed(&self) -> MutexGuard<'_, Observed> {
        self.shared.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::json;

    use super::*;
    use crate::scope::look::{Answer, Unanswered};

    fn marker(second: u32) -> Marker {
        let lease = json!({
            "metadata": {"name": MARKER_LEASE},
            "spec": {
                "holderIdentity": "namespace-restricted-operator-1.5.0",
                "leaseDurationSeconds": 30,
                "renewTime": format!("2001-01-01T00:00:{second:02}.000000Z"),
            },
        });
        Marker::of(&serde_json::from_value(lease).unwrap()).unwrap()
    }

    impl Fence {
        /// That of a cluster-wide process which knows of no marker.
        pub(crate) fn open() -> Self {
            let fence = Self::on(Role::Cluster);
            fence.observed().true_at = Some(Instant::now());
            fence
        }

        /// Another operator marks the namespace.
        pub(crate) fn mark(&self, namespace: &str) {
            self.observed().markers.observe(namespace, Some(marker(0)), Instant::now());
        }
    }

    fn found(second: u32, started: Instant) -> Found {
        Ok(Answer { started, markers: HashMap::from([("team".to_owned(), marker(second))]) })
    }

    /// A cluster-wide process that knows of one marker, and reads it every two seconds until `seconds` have passed.
    fn reading(seconds: u64) -> (Fence, Instant) {
        let fence = Fence::on(Role::Cluster);
        let start = Instant::now();
        for second in (0..=seconds).step_by(2) {
            let now = start + Duration::from_secs(second);
            fence.conclude(found(0, now), now);
        }
        (fence, start + Duration::from_secs(seconds))
    }

    fn is_marked(fence: &Fence, now: Instant) -> bool {
        matches!(fence.may_act_at("team", now), Err(Excluded::Marked { .. }))
    }

    #[test]
    fn a_marker_that_seems_expired_keeps_us_out_until_the_api_server_says_so_too() {
        let (fence, now) = reading(28);
        let late = now + Duration::from_secs(3);
        assert!(is_marked(&fence, late), "the watch may be dead");
        assert!(!fence.conclude(Err(Unanswered::Late), late));
        assert!(is_marked(&fence, late), "no answer is no leave");
        fence.conclude(found(20, late), late);
        assert!(is_marked(&fence, late), "it was renewed, and the watch did not bring it");
        let (fence, now) = reading(30);
        assert_eq!(fence.may_act_at("team", now), Ok(()), "it was not renewed");
    }

    #[test]
    fn a_process_that_was_stopped_acts_nowhere_before_it_has_asked() {
        let (fence, now) = reading(2);
        assert_eq!(fence.may_act_at("other", now), Ok(()));
        let wake = now + Duration::from_secs(60);
        assert_eq!(
            fence.may_act_at("other", wake),
            Err(Excluded::Unknown),
            "another operator may have marked it meanwhile"
        );
        assert!(fence.conclude(found(50, wake), wake), "everything is reconciled again");
        assert_eq!(fence.may_act_at("other", wake), Ok(()));
        assert!(is_marked(&fence, wake));
    }

    /// Found defect: the heartbeat of the process alone refreshed what it had observed, so that a watch that hung hid a
    /// new marker for two minutes.
    #[test]
    fn only_answers_of_the_api_server_refresh_what_is_believed() {
        let (fence, now) = reading(2);
        for second in 0..30 {
            let now = now + Duration::from_secs(second);
            fence.conclude(Err(Unanswered::Late), now);
            let may = fence.may_act_at("other", now);
            assert_eq!(may, if second < 10 { Ok(()) } else { Err(Excluded::Unknown) }, "after {second} s");
        }
        let now = now + Duration::from_secs(30);
        fence.conclude(found(0, now - Duration::from_secs(11)), now);
        assert_eq!(
            fence.may_act_at("other", now),
            Err(Excluded::Unknown),
            "an answer counts from when it was asked for"
        );
    }

    #[test]
    fn a_member_acts_on_answers_too() {
        let role = Role::Member { namespace: "team".to_owned(), owner: "us".to_owned() };
        let (fence, start) = (Fence::on(role), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        let owned = |second| {
            let mut marker = marker(second);
            marker.owner = Some("us".to_owned());
            marker
        };
        let answer =
            |second, started| Ok(Answer { started, markers: HashMap::from([("team".to_owned(), owned(second))]) });
        assert_eq!(fence.may_act_at("team", start), Err(Excluded::Unknown));
        fence.conclude(answer(0, start), start);
        fence.conclude(answer(10, after(10)), after(10));
        assert_eq!(fence.may_act_at("team", after(19)), Ok(()));
        assert_eq!(fence.may_act_at("team", after(20)), Err(Excluded::Unknown), "the marker may be given back");
        fence.conclude(answer(10, after(20)), after(20));
        assert_eq!(fence.may_act_at("team", after(24)), Ok(()));
        let held = fence.may_act_at("team", after(25));
        assert!(matches!(held, Err(Excluded::NotHeld { .. })), "renewed after 0 s for all that is known: {held:?}");
    }

    /// Found defect: after a pause of the process, a reconcile sent one more write before the loss of the lease was
    /// noticed.
    #[test]
    fn a_process_that_leads_no_more_acts_nowhere() {
        let (fence, now) = (Fence::unfenced(), Instant::now());
        assert_eq!(fence.may_act_at("team", now), Ok(()));
        fence.leads_until(now + Duration::from_secs(10));
        assert_eq!(fence.may_act_at("team", now), Ok(()));
        assert_eq!(fence.may_act_at("team", now + Duration::from_secs(10)), Err(Excluded::NotLeading));
    }
}

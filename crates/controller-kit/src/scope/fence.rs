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
    MARKER_LEASE, Marker, Markers,
    look::{Found, Look},
};
use crate::{
    settings::OperatorConfiguration,
    store::{Change, Packed, Scope, Watch, watch_named_briskly},
};

/// How many releases may wait for a reader before it is told to look at everything.
const RELEASES: usize = 64;

/// How often a process looks whether time has passed it by.
const PULSE: Duration = Duration::from_secs(1);

/// After how long a silence a process trusts nothing that it knows: it was stopped, or starved, and others may have acted since.
const LAPSE: Duration = Duration::from_secs(5);

/// Another operator, or nobody yet, acts in the namespace.
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
    /// The markers are not known yet, or not any more: the process did not run for a while.
    #[error("the Leases {MARKER_LEASE} are not known at present")]
    Unknown,
}

/// Where this process may act anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// In this namespace.
    Namespace(String),
    /// Too much happened to tell; look everywhere.
    Anywhere,
}

/// What one process knows about where it may act. Cheap to clone; clones share it.
#[derive(Debug, Clone)]
pub struct Fence {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    side: Side,
    beliefs: Mutex<Beliefs>,
    known: watch::Sender<bool>,
    released: broadcast::Sender<Released>,
}

/// What the process has seen.
#[derive(Debug, Default)]
struct Beliefs {
    markers: Markers,
    /// When it was last known to be true; never, until the markers are known.
    true_at: Option<Instant>,
}

impl Beliefs {
    fn hold(&self, now: Instant) -> bool {
        self.true_at.is_some_and(|at| now.duration_since(at) < LAPSE)
    }
}

/// On which side of the fence the process stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Side {
    /// It acts wherever it looks.
    Unfenced,
    /// It acts everywhere but in marked namespaces.
    Cluster,
    /// It acts in one namespace, while the marker there is its install's.
    Member { namespace: String, owner: String },
}

/// Why the process looks at what it knows.
enum Woken {
    /// The watch brought something, or has ended.
    Changed(Option<Change<Packed<Lease>>>),
    /// The watch has brought all that there is.
    Ready,
    /// A look has ended.
    Found(Found),
    /// Time passes.
    Beat,
}

impl Fence {
    /// The fence of a process: cluster-wide processes keep out of marked namespaces, members of a namespace-restricted install
    /// (`namespace.scope.owner` is set) act only while their install holds the marker.
    #[must_use]
    pub fn new(scope: &Scope, settings: &OperatorConfiguration) -> Self {
        let owner = settings.namespace.scope.owner.as_str();
        Self::on(match scope {
            Scope::Cluster => Side::Cluster,
            Scope::Namespace(_) if owner.is_empty() => Side::Unfenced,
            Scope::Namespace(namespace) => Side::Member { namespace: namespace.clone(), owner: owner.to_owned() },
        })
    }

    /// A fence that keeps nobody out.
    #[must_use]
    pub fn unfenced() -> Self {
        Self::on(Side::Unfenced)
    }

    fn on(side: Side) -> Self {
        let known = watch::Sender::new(side == Side::Unfenced);
        let (beliefs, released) = (Mutex::default(), broadcast::Sender::new(RELEASES));
        Self { shared: Arc::new(Shared { side, beliefs, known, released }) }
    }

    /// Whether the process may act in this namespace now.
    ///
    /// # Errors
    /// If it may not, with the reason.
    pub fn may_act(&self, namespace: &str) -> Result<(), Excluded> {
        self.may_act_at(namespace, Instant::now())
    }

    /// Whether a namespace-restricted operator has marked the namespace. Nothing is marked before the markers are known.
    #[must_use]
    pub fn is_taken(&self, namespace: &str) -> bool {
        matches!(self.may_act(namespace), Err(Excluded::Marked { .. }))
    }

    /// Whether this is a member of an install for this namespace, and the install does not hold it: another operator may act there.
    #[must_use]
    pub fn is_open(&self, namespace: &str) -> bool {
        matches!(self.may_act(namespace), Err(Excluded::NotHeld { .. }))
    }

    fn may_act_at(&self, namespace: &str, now: Instant) -> Result<(), Excluded> {
        match &self.shared.side {
            Side::Unfenced => Ok(()),
            Side::Cluster => {
                let beliefs = self.beliefs();
                match beliefs.markers.standing(namespace) {
                    Some(marker) => {
                        Err(Excluded::Marked { namespace: namespace.to_owned(), holder: marker.holder.clone() })
                    }
                    None => beliefs.hold(now).then_some(()).ok_or(Excluded::Unknown),
                }
            }
            Side::Member { .. } if !*self.shared.known.borrow() => Err(Excluded::Unknown),
            Side::Member { namespace: own, owner } => {
                let ours = |marker: &Marker| marker.owner.as_deref() == Some(owner.as_str());
                // What we look at outside of our namespace is none of the marker's business: our own Leases, say.
                let held = namespace != own || self.beliefs().markers.valid_for_its_owner(own, now).is_some_and(ours);
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
        if self.shared.side == Side::Unfenced {
            return;
        }
        // After an outage markers seem to have expired, and are renewed at once: who hears of it late acts in vain, or beside another.
        let (store, leases) = watch_named_briskly::<Lease>(client.clone(), scope, MARKER_LEASE);
        let ready = async move { store.wait_until_ready().await }.boxed();
        let (fence, api) = (self.clone(), scope.api(client));
        tokio::spawn(async move { fence.keep(leases, ready, api).await });
    }

    /// Keeps what the process knows true: from the watch, and by a look at the API server when a marker seems to have expired, or
    /// when the process itself did not run for a while.
    async fn keep(&self, mut leases: Watch<Packed<Lease>>, ready: BoxFuture<'static, ()>, api: Api<Lease>) {
        let mut marked = BTreeSet::new();
        let mut ready = ready.fuse();
        let mut look = Look::default();
        let mut pulse = interval(PULSE);
        pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let woken = tokio::select! {
                // What the watch has brought is taken in before anything is concluded from it.
                biased;
                change = leases.next() => Woken::Changed(change),
                () = &mut ready => Woken::Ready,
                found = look.done() => Woken::Found(found),
                _ = pulse.tick() => Woken::Beat,
            };
            // Time alone can end what a member holds, and only a change can begin it.
            let held = self.own_namespace_held();
            let mut anywhere = false;
            match woken {
                Woken::Changed(Some(change)) => self.take_in(&change),
                Woken::Changed(None) => return,
                Woken::Ready => {
                    let mut beliefs = self.beliefs();
                    beliefs.true_at = Some(Instant::now());
                    beliefs.markers.settle();
                    drop(beliefs);
                    self.shared.known.send_replace(true);
                }
                Woken::Found(found) => anywhere = self.conclude(found, Instant::now()),
                Woken::Beat => {}
            }
            if self.beat(Instant::now()) && look.is_idle() {
                look.begin(api.clone());
            }
            let now: BTreeSet<String> = self.beliefs().markers.marked().map(str::to_owned).collect();
            self.log(&marked, &now);
            match &self.shared.side {
                Side::Unfenced => {}
                Side::Cluster if anywhere => self.announce([Released::Anywhere]),
                Side::Cluster => self.announce(marked.difference(&now).cloned().map(Released::Namespace)),
                Side::Member { namespace, .. } if !held && self.own_namespace_held() => {
                    info!(namespace, "the namespace is ours");
                    self.announce([Released::Namespace(namespace.clone())]);
                }
                Side::Member { .. } => {}
            }
            marked = now;
        }
    }

    /// Notes that the process runs. Tells whether the API server must be asked for the markers: one seems to have expired, or
    /// too much time has passed since the last call.
    fn beat(&self, now: Instant) -> bool {
        let mut beliefs = self.beliefs();
        if beliefs.true_at.is_none() || self.shared.side != Side::Cluster {
            return false;
        }
        if !beliefs.hold(now) {
            return true;
        }
        beliefs.true_at = Some(now);
        beliefs.markers.next_expiry().is_some_and(|end| end <= now)
    }

    /// Takes in what a look has found. Tells whether the process knows again where it may act, after a time in which it did not.
    fn conclude(&self, found: Found, now: Instant) -> bool {
        let markers = match found {
            Ok(markers) => markers,
            Err(error) => {
                warn!(%error, "the Leases {MARKER_LEASE} cannot be read; marked namespaces stay marked");
                return false;
            }
        };
        let mut beliefs = self.beliefs();
        let lapsed = !beliefs.hold(now);
        beliefs.markers.observe_all(markers, now);
        beliefs.true_at = Some(now);
        lapsed
    }

    fn take_in(&self, change: &Change<Packed<Lease>>) {
        let Some(object) = change.after.as_ref().or(change.before.as_ref()) else { return };
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        let lease = change.after.as_ref().and_then(|lease| lease.unpack().ok());
        self.beliefs().markers.observe(&namespace, lease.as_ref().and_then(Marker::of), Instant::now());
    }

    /// Whether this is a member of an install that holds its marker.
    fn own_namespace_held(&self) -> bool {
        matches!(&self.shared.side, Side::Member { namespace, .. } if self.may_act(namespace).is_ok())
    }

    fn announce(&self, released: impl IntoIterator<Item = Released>) {
        for released in released {
            // Fails only while nobody listens.
            let _ = self.shared.released.send(released);
        }
    }

    fn log(&self, before: &BTreeSet<String>, after: &BTreeSet<String>) {
        for namespace in after.difference(before) {
            let holder = self.beliefs().markers.standing(namespace).map(|marker| marker.holder.clone());
            info!(namespace, holder, "namespace is marked by a namespace-restricted operator");
        }
        for namespace in before.difference(after) {
            info!(namespace, "marker of the namespace is gone or has expired");
        }
    }

    fn beliefs(&self) -> MutexGuard<'_, Beliefs> {
        self.shared.beliefs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::json;

    use super::*;
    use crate::scope::look::Unanswered;

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
            let fence = Self::on(Side::Cluster);
            fence.beliefs().true_at = Some(Instant::now());
            fence
        }

        /// Somebody marks the namespace.
        pub(crate) fn mark(&self, namespace: &str) {
            self.beliefs().markers.observe(namespace, Some(marker(0)), Instant::now());
        }
    }

    fn found(second: u32) -> Found {
        Ok(HashMap::from([("team".to_owned(), marker(second))]))
    }

    /// A cluster-wide process that knows of one marker, and beats once a second until `seconds` have passed.
    fn beating(seconds: u64) -> (Fence, Instant) {
        let fence = Fence::on(Side::Cluster);
        let start = Instant::now();
        fence.beliefs().true_at = Some(start);
        fence.beliefs().markers.observe("team", Some(marker(0)), start);
        for second in 0..=seconds {
            fence.beat(start + Duration::from_secs(second));
        }
        (fence, start + Duration::from_secs(seconds))
    }

    fn is_marked(fence: &Fence, now: Instant) -> bool {
        matches!(fence.may_act_at("team", now), Err(Excluded::Marked { .. }))
    }

    #[test]
    fn a_marker_that_seems_expired_keeps_us_out_until_the_api_server_says_so_too() {
        let (fence, now) = beating(29);
        assert!(!fence.beat(now), "nothing to ask");
        let (fence, now) = beating(30);
        assert!(fence.beat(now), "the watch may be dead: ask");
        assert!(is_marked(&fence, now));
        assert!(!fence.conclude(Err(Unanswered::Late), now));
        assert!(is_marked(&fence, now), "no answer is no leave");
        assert!(!fence.conclude(found(20), now));
        assert!(is_marked(&fence, now), "it was renewed, and the watch did not tell");
        let (fence, now) = beating(30);
        fence.conclude(found(0), now);
        assert_eq!(fence.may_act_at("team", now), Ok(()), "nobody renewed it");
    }

    #[test]
    fn a_process_that_was_stopped_acts_nowhere_before_it_has_asked() {
        let (fence, now) = beating(1);
        assert_eq!(fence.may_act_at("other", now), Ok(()));
        let woken = now + Duration::from_secs(60);
        assert_eq!(fence.may_act_at("other", woken), Err(Excluded::Unknown), "somebody may have marked it meanwhile");
        assert!(fence.beat(woken));
        assert_eq!(fence.may_act_at("other", woken), Err(Excluded::Unknown), "to run again is not to know");
        assert!(fence.conclude(found(50), woken), "told to look everywhere again");
        assert_eq!(fence.may_act_at("other", woken), Ok(()));
        assert!(is_marked(&fence, woken));
    }
}

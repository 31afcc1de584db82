//! Whether this process may act in a namespace.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use tokio::{
    sync::{broadcast, watch},
    time::sleep_until,
};
use tracing::info;

use super::{MARKER_LEASE, Marker, Markers};
use crate::{
    settings::OperatorConfiguration,
    store::{Change, Packed, Scope, Watch, watch_named_briskly},
};

/// How many releases may wait for a reader before it is told to look at everything.
const RELEASES: usize = 64;

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
    /// The markers are not known yet.
    #[error("the Leases {MARKER_LEASE} are not known yet")]
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
    markers: Mutex<Markers>,
    known: watch::Sender<bool>,
    released: broadcast::Sender<String>,
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
        let (markers, released) = (Mutex::default(), broadcast::Sender::new(RELEASES));
        Self { shared: Arc::new(Shared { side, markers, known, released }) }
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

    fn may_act_at(&self, namespace: &str, now: Instant) -> Result<(), Excluded> {
        if self.shared.side == Side::Unfenced {
            return Ok(());
        }
        if !*self.shared.known.borrow() {
            return Err(Excluded::Unknown);
        }
        let markers = self.markers();
        match &self.shared.side {
            Side::Unfenced => Ok(()),
            Side::Cluster => match markers.valid(namespace, now) {
                None => Ok(()),
                Some(marker) => {
                    Err(Excluded::Marked { namespace: namespace.to_owned(), holder: marker.holder.clone() })
                }
            },
            Side::Member { namespace: own, owner } => {
                let ours = |marker: &Marker| marker.owner.as_deref() == Some(owner.as_str());
                // What we look at outside of our namespace is none of the marker's business: our own Leases, say.
                let held = namespace != own || markers.valid_for_its_owner(own, now).is_some_and(ours);
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
            Ok(namespace) => Some((Released::Namespace(namespace), receiver)),
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
        let (store, leases) = watch_named_briskly::<Lease>(client, scope, MARKER_LEASE);
        let (fence, ready) = (self.clone(), self.clone());
        tokio::spawn(async move { fence.keep(leases).await });
        tokio::spawn(async move {
            store.wait_until_ready().await;
            ready.shared.known.send_replace(true);
        });
    }

    async fn keep(&self, mut leases: Watch<Packed<Lease>>) {
        let mut marked = BTreeSet::new();
        loop {
            let expiry = self.markers().next_expiry(Instant::now());
            let change = tokio::select! {
                change = leases.next() => Some(change),
                () = at(expiry) => None,
            };
            // Time alone can end what a member holds, and only a change can begin it.
            let held = self.own_namespace_held();
            match change {
                Some(Some(change)) => self.take_in(&change),
                Some(None) => return,
                None => {}
            }
            let now: BTreeSet<String> = self.markers().marked(Instant::now()).map(str::to_owned).collect();
            self.log(&marked, &now);
            match &self.shared.side {
                Side::Unfenced => {}
                Side::Cluster => self.announce(&marked.difference(&now).cloned().collect::<Vec<_>>()),
                Side::Member { namespace, .. } if !held && self.own_namespace_held() => {
                    info!(namespace, "the namespace is ours");
                    self.announce(std::slice::from_ref(namespace));
                }
                Side::Member { .. } => {}
            }
            marked = now;
        }
    }

    fn take_in(&self, change: &Change<Packed<Lease>>) {
        let Some(object) = change.after.as_ref().or(change.before.as_ref()) else { return };
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        let lease = change.after.as_ref().and_then(|lease| lease.unpack().ok());
        self.markers().observe(&namespace, lease.as_ref().and_then(Marker::of), Instant::now());
    }

    /// Whether this is a member of an install that holds its marker.
    fn own_namespace_held(&self) -> bool {
        matches!(&self.shared.side, Side::Member { namespace, .. } if self.may_act(namespace).is_ok())
    }

    fn announce(&self, namespaces: &[String]) {
        for namespace in namespaces {
            // Fails only while nobody listens.
            let _ = self.shared.released.send(namespace.clone());
        }
    }

    fn log(&self, before: &BTreeSet<String>, after: &BTreeSet<String>) {
        for namespace in after.difference(before) {
            let holder = self.markers().valid(namespace, Instant::now()).map(|marker| marker.holder.clone());
            info!(namespace, holder, "namespace is marked by a namespace-restricted operator");
        }
        for namespace in before.difference(after) {
            info!(namespace, "marker of the namespace is gone or has expired");
        }
    }

    fn markers(&self) -> MutexGuard<'_, Markers> {
        self.shared.markers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

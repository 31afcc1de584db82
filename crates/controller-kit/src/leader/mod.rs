//! Leader election: of several replicas of one controller, one acts.
//!
//! The lock is a `coordination.k8s.io` Lease named `<program>.<id>`. The rules are those of the Kubernetes client
//! library: expiry is judged by how long *we* have seen no change, never by the writer's clock; a leader stops acting
//! before others may start; writes carry the resource version that they were decided on.

mod elector;
mod lock;

use std::{fmt, future::Future, time::Duration};

use tracing::{info, warn};

use self::{elector::Elector, lock::Lock};
use crate::{
    context::{Context, GRACE},
    settings::LeaderElection,
};

/// A leader that has not renewed for this long has lost the lease.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// A leader that could not renew for this long stops acting; shorter than [`LEASE_DURATION`].
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Time between two renewals, and between two reads of a replica that waits.
pub const RENEW_PERIOD: Duration = Duration::from_secs(5);
/// Time between two tries after one that failed.
pub const RETRY_PERIOD: Duration = Duration::from_secs(1);
/// How long a leader's work may take to end: the lease is given back in what is left of [`GRACE`].
const WORK_GRACE: Duration = GRACE.saturating_sub(Duration::from_secs(3));

/// Why the work of a leader ended.
#[derive(Debug)]
pub enum Ended<E> {
    /// The work itself failed.
    Work(E),
    /// The lease could not be renewed in time, or another replica has taken it.
    Lost {
        /// The Lease.
        lease: String,
    },
}

impl<E: fmt::Display> fmt::Display for Ended<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Work(error) => error.fmt(f),
            Self::Lost { lease } => {
                write!(f, "lost the leader election lease {lease}; another replica acts now, this one starts over")
            }
        }
    }
}

/// Waits until this process leads, runs `work` while it does, and gives the lease back at the end. Without leader
/// election, `work` runs at once. A process that waits is ready: it can take over at any time.
///
/// # Errors
/// If the work fails, or leadership is lost.
pub async fn lead<F, Fut, E>(context: Context, work: F) -> Result<(), Ended<E>>
where
    F: FnOnce(Context) -> Fut,
    Fut: Future<Output = Result<(), E>>,
{
    let settings = &context.settings.leader_election;
    if !settings.enabled {
        return work(context).await.map_err(Ended::Work);
    }
    let mut lock = Lock::new(&context, &lease_namespace(settings, &context), &settings.lease_name(context.name));
    let mut elector = Elector::new(lock.identity().to_owned());
    let gate = context.readiness.gate("leader election");

    let elected = tokio::select! {
        () = lock.acquire(&mut elector, &gate) => true,
        () = context.shutdown.requested() => false,
    };
    if !elected {
        return Ok(());
    }
    info!(lease = %lock, identity = lock.identity(), "leading");
    let outcome = tokio::select! {
        outcome = work(context.clone()) => outcome.map_err(Ended::Work),
        () = lock.keep(&mut elector) => Err(Ended::Lost { lease: lock.to_string() }),
        () = context.shutdown.deadline(WORK_GRACE) => {
            warn!(seconds = WORK_GRACE.as_secs(), "did not stop in time; giving up what still runs");
            Ok(())
        }
    };
    if !matches!(outcome, Err(Ended::Lost { .. })) {
        match lock.release().await {
            Ok(()) => info!(lease = %lock, "gave the lease back"),
            Err(error) => warn!(lease = %lock, %error, "cannot give the lease back; it expires by itself"),
        }
    }
    outcome
}

/// The configured namespace, else that of the only namespace served, else `kube-system`, which all installs of a
/// cluster share.
fn lease_namespace(settings: &LeaderElection, context: &Context) -> String {
    let configured = Some(settings.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    configured.or(context.settings.restricted_namespace()).unwrap_or("kube-system").to_owned()
}

//! Leader election: of several replicas of one controller, one acts.
//!
//! The lock is a `coordination.k8s.io` Lease named `<program>.<id>`. The rules are those of the Kubernetes client
//! library: expiry is judged by how long *we* have seen no change, never by the writer's clock; a leader stops acting
//! before others may start; writes carry the resource version that they were decided on.

mod elector;
mod lock;
pub(crate) mod terms;

use std::future::Future;

use tracing::{info, warn};

pub use self::terms::{Ended, LEASE_DURATION, RENEW_DEADLINE, RENEW_PERIOD, RETRY_PERIOD};
use self::{
    elector::Elector,
    lock::Lock,
    terms::{WORK_GRACE, lease_namespace},
};
use crate::{context::Context, shards::until_ended};

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
    let was_shared = lock.was_shared();
    let working = async {
        if was_shared {
            until_ended(&context).await;
        }
        work(context.clone()).await
    };
    let outcome = tokio::select! {
        outcome = working => outcome.map_err(Ended::Work),
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

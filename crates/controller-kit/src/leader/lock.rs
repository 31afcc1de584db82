//! The Lease on the API server.

use std::{
    fmt,
    time::{Duration, Instant},
};

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, ResourceExt,
    api::{ObjectMeta, PostParams},
};
use tokio::time::{sleep_until, timeout};
use tracing::{debug, warn};

use super::{Elector, ElectorStep, LeaderRecord};
use crate::{
    context::{Context, Gate},
    lease::{LEASE_DURATION, RENEW_PERIOD, RETRY_PERIOD, hold, identity},
    scope::Fence,
    shards::ASSIGNMENT,
    store::{Packed, Scope, Watch, WatchSource, watch_named_briskly},
};

/// One request; well below the renew deadline, so that a request that hangs costs one try.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// Time for which a waiting replica does not read the lease while the watch shows no change: two renewals.
const SILENCE: Duration = Duration::from_secs(2 * RENEW_PERIOD.as_secs());

/// The Lease that replicas compete for.
pub(super) struct Lock {
    api: Api<Lease>,
    namespace: String,
    name: String,
    pub(super) identity: String,
    fence: Fence,
    /// The Lease as this replica wrote it last; none until it holds it, and none after a failed write.
    written: Option<Lease>,
    /// Whether the replicas shared their work before this one took the Lease: others may still act on an assignment.
    pub(super) was_shared: bool,
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Lock {
    pub(super) fn new(context: &Context, namespace: &str, name: &str) -> Self {
        Self {
            api: Api::namespaced(context.client.clone(), namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity(),
            fence: context.fence.clone(),
            written: None,
            was_shared: false,
        }
    }

    /// Returns once this replica holds the lease. The gate opens as soon as the lease can be read.
    ///
    /// A replica that waits sends nothing while a watch shows renewals. It reads the lease when there is none in time:
    /// a watch that hangs is as silent as a holder that is gone.
    pub(super) async fn acquire(&mut self, elector: &mut Elector, gate: &Gate) {
        let source = WatchSource::all(self.api.clone().into_client(), &Scope::Namespace(self.namespace.clone()));
        let (_, mut changes) = watch_named_briskly::<Lease>(&source, &self.name);
        loop {
            let pause = match self.read_and_write(elector).await {
                Ok(step) => {
                    gate.open();
                    if step != ElectorStep::Wait && elector.leads(Instant::now()) {
                        return;
                    }
                    debug!(lease = %self, holder = elector.last().map(|r| r.holder.as_str()), "waiting for the lease");
                    elector.rest(Instant::now()).map_or(SILENCE, |rest| rest.min(SILENCE))
                }
                Err(error) => {
                    warn!(lease = %self, %error, "cannot take the lease; trying again");
                    RETRY_PERIOD
                }
            };
            follow(elector, &mut changes, pause).await;
        }
    }

    /// Renews the lease; returns when it is lost. While nothing fails, that is one request per [`RENEW_PERIOD`].
    pub(super) async fn keep(&mut self, elector: &mut Elector) {
        let mut pause = RENEW_PERIOD;
        while let Some(deadline) = elector.deadline() {
            sleep_until((Instant::now() + pause).min(deadline).into()).await;
            let round = tokio::select! {
                round = self.renew(elector) => round,
                () = sleep_until(deadline.into()) => return,
            };
            match round {
                Ok(ElectorStep::Renew | ElectorStep::Create) => pause = RENEW_PERIOD,
                Ok(ElectorStep::Take | ElectorStep::Wait) => return,
                Err(error) => {
                    warn!(lease = %self, %error, "cannot renew the lease; trying again");
                    pause = RETRY_PERIOD;
                }
            }
            if !elector.leads(Instant::now()) {
                return;
            }
        }
    }

    /// Writes the lease over what this replica wrote last. Reads it first if another may have written since.
    async fn renew(&mut self, elector: &mut Elector) -> Result<ElectorStep, LockError> {
        match self.written.take() {
            Some(lease) => self.write(elector, ElectorStep::Renew, Some(lease), Instant::now()).await,
            None => self.read_and_write(elector).await,
        }
    }

    /// Reads, and writes if there is reason to.
    async fn read_and_write(&mut self, elector: &mut Elector) -> Result<ElectorStep, LockError> {
        self.written = None;
        let lease = timeout(REQUEST_TIMEOUT, self.api.get_opt(&self.name)).await??;
        let started = Instant::now();
        match elector.observe(lease.as_ref().map(record), started) {
            ElectorStep::Wait => Ok(ElectorStep::Wait),
            step => self.write(elector, step, lease, started).await,
        }
    }

    /// Writes on condition that the lease is still the one that was seen. A failure leaves it unknown.
    async fn write(
        &mut self,
        elector: &mut Elector,
        step: ElectorStep,
        seen: Option<Lease>,
        started: Instant,
    ) -> Result<ElectorStep, LockError> {
        let claim = self.claim(seen);
        let written = match step {
            ElectorStep::Create => timeout(REQUEST_TIMEOUT, self.api.create(&PostParams::default(), &claim)).await??,
            _ => timeout(REQUEST_TIMEOUT, self.api.replace(&self.name, &PostParams::default(), &claim)).await??,
        };
        elector.observe(Some(record(&written)), Instant::now());
        elector.written(started);
        if let Some(deadline) = elector.deadline() {
            self.fence.leads_until(deadline);
        }
        self.written = Some(written);
        Ok(step)
    }

    /// The lease with us as the holder, made from the one that was read, so that a write over another holder's fails.
    fn claim(&mut self, lease: Option<Lease>) -> Lease {
        let mut lease = lease.unwrap_or_else(|| Lease {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            ..Lease::default()
        });
        // It acts alone: what the assignment gives to others is void.
        self.was_shared |= lease.annotations_mut().remove(ASSIGNMENT).is_some();
        hold(&mut lease, &self.identity);
        lease
    }

    /// Gives the lease back, so that another replica need not wait until it expires.
    pub(super) async fn release(&self) -> Result<(), LockError> {
        let lease = timeout(REQUEST_TIMEOUT, self.api.get_opt(&self.name)).await??;
        let Some(mut lease) = lease.filter(|lease| record(lease).holder == self.identity) else { return Ok(()) };
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = None;
            spec.lease_duration_seconds = Some(1);
        }
        timeout(REQUEST_TIMEOUT, self.api.replace(&self.name, &PostParams::default(), &lease)).await??;
        Ok(())
    }
}

/// Observes the changes of a lease; returns when it may be free, or after so long without a change.
async fn follow(elector: &mut Elector, changes: &mut Watch<Packed<Lease>>, pause: Duration) {
    while let Ok(Some(change)) = timeout(pause, changes.next()).await {
        let lease = change.after.and_then(|lease| lease.unpack().ok());
        if elector.observe_newer(lease.as_ref().map(record), Instant::now()) != ElectorStep::Wait {
            return;
        }
    }
}

/// Reason why a read or a write of the lease failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum LockError {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("the API server did not answer in {} s", REQUEST_TIMEOUT.as_secs())]
    Timeout(#[from] tokio::time::error::Elapsed),
}

fn record(lease: &Lease) -> LeaderRecord {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok());
    LeaderRecord {
        holder: spec.holder_identity.unwrap_or_default(),
        duration: seconds.map_or(LEASE_DURATION, Duration::from_secs),
        resource_version: lease.resource_version().unwrap_or_default(),
    }
}

//! Names and times of the Leases by which replicas of a controller exclude each other.

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};

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

/// Time limit for the end of a leader's work: the lease is given back in the rest of [`GRACE`].
pub(crate) const WORK_GRACE: Duration = GRACE.saturating_sub(Duration::from_secs(3));

/// Reason for the end of a leader's work.
#[derive(Debug, thiserror::Error)]
pub enum Ended<E> {
    /// The work itself failed.
    #[error("{0}")]
    Work(E),
    /// The lease could not be renewed in time, or another replica has taken it.
    #[error("lost the leader election lease {lease}; another replica acts now, this one starts over")]
    Lost {
        /// The Lease.
        lease: String,
    },
}

/// The configured namespace, else that of the only namespace served, else `kube-system`, which all installs of a
/// cluster share.
pub(crate) fn lease_namespace(settings: &LeaderElection, context: &Context) -> String {
    let configured = Some(settings.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    configured.or(context.settings.restricted_namespace()).unwrap_or("kube-system").to_owned()
}

/// The pod's name (its host name), and a suffix that differs between two starts of one pod.
pub(crate) fn identity() -> String {
    let host = std::env::var("HOSTNAME").ok().filter(|host| !host.is_empty()).unwrap_or_else(|| "localhost".to_owned());
    format!("{host}_{}_{}", std::process::id(), Timestamp::now().as_microsecond())
}

/// Puts a holder and the present time into a Lease; an empty holder gives it back.
pub(crate) fn hold(lease: &mut Lease, holder: &str) {
    let is_new = lease.metadata.resource_version.is_none();
    let now = Some(MicroTime(Timestamp::now()));
    let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
    spec.lease_duration_seconds = i32::try_from(LEASE_DURATION.as_secs()).ok();
    spec.renew_time.clone_from(&now);
    if spec.holder_identity.as_deref().unwrap_or_default() != holder {
        let before = spec.lease_transitions.unwrap_or_default();
        spec.lease_transitions = Some(if is_new { 0 } else { before.saturating_add(1) });
        spec.acquire_time = now;
        spec.holder_identity = Some(holder.to_owned()).filter(|holder| !holder.is_empty());
    }
}

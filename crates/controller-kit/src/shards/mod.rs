//! Shards: every replica of a controller works, each on namespaces of its own.
//!
//! - `assignment`: which member owns which places; pure.
//! - `member`: what was seen of a Lease, and when its holder counts as gone; pure.
//! - `handover`: where a member may act while places move; pure.
//! - `replica`: one process: what it sends, and where it may act; pure.
//! - `lease`: the Leases on the API server.
//! - `run`: one process on the API server, with its fence and its caches.
//!
//! Safety rests on conditional writes. Only the elected member writes the assignment, and a member acts on it from the
//! moment at which all former owners have acknowledged their loss, or their Leases have been taken from them. A Lease
//! is taken from a member that has not renewed it for 17 s; a member that has not renewed for 10 s does not act.
//!
//! This file has the names and times of the Leases by which replicas of a controller exclude each other, and the
//! requests and answers about them between a process and the API server.

mod assignment;
mod handover;
mod lease;
mod member;
mod replica;
mod run;
#[cfg(test)]
mod simulation_tests;

use std::{fmt, time::Duration};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};

pub use self::run::share;
use self::{assignment::Assignment, member::Record};
pub(crate) use self::{lease::ASSIGNMENT, run::until_ended};
use crate::{
    context::{Context, GRACE},
    settings::LeaderElection,
};

/// Number of member Leases of one controller. More replicas wait until one of them is free.
pub const SLOTS: usize = 8;

/// One of the Leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// The Lease of the elected member, which has the assignment.
    Elected,
    /// The Lease of a member.
    Slot(usize),
}

impl Target {
    /// All Leases.
    pub fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::Elected).chain((0..SLOTS).map(Self::Slot))
    }
}

/// Request to the API server.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// A consistent read.
    Read(Target),
    /// Replaces the version that was seen, or creates the Lease.
    Write {
        /// The Lease.
        target: Target,
        /// The version to replace; none to create it.
        replaces: Option<u64>,
        /// The new holder; empty for none.
        holder: String,
        /// Of a member Lease.
        acknowledged: u64,
        /// Of the elected Lease.
        assignment: Option<Assignment>,
    },
}

impl Request {
    /// The Lease that it is about.
    pub fn target(&self) -> Target {
        match self {
            Self::Read(target) | Self::Write { target, .. } => *target,
        }
    }
}

/// Result of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// A read found this; none if there is no such Lease.
    Found(Option<Record>),
    /// A write was accepted and made this.
    Written(Record),
    /// A write was rejected: the Lease has changed.
    Conflict,
    /// Nothing is known.
    Unknown,
}

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

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
//! This file has the requests and answers about the Leases between a process and the API server.

mod assignment;
mod handover;
mod lease;
mod member;
mod replica;
mod run;
#[cfg(test)]
mod simulation_tests;

pub use self::run::share;
use self::{assignment::Assignment, member::Record};
pub(crate) use self::{lease::ASSIGNMENT, run::until_ended};

/// Number of member Leases of one controller. More replicas wait until one of them is free.
pub const SLOTS: usize = 8;

/// One of the Leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaseTarget {
    /// The Lease of the elected member, which has the assignment.
    Elected,
    /// The Lease of a member.
    Slot(usize),
}

impl LeaseTarget {
    /// All Leases.
    pub fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::Elected).chain((0..SLOTS).map(Self::Slot))
    }
}

/// Request to the API server.
#[derive(Debug, Clone, PartialEq)]
pub enum LeaseRequest {
    /// A consistent read.
    Read(LeaseTarget),
    /// Replaces the version that was seen, or creates the Lease.
    Write {
        /// The Lease.
        target: LeaseTarget,
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

impl LeaseRequest {
    /// The Lease that it is about.
    pub fn target(&self) -> LeaseTarget {
        match self {
            Self::Read(target) | Self::Write { target, .. } => *target,
        }
    }
}

/// Result of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum LeaseAnswer {
    /// A read found this; none if there is no such Lease.
    Found(Option<Record>),
    /// A write was accepted and made this.
    Written(Record),
    /// A write was rejected: the Lease has changed.
    Conflict,
    /// Nothing is known.
    Unknown,
}

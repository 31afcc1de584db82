//! The Leases of a controller, and what a process exchanges with the API server about them.

use super::{assignment::Assignment, member::Record};

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

/// What is sent to the API server.
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

/// How a request ended.
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

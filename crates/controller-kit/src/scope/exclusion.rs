//! Exclusion of a process from namespaces, and its end: the answers of the fence.

use super::MARKER_LEASE;
use crate::places::{Places, place};

/// Another operator acts in the namespace, or none yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Excluded {
    /// A namespace-restricted operator has marked it.
    #[error("namespace {namespace} belongs to {holder}, which holds the Lease {MARKER_LEASE} there")]
    Marked {
        /// The namespace.
        namespace: String,
        /// Holder in the marker.
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
    /// Another replica acts in the namespace, or will.
    #[error("namespace {namespace} is in the shard of another replica")]
    Elsewhere {
        /// The namespace.
        namespace: String,
    },
}

impl Excluded {
    /// Whether the API server has to answer first. No [`Released`] says that it has.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Unknown | Self::NotLeading)
    }
}

/// Namespaces in which this process may act again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// In this namespace.
    Namespace(String),
    /// In the namespaces at these places.
    Places(Places),
    /// Too many releases to list: reconcile everything.
    Anywhere,
}

impl Released {
    /// Whether a namespace is among them.
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::Namespace(released) => released == namespace,
            Self::Places(places) => places.contains(place(namespace)),
            Self::Anywhere => true,
        }
    }
}

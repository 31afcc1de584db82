//! Which operator acts in a namespace: the marker Lease.
//!
//! An operator that is restricted to one namespace keeps a Lease of a well-known name there. While that marker is valid, every
//! cluster-wide operator, ours or the Go one, leaves the namespace alone. The [`Fence`] is what a process knows of it: it is
//! asked before a reconcile, and again before every write.
//!
//! - `marker`: which markers are valid, from what was seen and when; pure.
//! - `fence`: the answer for one process, and the watch that keeps it true.
//! - `look`: one look past the cache, before an expired marker counts for nothing.
//! - `layer`: the check before each write, inside the client.

mod fence;
mod layer;
mod look;
mod marker;

use std::time::Duration;

pub use self::{
    fence::{Excluded, Fence, Released},
    layer::FencedWrites,
    marker::{Marker, Markers},
};

/// Name of the marker Lease. The Go operator's, so that both exclude each other.
pub const MARKER_LEASE: &str = "dynamo-operator-namespace-scope";

/// What `holderIdentity` of a marker begins with; the operator's version follows.
pub const HOLDER_PREFIX: &str = "namespace-restricted-operator-";

/// Annotation of a marker that tells whose it is: the identity of the install, the same for all its processes. The Go operator
/// sets none.
pub const OWNER_ANNOTATION: &str = "operator.dynamo/owner";

/// Annotation of a marker that tells which `renewTime` its owner has written. The Go operator takes any marker of its namespace,
/// renews it, and leaves the annotations as they are: from then on the two differ, and the marker is its own.
pub const RENEWED_ANNOTATION: &str = "operator.dynamo/renewed";

/// How long before others may start a process stops acting, so that watches that lag, and requests that are on their way, do
/// not make two operators act at once: a sixth of the marker's duration, 5 s of the usual 30 s.
#[must_use]
pub fn safety_margin(duration: Duration) -> Duration {
    duration / 6
}

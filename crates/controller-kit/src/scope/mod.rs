//! Which operator acts in a namespace: the marker Lease.
//!
//! An operator that is restricted to one namespace keeps a Lease of a well-known name there. While that marker is
//! valid, every cluster-wide operator, ours or the Go one, leaves the namespace alone. The [`Fence`] is what a process
//! knows of it: it is asked before a reconcile, and again before every write.
//!
//! - `marker`: which markers are valid, from what was seen and when; pure.
//! - `fence`: the answer for one process, and the watch that keeps it true.
//! - `look`: reads the markers past the cache every two seconds.
//! - `layer`: the check before each write, inside the client.
//! - `shard`: the namespaces of one of several replicas, and what runs in them.

mod fence;
mod layer;
mod look;
mod marker;
mod shard;

use std::time::Duration;

pub use look::{Excluded, Released};

pub use self::{
    fence::Fence,
    layer::FencedWrites,
    marker::{Marker, Markers},
    shard::Permit,
};
use crate::request::STEP_TIMEOUT;

/// Name of the marker Lease. The Go operator's, so that both exclude each other.
pub const MARKER_LEASE: &str = "dynamo-operator-namespace-scope";

/// What `holderIdentity` of a marker begins with; the operator's version follows.
pub const HOLDER_PREFIX: &str = "namespace-restricted-operator-";

/// Annotation of a marker with its owner: the identity of the install, the same for all its processes. The Go operator
/// sets none.
pub const OWNER_ANNOTATION: &str = "operator.dynamo/owner";

/// Annotation of a marker with the `renewTime` that its owner has written. The Go operator takes any marker of its
/// namespace, renews it, and leaves the annotations as they are: from then on the two differ, and the marker is its
/// own.
pub const RENEWED_ANNOTATION: &str = "operator.dynamo/renewed";

/// Annotation of a marker whose owner gives it back: its processes stop, and it is deleted when their last requests
/// have ended.
pub const RELEASING_ANNOTATION: &str = "operator.dynamo/releasing";

/// After this long without an answer of the API server a process acts nowhere: others may have acted since.
const MAX_AGE: Duration = Duration::from_secs(10);

/// How long a marker is kept after it says that it is given back: by then every process of the install has read that,
/// or has stopped because it could not, and the requests that it had sent have ended.
pub const RELEASE_WAIT: Duration = MAX_AGE.saturating_add(STEP_TIMEOUT);

/// How long before others may start a process stops acting, so that watches that lag, and requests that are on their
/// way, do not make two operators act at once: a sixth of the marker's duration, 5 s of the usual 30 s.
#[must_use]
pub fn safety_margin(duration: Duration) -> Duration {
    duration / 6
}

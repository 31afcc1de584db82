//! Which namespaces another install of the operator has taken for itself.
//!
//! An install that serves one namespace only keeps a *marker*, a Lease of a fixed name, in that namespace. An install for the
//! whole cluster leaves such namespaces alone as long as the marker is valid. Name, times and holder are those of the Go
//! operator, so that both exclude each other.
//!
//! Whether a marker is valid is judged by how long *we* have seen no change of it, never by its writer's clock.

mod judge;
mod watch;

pub use judge::{Marker, Markers, Verdict, judge};
pub use watch::Fence;

/// Name of the Lease, in the namespace that is taken.
pub const MARKER_NAME: &str = "dynamo-operator-namespace-scope";
/// What the holder of a marker begins with; the version of the operator follows.
pub const HOLDER_PREFIX: &str = "namespace-restricted-operator-";
/// How long a marker is valid after a renewal, as our installs write it. Others may write another duration; theirs counts.
pub const MARKER_SECONDS: i32 = 30;

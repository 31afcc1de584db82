//! NATS and etcd beside the graphs that use them: whether they can be used, and what graphs that are gone have left in
//! them.
//!
//! ```text
//! observe     the named Secret, a real connection      ─► Verdict    told in every graph's condition
//! InfrastructureReady leftovers   which Dynamo namespaces are in use       ─► Place      pure apply       removes what
//! nobody uses any more
//! ```
//!
//! Without an address in the configuration, nothing of it runs. Nothing of it ever keeps an object from being deleted.

pub mod apply;
pub mod leftovers;
pub mod observe;
pub mod status;

pub use observe::{Places, Watched, start};
pub use status::Verdict;

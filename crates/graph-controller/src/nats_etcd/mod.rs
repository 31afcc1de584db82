//! Health of NATS and etcd, and cleanup of what deleted graphs left in them.
//!
//! | file | |
//! |---|---|
//! | `observe.rs` | reads the Secret, connects to the servers, and reads which Dynamo namespaces are in use |
//! | `status.rs` | sets the condition `InfrastructureReady` of graphs; pure |
//! | `leftovers.rs` | plans what to remove; pure |
//! | `apply.rs` | removes it |
//! | `run.rs` | repeats all of this until the process stops |
//!
//! Nothing runs without an address in the configuration, and nothing blocks the deletion of an object.

pub mod apply;
pub mod leftovers;
pub mod observe;
mod run;
pub mod status;

pub use self::{
    observe::Places,
    run::{HealthReceiver, start},
    status::Health,
};

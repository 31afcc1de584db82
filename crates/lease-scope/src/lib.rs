//! Marks the namespace of a namespace-restricted install.
//!
//! The marker is the Lease `dynamo-operator-namespace-scope`. While it is valid, cluster-wide operators skip the
//! namespace, and the other processes of the install act in it. It is created when the whole install is available, so
//! that a namespace never has a part of an operator. One replica renews it; another one takes over when a renewal is
//! overdue, before the marker expires. The marker outlives this process. It is released only when the whole install is
//! removed: first it signals the other processes to stop, and it is deleted when their last requests have ended.
//!
//! - `plan`: what to do with the marker; pure.
//! - `apply`: the Lease and the Deployments on the API server.
//! - `run`: the loop.

pub mod access;
mod apply;
mod plan;
mod run;

pub use run::{Config, GRACE, run};

/// Name of the program: user agent, metrics and Lease of its leader.
pub const NAME: &str = "lease-scope";

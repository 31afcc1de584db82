//! Marks the namespace of a namespace-restricted install as its own.
//!
//! The marker is the Lease `dynamo-operator-namespace-scope`. While it is valid, cluster-wide operators leave the namespace alone
//! and the other processes of the install act in it. It is taken when all of the install is available, so that a namespace
//! never has half an operator. Of several replicas one renews it; another one takes over when a renewal is overdue, before the marker
//! expires. It outlives this process, and is given back only when the whole install goes: first it tells the other processes to stop,
//! and it is deleted when their last requests have ended.
//!
//! - `decide`: what to do about the marker; pure.
//! - `apply`: the Lease and the Deployments on the API server.
//! - `run`: the loop.

pub mod access;
mod apply;
mod decide;
mod run;

pub use run::{Config, GRACE, run};

/// Name of the program: user agent, metrics and Lease of its leader.
pub const NAME: &str = "lease-scope";

//! Marks the namespace of a namespace-restricted install as its own.
//!
//! The marker is the Lease `dynamo-operator-namespace-scope`. While it is valid, cluster-wide operators leave the namespace alone
//! and the other processes of the install act in it. It is taken when all of the install is available, so that a namespace
//! never has half an operator; it is renewed for as long as this process lives, and deleted when the process ends in order.
//!
//! - `decide`: what to do about the marker; pure.
//! - `apply`: the Lease and the Deployments on the API server.
//! - `run`: the loop.

pub mod access;
mod apply;
mod decide;
mod run;

pub use run::{Config, run};

/// Name of the program: user agent, metrics and Lease of its leader.
pub const NAME: &str = "lease-scope";

//! The controller of components: a Deployment or LeaderWorkerSet and a Service for each, checkpoints, and image builds.
//!
//! | module | reconciled kind |
//! |---|---|
//! | [`component`] | `DynamoComponentDeployment` |
//! | [`checkpoint`] | `DynamoCheckpoint` |
//! | [`image_build`] | `DynamoComponent`, of the legacy API |
//!
//! Each has the same files: `model` (data), `observe`, `validate`, `plan`, `apply`, `status`, `events`, `requeue`. Its
//! `mod.rs` calls them, and they depend on `model`. [`access`] has the rights as data, [`run`](run()) the watches and
//! loops.

pub mod access;
pub mod checkpoint;
pub mod component;
pub mod image_build;
mod run;

pub use run::{run, run_with};

/// Name of the program: its user agent and the field manager of its writes. It must never change.
pub const NAME: &str = "dynamo-component-controller";

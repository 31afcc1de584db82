//! The controller of `DynamoComponentDeployment`: turns each into a Deployment and a Service, and tells how far it is.
//!
//! - [`component`]: observe, validate, decide, apply, status; its `mod.rs` reads as their table of contents.
//! - [`image_build`]: images of DynamoComponents, the API of 2025.
//! - [`access`]: what the controller may do, as data.
//! - [`run`](run()): caches, triggers and the loop.

pub mod access;
pub mod checkpoint;
pub mod component;
pub mod image_build;
mod run;
pub mod snapshots;

pub use run::{run, run_with};

/// Name of the program: its user agent and the field manager of its writes. It must never change.
pub const NAME: &str = "dynamo-component-controller";

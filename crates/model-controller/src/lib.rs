//! The controller of `DynamoModel`: keeps LoRA adapters loaded on the engines of their base model, and reports where
//! models are served.
//!
//! - [`model`]: reconciles `DynamoModel`.
//! - [`engine`]: state and desired adapters of each engine, and the requests that load and unload.
//! - [`access`]: rights of the controller.
//! - [`run`](run()): caches, triggers and the loop.

pub mod access;
pub mod engine;
pub mod model;
mod run;

pub use run::{Options, run, run_with};

/// Name of the program: its user agent and the field manager of its writes. It must never change.
pub const NAME: &str = "dynamo-model-controller";

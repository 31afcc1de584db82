//! The controller of `DynamoModel`: keeps LoRA adapters loaded on the engines of their base model, and tells where models
//! are served.
//!
//! - [`model`]: observe, validate, decide, status; its `mod.rs` reads as their table of contents.
//! - [`engine`]: what each engine holds and shall hold, and the requests that bring the two together.
//! - [`access`]: what the controller may do, as data.
//! - [`run`](run()): caches, triggers and the loop.

pub mod access;
pub mod engine;
pub mod metrics;
pub mod model;
mod run;

pub use run::{Options, run, run_with};

/// Name of the program: its user agent and the field manager of its writes. It must never change.
pub const NAME: &str = "dynamo-model-controller";

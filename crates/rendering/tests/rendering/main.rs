//! Rendering through the public API: rules in tables, whole objects as snapshots, properties of any input.

#![allow(clippy::unwrap_used, reason = "a panic is how helpers of tests fail")]

mod capture;
mod exposure;
mod fixture;
mod golden;
mod kv_transfer;
mod merge;
mod metadata;
mod nodes;
mod preserved;
mod properties;
mod pull_secrets;
mod restore;
mod shared_gpus;
mod violations;
mod volumes;

//! The controller against a real control plane: what a user does, and what comes of it.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod autoscaling;
mod build_limit;
mod built;
mod checkpoint_twins;
mod checkpoints;
mod conflicts;
mod deletion;
mod exposure;
mod harness;
mod images;
mod models;
mod nodes;
mod registry;
mod rollout;
mod secrets;
mod takeover;
mod violations;
mod warnings;

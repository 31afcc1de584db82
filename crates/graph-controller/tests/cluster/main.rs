//! The graph controller on a real API server. What the component controller would report is played.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod autoscaling;
mod checkpoints;
mod claims;
mod discovery;
mod endpoint_picker;
mod grove;
mod harness;
mod images;
mod infrastructure;
mod pictures;
mod recovery;
mod rejections;
mod requests;
mod restart;
mod rollouts;
mod scaling;
mod takeover;
mod topology;

//! The definitions on a real API server: what it accepts, refuses, defaults and merges.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod conformance;
mod defaults;
mod definitions;
mod kubernetes_definitions;
mod merges;
mod refusals;
mod server;

//! The definitions on a real API server: what it accepts, refuses, defaults and merges.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod checks;
mod conformance;
#[path = "../support/converter.rs"]
mod converter;
mod defaults;
mod definitions;
mod kubernetes_definitions;
mod merges;
#[path = "../support/rejected.rs"]
mod rejected;
mod rejections;
mod round_trips;
mod server;
#[path = "../support/mod.rs"]
mod support;

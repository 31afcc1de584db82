//! The controller against a real API server and engines with real sockets: what a user does, what engines do, and what
//! comes of it.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod base;
mod changes;
mod deletion;
mod engine;
mod failures;
mod fallback;
mod foreign_definition;
mod harness;
mod loading;
mod scale;

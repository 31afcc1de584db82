//! Conversion of real graphs, of parts of them, and of objects that no user would write.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod defaults;
mod from_schema;
mod generated;
mod law;
mod merging;
mod real;
mod round_trips;
mod stored;
#[path = "../support/mod.rs"]
mod support;

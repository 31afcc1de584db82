//! How the pods of a component start.

pub use workload::snapshot::{Start, start};

#[cfg(test)]
#[path = "checkpoint_tests.rs"]
mod tests;

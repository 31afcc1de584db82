//! How the pods of a component start.

pub use workload::checkpoint::{Start, start};

#[cfg(test)]
mod tests;

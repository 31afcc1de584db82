//! How the pods of a component start.

pub use workload::snapshot::{Start, start};

#[cfg(test)]
mod tests;

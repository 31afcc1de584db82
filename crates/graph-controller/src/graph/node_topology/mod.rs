//! Copies topology labels of nodes to the worker pods of graphs with a KV-transfer policy.

pub mod apply;
pub mod labels;
pub mod lookup;

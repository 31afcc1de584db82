//! Tools for end-to-end tests: a control plane of the test run, the controllers as processes, a proxy that kills them.
//!
//! The tests themselves are in `tests/it`; one binary, so that they share one control plane. Each has a namespace of
//! its own and its own pair of controllers that look at nothing else, so they do not disturb each other.

mod harness;
mod operators;
mod proxy;

pub use harness::{BoxError, Harness, harness, private_harness};
pub use operators::{
    COMPONENT_CONTROLLER, GRAPH_CONTROLLER, MODEL_CONTROLLER, Operators, cluster_wide, executable, program, program_of,
};
pub use proxy::{Cut, KillingProxy, Watched};

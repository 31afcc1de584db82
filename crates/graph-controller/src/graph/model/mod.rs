//! Data of a graph's reconcile: what was observed, what is valid, what is planned, what was applied. Nothing here
//! plans.

mod applied;
mod observed;
mod obstacle;
mod plan;
mod rollout;
mod valid;

pub use self::{applied::*, observed::*, obstacle::*, plan::*, rollout::*, valid::*};

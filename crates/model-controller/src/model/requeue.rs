//! Time of the next pass over a model. Pure.

use std::time::Duration;

use controller_kit::controller::Action;

use super::model::ModelApplied;

/// Pause before a rejected write is retried.
const REJECTED_RETRY: Duration = Duration::from_secs(15);

/// Determines when the next pass is due.
pub fn next(applied: &ModelApplied) -> Action {
    applied.rejection.as_ref().map_or(Action::AwaitChange, |_| Action::Requeue(REJECTED_RETRY))
}

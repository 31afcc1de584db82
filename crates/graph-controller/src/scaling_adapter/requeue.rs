//! Time of the next pass over a scaling adapter. Pure.

use std::time::Duration;

use controller_kit::controller::Action;

use super::model::{ScaleOutcome, ScalingAdapterApplied, ScalingAdapterPlan};

/// Pause before a rejected change is retried, if neither graph nor adapter changes: the cause may be a policy or a
/// quota.
const REJECTED_RETRY: Duration = Duration::from_secs(15);

/// Determines when the next pass is due.
pub fn next(applied: &ScalingAdapterApplied) -> Action {
    match (&applied.outcome, &applied.plan) {
        (ScaleOutcome::Rejected(_), _) => Action::Requeue(REJECTED_RETRY),
        (_, Ok(ScalingAdapterPlan { delayed: Some(rest), .. })) => Action::Requeue(*rest),
        _ => Action::AwaitChange,
    }
}

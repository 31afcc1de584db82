//! Time of the next pass over a checkpoint. Pure.

use std::time::Duration;

use controller_kit::controller::Action;
use jiff::{SignedDuration, Timestamp};

use super::model::{CapturePhase, CheckpointApplied, CheckpointObserved};

/// Interval of lookups of an obstacle that no watch shows.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Deadline for the removal of an artifact.
const CLEANUP_DEADLINE: SignedDuration = SignedDuration::from_mins(10);

/// Determines when the next pass is due.
pub fn next(observed: &CheckpointObserved, applied: &CheckpointApplied) -> Action {
    match applied.phase {
        // A failed checkpoint stays failed.
        CapturePhase::Failed { .. } => Action::AwaitChange,
        _ if applied.rejected => Action::Requeue(RETRY_INTERVAL),
        CapturePhase::Blocked { .. } | CapturePhase::Waiting(_) | CapturePhase::Capturing { stalled: Some(_), .. } => {
            Action::Requeue(RETRY_INTERVAL)
        }
        CapturePhase::Capturing { stalled: None, .. } => {
            observed.waits.look_again.map_or(Action::AwaitChange, Action::Requeue)
        }
        CapturePhase::Invalid { .. } | CapturePhase::Settled | CapturePhase::Ready(_) => Action::AwaitChange,
    }
}

/// Determines when the next pass over a checkpoint that is being deleted is due.
pub fn next_of_cleanup(observed: &CheckpointObserved, now: Timestamp) -> Action {
    let rest =
        cleanup_rest(observed, now).and_then(|rest| Duration::try_from(rest.max(SignedDuration::from_secs(1))).ok());
    rest.map_or(Action::AwaitChange, Action::Requeue)
}

/// Whether the removal has exceeded its deadline.
pub fn cleanup_is_late(observed: &CheckpointObserved, now: Timestamp) -> bool {
    cleanup_rest(observed, now).is_some_and(|rest| rest.is_negative())
}

/// The time until the deadline of the removal.
fn cleanup_rest(observed: &CheckpointObserved, now: Timestamp) -> Option<SignedDuration> {
    let since = observed.checkpoint.metadata.deletion_timestamp.as_ref()?.0;
    Some(CLEANUP_DEADLINE - now.duration_since(since))
}

//! Time of the next pass over an image build. Pure.

use std::time::Duration;

use controller_kit::controller::Action;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use rendering::JobEnd;

use super::model::{BuildPhase, ImageBuildApplied, ImageBuildObserved};

/// Shortest pause before a server that did not answer, or an obstacle in the cluster, is looked up again.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(15);

/// Interval of the queries whether a registry still has an image: registries are cleaned up.
const RECHECK_INTERVAL: Duration = Duration::from_secs(3600);

/// Pause before a failed build is tried again.
const FAILED_RETRY: SignedDuration = SignedDuration::from_mins(10);

/// Determines when the next pass is due.
pub fn next(observed: &ImageBuildObserved, applied: &ImageBuildApplied, now: Timestamp) -> Action {
    let next = of_build(observed, applied, now);
    observed.manifest.retry_after.map_or(next, |pause| next.no_later_than(pause))
}

fn of_build(observed: &ImageBuildObserved, applied: &ImageBuildApplied, now: Timestamp) -> Action {
    match &applied.phase {
        BuildPhase::Obstructed(_) | BuildPhase::Queued(_) => {
            Action::Requeue(applied.backoff.unwrap_or_default().max(RETRY_INTERVAL))
        }
        BuildPhase::Failed { .. } => {
            let rest = observed.job.as_ref().and_then(|job| retry_after(job, now));
            Action::Requeue(rest.and_then(|rest| Duration::try_from(rest).ok()).unwrap_or(RETRY_INTERVAL))
        }
        BuildPhase::Available => Action::Requeue(RECHECK_INTERVAL),
        BuildPhase::Building { .. } => observed.waits.look_again.map_or(Action::AwaitChange, Action::Requeue),
    }
}

/// The rest of the pause before a failed build is tried again; `None` if it is over.
pub fn retry_after(job: &Job, now: Timestamp) -> Option<SignedDuration> {
    let since = JobEnd::Failed.of(job)?.last_transition_time.as_ref().map(|time| time.0);
    let rest = since.map(|since| FAILED_RETRY - now.duration_since(since))?;
    rest.is_positive().then_some(rest)
}

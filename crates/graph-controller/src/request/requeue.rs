//! Time of the next pass over a request. Pure.

use std::time::Duration;

use api_types::conditions::WEBHOOK_UNAVAILABLE;
use controller_kit::controller::Action;
use k8s_openapi::jiff::Timestamp;

use super::model::{PlannedPhase, Profiling, RequestObserved};

/// Retry interval for an obstacle that no watch shows, such as a foreign object that holds a name.
const OBSTACLE_RETRY: Duration = Duration::from_secs(15);
/// Retry interval for what a spec depends on: claims, and nodes with GPUs.
const DEPENDENCY_RETRY: Duration = Duration::from_secs(60);

/// Determines when the next pass is due.
pub fn next(observed: &RequestObserved, phase: &PlannedPhase, now: Timestamp) -> Action {
    match phase {
        PlannedPhase::Invalid { outside: true, .. } | PlannedPhase::Waiting(_) => Action::Requeue(DEPENDENCY_RETRY),
        PlannedPhase::Blocked { .. }
        | PlannedPhase::Deploying { stuck: true, .. }
        | PlannedPhase::Deploying { reason: WEBHOOK_UNAVAILABLE, .. } => Action::Requeue(OBSTACLE_RETRY),
        PlannedPhase::Profiling(Profiling { until: Some(until), .. }) => {
            let rest = until.duration_since(now).as_secs().clamp(0, 3600);
            Action::Requeue(Duration::from_secs(u64::try_from(rest).unwrap_or_default() + 1))
        }
        // Pods are in no cache: that of the profiler, and those of the graphs it measures.
        PlannedPhase::Profiling(Profiling { begins: false, .. }) => {
            Action::Requeue(observed.waits.look_again.map_or(DEPENDENCY_RETRY, |after| after.min(DEPENDENCY_RETRY)))
        }
        _ => Action::AwaitChange,
    }
}

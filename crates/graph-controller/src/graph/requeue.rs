//! Time of the next pass over a graph. Pure.

use std::time::Duration;

use controller_kit::controller::Action;
use k8s_openapi::jiff::Timestamp;

use super::model::{AppliedPlan, GraphBlocked, GraphWrites};

/// Retry interval for an obstacle that no watch shows, such as a foreign object that holds a name.
const OBSTACLE_RETRY: Duration = Duration::from_secs(15);

/// Determines when the next pass is due.
pub fn next(pass: &GraphWrites, now: Timestamp) -> Action {
    let (obstacle, diagnose_after, deadline) = match &pass.written {
        Err(GraphBlocked { rejected, .. }) => (*rejected, None, None),
        Ok(AppliedPlan { plan, applied, rejection, diagnose_after }) => {
            let obstacle = !applied.tally.waiting.is_empty() || plan.obstacle.is_some() || rejection.is_some();
            (obstacle, *diagnose_after, plan.rollout.again.map(|at| until(at, now)))
        }
    };
    let obstacle = obstacle || pass.labeled.failed.is_some();
    let pauses = [obstacle.then_some(OBSTACLE_RETRY), diagnose_after, deadline, pass.labeled.again];
    pauses.into_iter().flatten().fold(Action::AwaitChange, Action::no_later_than)
}

/// Time from now until a deadline; none if it has passed. Deadlines have whole seconds, so it is not below one.
fn until(deadline: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(deadline.duration_since(now)).unwrap_or_default().max(Duration::from_secs(1))
}

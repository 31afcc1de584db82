//! Obstacles to the reconcile of a graph.

use api_types::{conditions, violations::Violation};
use controller_kit::store::UnpackError;

/// The kstatus condition of a graph that is not ready, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObstacleProgress {
    /// Waits for a change by a user or administrator.
    Stalled(&'static str),
    /// Continues by itself.
    Reconciling(&'static str),
}

/// Reason why a graph cannot be reconciled: violations of its spec, something that the cluster lacks, or a rejection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphObstacle {
    /// Reason of the `Ready` condition.
    pub ready_reason: &'static str,
    /// Whether it continues by itself.
    pub progress: ObstacleProgress,
    /// All problems: field path, what is wrong, what to do.
    pub message: String,
}

/// Reason why nothing is planned for a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphBlocked {
    /// The obstacle.
    pub obstacle: GraphObstacle,
    /// Whether the API server rejected a read. Otherwise only a change of the graph helps.
    pub rejected: bool,
}

impl GraphObstacle {
    /// Something that needs a change by a user or administrator; with the reasons of `Ready` and of `Stalled`.
    pub fn stalled(ready_reason: &'static str, reason: &'static str, message: String) -> Self {
        Self { ready_reason, progress: ObstacleProgress::Stalled(reason), message }
    }

    /// A stored form that this version cannot read.
    pub fn of_unreadable(error: &UnpackError) -> Self {
        Self::stalled(conditions::graph::FAILED, conditions::graph::INVALID_SPEC, error.to_string())
    }

    /// All violations of a spec.
    pub fn of_violations(violations: &[Violation]) -> Self {
        let message = violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        Self::stalled(conditions::graph::FAILED, conditions::graph::INVALID_SPEC, message)
    }
}

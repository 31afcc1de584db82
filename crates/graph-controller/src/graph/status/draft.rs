//! A status that is being computed.

use api_types::{
    conditions as c,
    v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentStatus, GraphState},
};
use controller_kit::conditions::{Status, set_condition};
use k8s_openapi::jiff::Timestamp;

use crate::graph::model::{GraphObstacle, ObstacleProgress};

/// A status that is being computed for one generation of a graph.
pub(super) struct Draft {
    /// The status.
    pub(super) status: DynamoGraphDeploymentStatus,
    /// The time of its changes.
    pub(super) now: Timestamp,
}

impl Draft {
    /// The previous status, for the present generation.
    pub(super) fn of(graph: &DynamoGraphDeployment, now: Timestamp) -> Self {
        let mut status = graph.status.clone().unwrap_or_default();
        status.observed_generation = graph.metadata.generation;
        Self { status, now }
    }

    /// Sets a condition.
    pub(super) fn set(&mut self, type_: &str, holds: impl Into<Status>, reason: &str, message: &str) {
        let generation = self.status.observed_generation;
        set_condition(&mut self.status.conditions, type_, holds.into(), reason, message, generation, self.now);
    }

    /// Removes a condition.
    pub(super) fn remove(&mut self, type_: &str) {
        self.status.conditions.retain(|condition| condition.type_ != type_);
    }

    /// Everything is ready.
    pub(super) fn settle(&mut self) {
        self.status.state = GraphState::Successful;
        let text = "All resources are ready";
        self.set(c::READY, true, c::graph::ALL_READY, text);
        self.set(c::RECONCILING, false, c::graph::SETTLED, text);
        self.set(c::STALLED, false, c::graph::NOT_STALLED, "");
    }

    /// It continues by itself.
    pub(super) fn progress(&mut self, reason: &str, message: &str) {
        self.status.state = GraphState::Pending;
        self.set(c::READY, false, reason, message);
        self.set(c::RECONCILING, true, c::graph::PROGRESSING, message);
        self.set(c::STALLED, false, c::graph::NOT_STALLED, "");
    }

    /// It needs a change. `not_ready` and `stalled` are the reasons of `Ready` and of `Stalled`.
    pub(super) fn stall(&mut self, not_ready: &str, stalled: &str, message: &str) {
        self.status.state = GraphState::Failed;
        self.set(c::READY, false, not_ready, message);
        self.set(c::RECONCILING, false, stalled, "waits for a change");
        self.set(c::STALLED, true, stalled, message);
    }

    /// Sets the conditions of an obstacle.
    pub(super) fn obstruct(&mut self, obstacle: &GraphObstacle) {
        match obstacle.progress {
            ObstacleProgress::Stalled(reason) => self.stall(obstacle.ready_reason, reason, &obstacle.message),
            ObstacleProgress::Reconciling(reason) => {
                self.progress(obstacle.ready_reason, &obstacle.message);
                self.set(c::RECONCILING, true, reason, &obstacle.message);
            }
        }
    }
}

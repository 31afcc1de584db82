//! Results of the writes of a reconcile: live objects, waits and failures.

use std::{collections::BTreeMap, time::Duration};

use api_types::{grove::PodCliqueSet, v1beta1::DynamoComponentDeployment};
use controller_kit::apply::RequestError;
use rendering::PodDiagnosis;

use super::{GraphBlocked, GraphObstacle, GraphPlan};

/// Reasons why pods do not serve, by component.
pub type Troubles = BTreeMap<String, PodDiagnosis>;

/// Result of the writes of one reconcile.
pub struct GraphWrites {
    /// Writes that advance the graph.
    pub written: Result<AppliedPlan, GraphBlocked>,
    /// Topology labels of pods.
    pub labeled: LabelingResult,
}

/// Result of the writes that advance a graph.
pub struct AppliedPlan {
    /// The plan.
    pub plan: GraphPlan,
    /// Live objects after the writes.
    pub applied: GraphApplied,
    /// Rejection by the API server.
    pub rejection: Option<GraphObstacle>,
    /// Delay until pods are diagnosed again.
    pub diagnose_after: Option<Duration>,
}

/// Result of labeling the pods of a graph.
#[derive(Debug, Default)]
pub struct LabelingResult {
    /// Delay until a repetition because of something that no watch shows.
    pub again: Option<Duration>,
    /// The first error. Pods that it does not concern are labeled.
    pub failed: Option<RequestError>,
}

impl LabelingResult {
    /// Repeats it after this long, or sooner.
    pub(in crate::graph) fn retry_after(&mut self, after: Duration) {
        self.again = Some(self.again.map_or(after, |sooner| sooner.min(after)));
    }

    /// Keeps the first error; returns the results.
    pub(in crate::graph) fn collect<T>(&mut self, answers: Vec<Result<T, RequestError>>) -> Vec<T> {
        let mut good = Vec::new();
        for answer in answers {
            match answer {
                Ok(answer) => good.push(answer),
                Err(error) => self.failed = self.failed.take().or(Some(error)),
            }
        }
        good
    }
}

/// Live objects after the writes.
#[derive(Debug, Default)]
pub struct GraphApplied {
    /// The graph's components.
    pub live: Vec<DynamoComponentDeployment>,
    /// The graph's PodCliqueSet, if it runs on Grove.
    pub grove: Option<PodCliqueSet>,
    /// Reasons why pods do not serve, on Grove and as far as known.
    pub troubles: Troubles,
    /// Waits of the writes, and failed writes.
    pub tally: Tally,
}

/// Waits of several steps, and failed steps.
#[derive(Debug, Default)]
pub struct Tally {
    /// Objects that block a write until they are deleted, and why, one line each.
    pub waiting: Vec<String>,
    /// Failures, in the order of the steps.
    pub failed: Vec<RequestError>,
}

impl Tally {
    /// Adds a step. Returns its result if it succeeded.
    pub(in crate::graph) fn take<T>(&mut self, step: Result<T, RequestError>) -> Option<T> {
        step.map_err(|error| self.failed.push(error)).ok()
    }

    /// Adds a step that may wait for an object.
    pub(in crate::graph) fn take_waiting(&mut self, step: Result<Option<String>, RequestError>) {
        let waits = self.take(step).flatten();
        self.waiting.extend(waits);
    }

    /// Adds other steps.
    pub(in crate::graph) fn add(&mut self, other: Self) {
        self.waiting.extend(other.waiting);
        self.failed.extend(other.failed);
    }
}

impl FromIterator<Result<Option<String>, RequestError>> for Tally {
    fn from_iter<I: IntoIterator<Item = Result<Option<String>, RequestError>>>(steps: I) -> Self {
        let mut tally = Self::default();
        steps.into_iter().for_each(|step| tally.take_waiting(step));
        tally
    }
}

//! Live objects after the writes of a reconcile, and the waits of the writes.

use std::collections::BTreeMap;

use api_types::{grove::PodCliqueSet, v1beta1::DynamoComponentDeployment};
use controller_kit::apply::RequestError;
use rendering::PodDiagnosis;

/// Reasons why pods do not serve, by component.
pub type Troubles = BTreeMap<String, PodDiagnosis>;

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

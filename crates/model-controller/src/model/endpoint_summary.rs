//! Readiness of a model on each endpoint, and the message about it. Pure.

use std::collections::BTreeMap;

use api_types::v1alpha1::{AdapterMemory, ModelEndpoint};

use super::model::{ModelObserved, Requested};
use crate::engine::{
    Endpoint,
    state::{AdapterState, Problem},
};

/// Rejections in a row after which a user has to change the worker.
const REJECTIONS_BEFORE_STALLED: u32 = 3;

/// Maximum pods that a message names for one problem.
const NAMED: usize = 3;

/// Maximum problems that a message names.
const PROBLEMS: usize = 2;

/// Readiness of a model on each endpoint.
#[derive(Clone, Debug, Default)]
pub struct EndpointSummary {
    /// For the status.
    pub endpoints: Vec<ModelEndpoint>,
    /// Whether a user has to change a worker.
    pub needs_help: bool,
    /// Pods that are not ready.
    not_ready: usize,
    /// Pods with problems, by problem.
    problems: BTreeMap<String, Vec<String>>,
}

impl EndpointSummary {
    /// Summarizes all endpoints.
    pub fn of(observed: &ModelObserved) -> Self {
        let mut summary = Self::default();
        for endpoint in &observed.found.endpoints {
            let ready = endpoint.ready && summary.is_served_by(observed, endpoint);
            let covered = observed.covered.contains(&endpoint.pod);
            summary.not_ready += usize::from(!endpoint.ready);
            summary.endpoints.push(ModelEndpoint {
                address: endpoint.url(),
                pod_name: Some(endpoint.pod_name.to_string()),
                ready,
                lora_fallback_covered: covered && !ready,
            });
        }
        summary
    }

    /// Whether the engine serves the model, regardless of the readiness of its pod.
    fn is_served_by(&mut self, observed: &ModelObserved, endpoint: &Endpoint) -> bool {
        match &observed.claim.requested {
            Requested::Nothing => return true,
            Requested::Adapter { .. } if observed.taken_by.is_none() => {}
            Requested::Adapter { .. } | Requested::Invalid | Requested::Deleting { .. } => return false,
        }
        match observed.adapter_states.get(&endpoint.pod) {
            Some(AdapterState::Loaded) => true,
            Some(AdapterState::Loading) => false,
            Some(AdapterState::Unknown) | None => was_ready(observed, endpoint),
            Some(AdapterState::Unmanaged) => {
                if endpoint.ready && !observed.covered.contains(&endpoint.pod) {
                    self.add(Problem::Unmanaged.to_string(), endpoint);
                    self.needs_help = true;
                }
                false
            }
            Some(AdapterState::Failing { problem, failures }) => {
                if endpoint.ready {
                    self.needs_help |= problem.needs_help() && *failures >= REJECTIONS_BEFORE_STALLED;
                    self.add(problem.to_string(), endpoint);
                }
                false
            }
        }
    }

    fn add(&mut self, problem: String, endpoint: &Endpoint) {
        self.problems.entry(problem).or_default().push(endpoint.pod_name.to_string());
    }

    /// Number of endpoints that serve the model themselves.
    pub fn ready(&self) -> usize {
        self.endpoints.iter().filter(|endpoint| endpoint.ready).count()
    }

    /// True if there are endpoints and each of them serves the model itself.
    pub fn is_complete(&self) -> bool {
        !self.endpoints.is_empty() && self.ready() == self.endpoints.len()
    }

    /// True if every endpoint serves the model, or is covered by another.
    pub fn is_served(&self) -> bool {
        self.endpoints.iter().all(|endpoint| endpoint.ready || endpoint.lora_fallback_covered)
    }

    /// The message of a condition: how many endpoints serve the model, and what is wrong with the others.
    pub fn message(&self) -> String {
        let mut parts = vec![format!("served by {} of {} endpoints", self.ready(), self.endpoints.len())];
        if self.not_ready > 0 {
            parts.push(format!("pods that are not ready: {}", self.not_ready));
        }
        let mut problems: Vec<_> = self.problems.iter().collect();
        // The sort is stable: problems of equally many pods stay in the order of their text.
        problems.sort_by_key(|(_, pods)| std::cmp::Reverse(pods.len()));
        for (problem, pods) in problems.iter().take(PROBLEMS) {
            let more = pods.len().saturating_sub(NAMED);
            let named: Vec<&str> = pods.iter().take(NAMED).map(String::as_str).collect();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            parts.push(format!("{}{more}: {problem}", named.join(", ")));
        }
        if let Some(more) = problems.len().checked_sub(PROBLEMS).filter(|more| *more > 0) {
            parts.push(format!("further problems: {more}"));
        }
        parts.join("; ")
    }
}

/// Whether the status last reported the endpoint as ready. It counts until the engine has answered once, so that a
/// restart of the controller does not report every model as unserved; and only while the status is about the same
/// adapter.
fn was_ready(observed: &ModelObserved, endpoint: &Endpoint) -> bool {
    let Requested::Adapter { name, source } = &observed.claim.requested else { return false };
    let AdapterMemory { model_name, source_digest, .. } = &observed.claim.memory;
    let same = match (model_name, source_digest) {
        (Some(old_name), Some(old_digest)) => *old_name == name.as_str() && *old_digest == source.digest(),
        // Written by the upstream operator.
        _ => true,
    };
    let known = observed.model.status.iter().flat_map(|status| &status.endpoints);
    same && known.into_iter().any(|known| {
        known.ready && known.address == endpoint.url() && known.pod_name.as_deref() == Some(&endpoint.pod_name)
    })
}

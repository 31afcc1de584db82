//! How the model stands on each endpoint, and what there is to say about it. Pure.

use std::collections::BTreeMap;

use api_types::v1alpha1::{AdapterMemory, ModelEndpoint};

use super::{claim::Asks, model::Observed};
use crate::engine::{Endpoint, state::Problem, view::Stand};

/// An engine that refuses this often in a row needs help.
const STUBBORN: u32 = 3;

/// Pods that a message names for one problem.
const NAMED: usize = 3;

/// Problems that a message names.
const PROBLEMS: usize = 2;

/// How the model stands on each endpoint.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// As the status shows them.
    pub endpoints: Vec<ModelEndpoint>,
    /// Whether somebody has to change something on a worker.
    pub needs_help: bool,
    /// Pods that are not ready.
    not_ready: usize,
    /// Pods with problems, by problem.
    problems: BTreeMap<String, Vec<String>>,
}

impl Survey {
    /// Looks at all endpoints.
    pub fn of(observed: &Observed) -> Self {
        let mut survey = Self::default();
        for endpoint in &observed.found.endpoints {
            let ready = endpoint.ready && survey.judge(observed, endpoint);
            let covered = observed.covered.contains(&endpoint.pod);
            survey.not_ready += usize::from(!endpoint.ready);
            survey.endpoints.push(ModelEndpoint {
                address: endpoint.url(),
                pod_name: Some(endpoint.pod_name.to_string()),
                ready,
                lora_fallback_covered: covered && !ready,
            });
        }
        survey
    }

    /// Whether the model is there, whatever Kubernetes says of the pod.
    fn judge(&mut self, observed: &Observed, endpoint: &Endpoint) -> bool {
        match &observed.claim.asks {
            Asks::Nothing => return true,
            Asks::Adapter { .. } if observed.taken_by.is_none() => {}
            Asks::Adapter { .. } | Asks::Nonsense | Asks::Farewell { .. } => return false,
        }
        match observed.stands.get(&endpoint.pod) {
            Some(Stand::Loaded) => true,
            Some(Stand::Coming) => false,
            Some(Stand::Unknown) | None => was_ready(observed, endpoint),
            Some(Stand::Unmanaged) => {
                if endpoint.ready && !observed.covered.contains(&endpoint.pod) {
                    self.add(Problem::Unmanaged.to_string(), endpoint);
                    self.needs_help = true;
                }
                false
            }
            Some(Stand::Failing { problem, failures }) => {
                if endpoint.ready {
                    self.needs_help |= problem.needs_help() && *failures >= STUBBORN;
                    self.add(problem.to_string(), endpoint);
                }
                false
            }
        }
    }

    fn add(&mut self, problem: String, endpoint: &Endpoint) {
        self.problems.entry(problem).or_default().push(endpoint.pod_name.to_string());
    }

    /// Endpoints that serve the model themselves.
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

    /// What is missing.
    pub fn summary(&self) -> String {
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

/// Until an engine has been asked, what the status said of it is the best guess: a restart of the controller must not make
/// every model look unserved. That holds only as long as the status speaks of the same adapter.
fn was_ready(observed: &Observed, endpoint: &Endpoint) -> bool {
    let Asks::Adapter { name, source } = &observed.claim.asks else { return false };
    let AdapterMemory { model_name, source_digest, .. } = &observed.claim.memory;
    let same = match (model_name, source_digest) {
        (Some(old_name), Some(old_digest)) => *old_name == name.as_str() && *old_digest == source.digest(),
        // What the Go operator left.
        _ => true,
    };
    let known = observed.model.status.iter().flat_map(|status| &status.endpoints);
    same && known.into_iter().any(|known| {
        known.ready && known.address == endpoint.url() && known.pod_name.as_deref() == Some(&endpoint.pod_name)
    })
}

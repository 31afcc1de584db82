//! Facts of pods.

use std::fmt;

use api_types::{labels, names};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde::Serialize;

/// The component that a pod is of.
pub fn component_of(pod: &Pod) -> Option<&str> {
    let labels = pod.labels();
    let set = labels.get(labels::LEADER_WORKER_SET).and_then(|set| names::component_of_leader_worker_set(set));
    labels.get(labels::SELECTOR).map(String::as_str).or(set)
}

/// Whether a pod has ended and is counted no more.
pub fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod), Some("Failed" | "Succeeded"))
}

/// Whether a pod is ready.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True")
}

fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref().and_then(|status| status.phase.as_deref())
}

/// Phase of a pod's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PodPhase {
    Ready,
    Starting,
    Unscheduled,
    Ending,
    Failed,
}

impl PodPhase {
    /// Of a pod, unless it has done what it was for.
    pub(crate) fn of(pod: &Pod) -> Option<Self> {
        Some(match phase(pod) {
            Some("Succeeded") => return None,
            _ if pod.metadata.deletion_timestamp.is_some() => Self::Ending,
            Some("Failed") => Self::Failed,
            _ if is_ready(pod) => Self::Ready,
            _ if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()) => Self::Starting,
            _ => Self::Unscheduled,
        })
    }
}

impl fmt::Display for PodPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Returns the reason why a pod does not run, in a sentence: that of the scheduler, or that of a container which waits.
pub(crate) fn shortfall(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let scheduled = status.conditions.iter().flatten().find(|one| one.type_ == "PodScheduled" && one.status == "False");
    let (reason, message) = match scheduled {
        Some(condition) => (condition.reason.clone(), condition.message.clone()),
        None => {
            let mut containers = status.container_statuses.iter().flatten();
            let waiting = containers.find_map(|container| container.state.as_ref()?.waiting.clone())?;
            (waiting.reason, waiting.message)
        }
    };
    // The sentences after the first one are about preemption and earlier attempts.
    let message = message.as_deref().and_then(|message| message.split(". ").next());
    let message = message.map(|message| format!(": {}", message.trim_end_matches('.'))).unwrap_or_default();
    Some(format!("pod {}: {}{message}", pod.name_any(), reason.unwrap_or_default()))
}

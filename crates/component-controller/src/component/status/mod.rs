//! The status of a component: computed from what was done and what is live, never from what was wished.

use api_types::{
    conditions::{self, component as reason},
    v1beta1::{ComponentReplicaStatus, DynamoComponentDeploymentStatus, MAIN_CONTAINER},
};
use controller_kit::conditions::{Progress, Status, set_condition, set_progress};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use workload::{Diagnosis, device_claims::GpuCountError};

use super::{
    acted::{Acted, Cause, Refusal},
    pull_secrets::NamedPullSecrets,
    rollout,
    workload::WorkloadKind,
};

/// What the status shall say.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// Generation of the spec that was decided on.
    pub generation: Option<i64>,
    /// How far the component is.
    pub standing: Standing,
    /// Kind of what runs the pods.
    pub kind: WorkloadKind,
    /// The replicas that the workload was told to have, while its own controller has yet to see that; `None` once it has.
    pub untold: Option<i32>,
    /// Replica counts, if a workload of ours is there.
    pub replicas: Option<ComponentReplicaStatus>,
    /// The image pull secrets that the author names.
    pub pull_secrets: &'a NamedPullSecrets,
    /// Whether the engine could be told how the nodes of a replica find each other.
    pub joins_nodes: bool,
}

/// How far a component is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// All wanted pods serve.
    Ready,
    /// Pods are coming up or changing; the message says what is waited for.
    Underway(String),
    /// Pods do not come up, and it is known why.
    Hindered {
        /// Reason of the condition `Reconciling`.
        reason: &'static str,
        /// What is missing, the pod, and what Kubernetes says of it.
        message: String,
    },
    /// Somebody has to change something.
    Stuck {
        /// Reason of the condition `Stalled`.
        reason: &'static str,
        /// What, and how.
        message: String,
    },
}

impl Standing {
    /// The spec cannot be used as it is.
    pub fn invalid(message: String) -> Self {
        Self::Stuck { reason: reason::INVALID_SPEC, message }
    }

    /// How far a component is whose spec was acted upon. What is in the way comes first, all of it in one message.
    pub fn of(acted: &Acted) -> Self {
        let message =
            |refusals: &[&Refusal]| refusals.iter().map(|r| r.message.as_str()).collect::<Vec<_>>().join("; ");
        let mut refusals: Vec<&Refusal> = acted.refusals.iter().collect();
        refusals.sort_by_key(|refusal| refusal.cause);
        match refusals.first().map(|first| first.cause) {
            Some(Cause::NameTaken) => Self::Stuck { reason: reason::NAME_TAKEN, message: message(&refusals) },
            Some(Cause::Rejected) => Self::Stuck { reason: reason::INVALID_SPEC, message: message(&refusals) },
            // Quotas and rights come back without a change of the spec, and it is tried again.
            Some(Cause::Forbidden) => Self::Underway(message(&refusals)),
            Some(Cause::Webhook) => Self::Hindered { reason: reason::WEBHOOK_UNAVAILABLE, message: message(&refusals) },
            None if !acted.waiting.is_empty() => Self::Underway(acted.waiting.join("; ")),
            None => acted.workload.as_ref().map_or_else(
                || Self::Underway("the workload is being created".to_owned()),
                |workload| match rollout::shortfall(workload) {
                    None => Self::Ready,
                    Some(message) if rollout::refuses_pods(workload) => {
                        Self::Hindered { reason: reason::PODS_REFUSED, message }
                    }
                    Some(message) => Self::Underway(message),
                },
            ),
        }
    }

    /// The same of a component whose command line depends on a number of GPUs that nobody can tell.
    #[must_use]
    pub fn without_gpu_count(&self, why: &GpuCountError) -> Self {
        match self {
            Self::Stuck { .. } => self.clone(),
            _ => Self::Hindered {
                reason: reason::GPUS_UNKNOWN,
                message: format!("the GPUs of container {MAIN_CONTAINER} cannot be counted: {why}"),
            },
        }
    }

    /// The same, with the pod that tells why. A refusal to make pods at all says more than those that were made before.
    #[must_use]
    pub fn because_of(self, trouble: Option<Diagnosis>) -> Self {
        match (self, trouble) {
            (Self::Underway(message), Some(trouble)) => {
                Self::Hindered { reason: trouble.cause.reason(), message: format!("{message}; {}", trouble.message) }
            }
            (standing, _) => standing,
        }
    }
}

/// The whole status. `live` is the present one; transition times and conditions of others stay.
pub fn status(
    live: Option<&DynamoComponentDeploymentStatus>,
    facts: &Facts<'_>,
    now: Timestamp,
) -> DynamoComponentDeploymentStatus {
    let mut all = live.map(|live| live.conditions.clone()).unwrap_or_default();
    set_readiness(&mut all, facts, now);
    set_progress(&mut all, &progress(&facts.standing), facts.generation, now);
    set_pull_secrets(&mut all, facts, now);
    set_nodes_joined(&mut all, facts, now);
    DynamoComponentDeploymentStatus {
        observed_generation: facts.generation,
        conditions: all,
        component: facts.replicas.clone().map(|counts| as_known(counts, live, facts)),
    }
}

/// Until a workload's own controller has seen the latest spec, its counts are of before: they may have workers that were told
/// to go and then to stay after all. Whoever takes workers away on the word of others must not count on those, so no more are
/// said to serve than were told to, nor than were said to before.
fn as_known(
    counts: ComponentReplicaStatus,
    live: Option<&DynamoComponentDeploymentStatus>,
    facts: &Facts<'_>,
) -> ComponentReplicaStatus {
    let (Some(told), Some(before)) = (facts.untold, live.and_then(|live| live.component.as_ref())) else {
        return counts;
    };
    let least = |counted: Option<i32>, before: Option<i32>| counted.map(|n| n.min(told).min(before.unwrap_or(n)));
    ComponentReplicaStatus {
        ready_replicas: least(counts.ready_replicas, before.ready_replicas),
        available_replicas: least(counts.available_replicas, before.available_replicas),
        ..counts
    }
}

fn set_readiness(all: &mut Vec<Condition>, facts: &Facts<'_>, now: Timestamp) {
    let (ready, message) = match &facts.standing {
        Standing::Ready => (true, "all wanted pods are available"),
        Standing::Underway(message) | Standing::Hindered { message, .. } | Standing::Stuck { message, .. } => {
            (false, message.as_str())
        }
    };
    let main = match &facts.standing {
        Standing::Stuck { reason, .. } => reason,
        Standing::Underway(_) | Standing::Hindered { .. } => reason::NOT_READY,
        Standing::Ready => reason::READY,
    };
    let pick = |yes, no| if ready { yes } else { no };
    let available = match facts.kind {
        WorkloadKind::LeaderWorkerSet => pick(reason::LEADER_WORKER_SET_READY, reason::LEADER_WORKER_SET_NOT_READY),
        WorkloadKind::Deployment => pick(reason::DEPLOYMENT_READY, reason::DEPLOYMENT_NOT_READY),
    };
    for (type_, reason) in [
        (conditions::AVAILABLE, available),
        (conditions::COMPONENT_READY, pick(reason::READY, reason::NOT_READY)),
        (conditions::READY, main),
    ] {
        set_condition(all, type_, Status::from(ready), reason, message, facts.generation, now);
    }
}

fn progress(standing: &Standing) -> Progress {
    match standing {
        Standing::Ready => Progress::Current,
        Standing::Underway(message) => {
            Progress::Working { reason: reason::PROGRESSING.to_owned(), message: message.clone() }
        }
        Standing::Hindered { reason, message } => {
            Progress::Working { reason: (*reason).to_owned(), message: message.clone() }
        }
        Standing::Stuck { reason, message } => {
            Progress::Stuck { reason: (*reason).to_owned(), message: message.clone() }
        }
    }
}

/// Only there where the author names pull secrets.
fn set_pull_secrets(all: &mut Vec<Condition>, facts: &Facts<'_>, now: Timestamp) {
    let NamedPullSecrets { any, missing } = facts.pull_secrets;
    if !any {
        all.retain(|condition| condition.type_ != reason::PULL_SECRETS_FOUND);
        return;
    }
    let (reason, message) = if missing.is_empty() {
        (reason::ALL_FOUND, String::new())
    } else {
        (
            reason::SECRET_MISSING,
            format!(
                "spec.podTemplate.spec.imagePullSecrets names Secrets that do not exist in this namespace: {}; \
                 create them, or remove them from the list",
                missing.join(", ")
            ),
        )
    };
    let found = Status::from(missing.is_empty());
    set_condition(all, reason::PULL_SECRETS_FOUND, found, reason, &message, facts.generation, now);
}

/// Only there where it is false: a program may join the nodes by itself, so this stops nothing.
fn set_nodes_joined(all: &mut Vec<Condition>, facts: &Facts<'_>, now: Timestamp) {
    if facts.joins_nodes {
        all.retain(|condition| condition.type_ != reason::NODES_JOINED);
        return;
    }
    let message = format!(
        "container {MAIN_CONTAINER} starts no `python … -m dynamo.<engine>` to which the flags could be added that join the \
         nodes of a replica; a program that joins them by itself, by LWS_LEADER_ADDRESS and LWS_WORKER_INDEX, needs none"
    );
    let why = reason::ENGINE_NOT_FOUND;
    set_condition(all, reason::NODES_JOINED, Status::False, why, &message, facts.generation, now);
}

#[cfg(test)]
mod tests;

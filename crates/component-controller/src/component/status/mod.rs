//! Computes the status of a component from what was applied and what is live, never from what is desired.
//!
//! A live workload has a shortfall until all its desired replicas serve.

#[cfg(test)]
mod tests;

use api_types::{
    conditions::{self, component as reason},
    v1beta1::{ComponentKind, ComponentReplicaStatus, DynamoComponentDeploymentStatus, MAIN_CONTAINER},
};
use controller_kit::{
    conditions::{Progress, Status, set_condition, set_progress},
    failure::Class,
};
use jiff::Timestamp;
use k8s_openapi::{api::apps::v1::DeploymentCondition, apimachinery::pkg::apis::meta::v1::Condition};
use rendering::{NotReady, PodDiagnosis, WorkloadObject};

use super::model::{ComponentApplied, ComponentBlocked, ComponentObserved, NamedPullSecrets, Rejection, WorkloadKind};
use crate::component::model::LiveWorkload;

/// Everything that the status depends on.
#[derive(Clone, Debug)]
pub struct ComponentStatusInputs<'a> {
    /// Generation of the observed spec.
    pub generation: Option<i64>,
    /// Whether all desired pods serve, or what is awaited.
    pub progress: Progress,
    /// Kind of the workload.
    pub kind: WorkloadKind,
    /// Replica counts of the owned workload.
    pub replicas: Option<ComponentReplicaStatus>,
    /// Image pull secrets that the pod template names.
    pub pull_secrets: &'a NamedPullSecrets,
    /// [`Applied::joins_nodes`].
    pub joins_nodes: bool,
}

/// Condition of a Deployment whose pods the API server rejects.
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Classes of rejections, the most urgent first.
const URGENCY: [Class; 4] = [Class::Foreign, Class::Invalid, Class::Forbidden, Class::Webhook];

/// Progress of a component whose plan was applied. Rejections come first, all of them in one message.
fn progress_of(applied: &ComponentApplied) -> Progress {
    let mut rejections: Vec<&Rejection> = applied.rejections.iter().collect();
    rejections
        .sort_by_key(|rejection| URGENCY.iter().position(|class| *class == rejection.class).unwrap_or(URGENCY.len()));
    let message = rejections.iter().map(|rejection| rejection.message.as_str()).collect::<Vec<_>>().join("; ");
    match rejections.first().map(|first| first.class) {
        Some(Class::Foreign) => Progress::stuck(reason::NAME_TAKEN, message),
        Some(Class::Invalid) => Progress::stuck(reason::INVALID_SPEC, message),
        // Quotas and rights may be granted without a change of the spec, and the write is tried again.
        Some(Class::Forbidden) => Progress::working(reason::PROGRESSING, message),
        Some(Class::Webhook | Class::Transient) => Progress::working(reason::WEBHOOK_UNAVAILABLE, message),
        None if !applied.waiting.is_empty() => Progress::working(reason::PROGRESSING, applied.waiting.join("; ")),
        None => applied.workload.as_ref().map_or_else(
            || Progress::working(reason::PROGRESSING, "the workload is being created"),
            |workload| match shortfall(workload) {
                None => Progress::Current,
                Some(message) if pods_are_rejected(workload) => Progress::working(reason::PODS_REFUSED, message),
                Some(message) => Progress::working(reason::PROGRESSING, message),
            },
        ),
    }
}

/// The progress with the diagnosis of pods, unless the cause is known already.
fn with_diagnosis(progress: Progress, diagnosis: Option<&PodDiagnosis>) -> Progress {
    match (progress, diagnosis) {
        (Progress::Working { reason, message }, Some(PodDiagnosis { cause, message: found }))
            if reason == reason::PROGRESSING =>
        {
            Progress::working(cause.reason(), format!("{message}; {found}"))
        }
        (progress, _) => progress,
    }
}

impl<'a> ComponentStatusInputs<'a> {
    /// Of a component whose plan was applied.
    pub fn from_applied(observed: &'a ComponentObserved, applied: &ComponentApplied) -> Self {
        let mut progress = with_diagnosis(progress_of(applied), applied.diagnosis.as_ref());
        if let Err(why) = &observed.claimed_gpus
            && !matches!(progress, Progress::Stuck { .. })
        {
            let message = format!("the GPUs of container {MAIN_CONTAINER} cannot be counted: {why}");
            progress = Progress::working(reason::GPUS_UNKNOWN, message);
        }
        let counts = applied.workload.as_ref().map(|live| live.get().replica_status(applied.runtime_namespace.clone()));
        let before = observed.component.status.as_ref().and_then(|status| status.component.as_ref());
        Self {
            generation: observed.component.metadata.generation,
            progress,
            kind: WorkloadKind::of(&observed.component),
            replicas: counts.map(|counts| limit_unobserved(counts, applied.unobserved_replicas(), before)),
            pull_secrets: &observed.named_pull_secrets,
            joins_nodes: applied.joins_nodes,
        }
    }

    /// Of a component that cannot be planned: its live workload, and why.
    pub fn from_blocked(observed: &'a ComponentObserved, blocked: &ComponentBlocked) -> Self {
        let live = observed.component.status.as_ref();
        let known = live.and_then(|live| live.component.as_ref()?.runtime_namespace.clone());
        Self {
            generation: observed.component.metadata.generation,
            progress: Progress::stuck(blocked.reason, blocked.message.clone()),
            kind: WorkloadKind::of(&observed.component),
            replicas: observed.own_workload().map(|live| live.get().replica_status(known.unwrap_or_default())),
            pull_secrets: &observed.named_pull_secrets,
            joins_nodes: true,
        }
    }

    /// Of an object that does not have the shape of its kind: its metadata and its last status.
    pub fn from_unreadable(
        generation: Option<i64>,
        live: Option<&DynamoComponentDeploymentStatus>,
        blocked: &ComponentBlocked,
    ) -> Self {
        const NO_SECRETS: &NamedPullSecrets = &NamedPullSecrets { any: false, missing: Vec::new() };
        let counts = live.and_then(|live| live.component.as_ref());
        let kind = match counts.map(|counts| counts.component_kind) {
            Some(ComponentKind::LeaderWorkerSet) => WorkloadKind::LeaderWorkerSet,
            _ => WorkloadKind::Deployment,
        };
        Self {
            generation,
            progress: Progress::stuck(blocked.reason, blocked.message.clone()),
            kind,
            replicas: counts.cloned(),
            pull_secrets: NO_SECRETS,
            joins_nodes: true,
        }
    }
}

/// Whether pods may show why a component does not serve: it is not stalled.
pub fn needs_diagnosis(applied: &ComponentApplied) -> bool {
    matches!(progress_of(applied), Progress::Working { .. })
}

/// Computes the whole status. `live` is the present one; transition times and conditions of others stay.
pub fn status(
    live: Option<&DynamoComponentDeploymentStatus>,
    inputs: &ComponentStatusInputs<'_>,
    now: Timestamp,
) -> DynamoComponentDeploymentStatus {
    let mut all = live.map(|live| live.conditions.clone()).unwrap_or_default();
    set_readiness(&mut all, inputs, now);
    set_progress(&mut all, &inputs.progress, inputs.generation, now);
    set_pull_secrets(&mut all, inputs, now);
    set_nodes_joined(&mut all, inputs, now);
    DynamoComponentDeploymentStatus {
        observed_generation: inputs.generation,
        conditions: all,
        component: inputs.replicas.clone(),
    }
}

/// Until the controller of a workload has observed the latest spec, its counts are of the spec before: they may include
/// workers that were removed and then kept after all. A rollout must not remove others because of them, so at most the
/// desired replicas are reported as serving, and at most those of the last status. `unobserved` is
/// [`ComponentApplied::unobserved_replicas`].
fn limit_unobserved(
    counts: ComponentReplicaStatus,
    unobserved: Option<i32>,
    before: Option<&ComponentReplicaStatus>,
) -> ComponentReplicaStatus {
    let (Some(desired), Some(before)) = (unobserved, before) else { return counts };
    let least = |counted: Option<i32>, before: Option<i32>| counted.map(|n| n.min(desired).min(before.unwrap_or(n)));
    ComponentReplicaStatus {
        ready_replicas: least(counts.ready_replicas, before.ready_replicas),
        available_replicas: least(counts.available_replicas, before.available_replicas),
        ..counts
    }
}

fn set_readiness(all: &mut Vec<Condition>, inputs: &ComponentStatusInputs<'_>, now: Timestamp) {
    let (ready, main, message) = match &inputs.progress {
        Progress::Current => (true, reason::READY, "all desired pods are available"),
        Progress::Working { message, .. } => (false, reason::NOT_READY, message.as_str()),
        Progress::Stuck { reason, message } => (false, reason.as_str(), message.as_str()),
    };
    let pick = |yes, no| if ready { yes } else { no };
    let available = match inputs.kind {
        WorkloadKind::LeaderWorkerSet => pick(reason::LEADER_WORKER_SET_READY, reason::LEADER_WORKER_SET_NOT_READY),
        WorkloadKind::Deployment => pick(reason::DEPLOYMENT_READY, reason::DEPLOYMENT_NOT_READY),
    };
    for (type_, reason) in [
        (conditions::AVAILABLE, available),
        (conditions::COMPONENT_READY, pick(reason::READY, reason::NOT_READY)),
        (conditions::READY, main),
    ] {
        set_condition(all, type_, Status::from(ready), reason, message, inputs.generation, now);
    }
}

/// The condition exists only if the pod template names pull secrets.
fn set_pull_secrets(all: &mut Vec<Condition>, inputs: &ComponentStatusInputs<'_>, now: Timestamp) {
    let NamedPullSecrets { any, missing } = inputs.pull_secrets;
    if !any {
        all.retain(|condition| condition.type_ != reason::PULL_SECRETS_FOUND);
        return;
    }
    let found = missing.is_empty();
    let lacking = format!(
        "spec.podTemplate.spec.imagePullSecrets names Secrets that do not exist in this namespace: {}; \
         create them, or remove them from the list",
        missing.join(", ")
    );
    let (reason, message) = if found { (reason::ALL_FOUND, "") } else { (reason::SECRET_MISSING, lacking.as_str()) };
    set_condition(all, reason::PULL_SECRETS_FOUND, Status::from(found), reason, message, inputs.generation, now);
}

/// The condition exists only if it is false. It blocks nothing: a program may join the nodes by itself.
fn set_nodes_joined(all: &mut Vec<Condition>, inputs: &ComponentStatusInputs<'_>, now: Timestamp) {
    if inputs.joins_nodes {
        all.retain(|condition| condition.type_ != reason::NODES_JOINED);
        return;
    }
    let message = format!(
        "container {MAIN_CONTAINER} starts no `python … -m dynamo.<engine>` to which the flags could be added that join the \
         nodes of a replica; a program that joins them by itself, by LWS_LEADER_ADDRESS and LWS_WORKER_INDEX, needs none"
    );
    let why = reason::ENGINE_NOT_FOUND;
    set_condition(all, reason::NODES_JOINED, Status::False, why, &message, inputs.generation, now);
}

/// Describes what is missing until all desired replicas serve; `None` if nothing is missing.
///
/// Failed conditions of a Deployment (a quota, an admission policy, the progress deadline) are included: they show the
/// cause of missing pods.
fn shortfall(live: &LiveWorkload) -> Option<String> {
    let workload = live.get();
    let reason = workload.why_not_ready()?;
    let name = workload.object_meta().name.as_deref().unwrap_or_default();
    let counted = workload.replica_status(String::new());
    let what = match reason {
        NotReady::Updating { .. } | NotReady::Unavailable { .. } => counts(workload, &counted),
        // Of a new workload, the same message until its first pod exists, so that it is written only once.
        NotReady::NotObserved if workload.observed_generation().unwrap_or_default() == 0 => counts(workload, &counted),
        other => other.to_string(),
    };
    let mut text = format!("{} {name}: {what}", counted.component_kind.as_str());
    for failure in failures(live) {
        let reason = failure.reason.as_deref().unwrap_or(&failure.type_);
        text = format!("{text}; {reason}: {}", failure.message.as_deref().unwrap_or_default());
    }
    Some(text)
}

fn counts(workload: &dyn WorkloadObject, counted: &ComponentReplicaStatus) -> String {
    let serving = counted.available_replicas.or(counted.ready_replicas).unwrap_or_default();
    let unit = match counted.component_kind {
        ComponentKind::LeaderWorkerSet => "groups of pods are ready",
        _ => "pods are available",
    };
    let (desired, updated) = (workload.desired_replicas(), counted.updated_replicas);
    format!("{serving} of {desired} desired {unit}, {updated} have the latest template")
}

/// Whether the API server rejects pods of a workload.
fn pods_are_rejected(live: &LiveWorkload) -> bool {
    failures(live).any(|condition| condition.type_ == REPLICA_FAILURE)
}

/// Failed conditions of a Deployment.
fn failures(live: &LiveWorkload) -> impl Iterator<Item = &DeploymentCondition> {
    let status = match live {
        LiveWorkload::Deployment(deployment) => deployment.status.as_ref(),
        LiveWorkload::LeaderWorkerSet(_) => None,
    };
    let all = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
    all.filter(|condition| {
        let (type_, status) = (condition.type_.as_str(), condition.status.as_str());
        matches!((type_, status), (REPLICA_FAILURE, "True") | ("Progressing", "False"))
    })
}

//! The status of a checkpoint: computed from what was done, never from what was wished.

use api_types::{
    conditions::{self, checkpoint as reason},
    names,
    v1alpha1::{CheckpointPhase, DynamoCheckpointStatus},
};
use controller_kit::conditions::{Progress, Status, set_condition, set_progress};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use workload::checkpoint::artifact_version;

use super::{apply::Acted, decide::Stage, observe::Observed};

/// The whole status.
pub fn status(observed: &Observed, acted: &Acted, now: Timestamp) -> DynamoCheckpointStatus {
    let live = observed.checkpoint.status.clone().unwrap_or_default();
    let phase = phase(&acted.stage, &live);
    let wanted = names::checkpoint_job(&observed.id, artifact_version(&observed.checkpoint));
    let begun = live.job_name.as_ref() == Some(&wanted) || observed.job.is_some();
    let job_name = match &acted.stage {
        Stage::Capturing { .. } | Stage::Ready(_) => Some(wanted),
        Stage::Settled => live.job_name.clone(),
        // Its turn comes when the elder is gone.
        Stage::Failed { reason: reason::DUPLICATE, .. } => None,
        Stage::Failed { .. } => Some(wanted).filter(|_| begun),
        Stage::Blocked { .. } | Stage::Waiting(_) | Stage::Mistaken { .. } => None,
    };
    let made = |kind: &str| acted.made.iter().any(|object| object.kind == kind);
    let captured = observed.capture.as_ref().is_some_and(|capture| observed.is_ours(capture)) || made("PodSnapshot");
    let mut all = live.conditions.clone();
    set_conditions(&mut all, observed, &acted.stage, phase, job_name.as_deref(), now);
    DynamoCheckpointStatus {
        observed_generation: observed.checkpoint.metadata.generation,
        phase: Some(phase),
        checkpoint_id: Some(observed.id.clone()),
        identity_hash: Some(observed.id.clone()),
        pod_snapshot_name: observed.checkpoint.metadata.name.clone().filter(|_| captured && job_name.is_some()),
        job_name,
        created_at: match (&acted.stage, phase) {
            (Stage::Ready(_), _) => Some(Time(whole_seconds(now))),
            (_, CheckpointPhase::Ready) => live.created_at.clone(),
            _ => None,
        },
        message: message(&acted.stage, &live),
        conditions: all,
        ..live
    }
}

fn whole_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

fn phase(stage: &Stage, live: &DynamoCheckpointStatus) -> CheckpointPhase {
    match stage {
        Stage::Blocked { .. } | Stage::Waiting(_) => CheckpointPhase::Pending,
        Stage::Mistaken { .. } | Stage::Failed { .. } => CheckpointPhase::Failed,
        Stage::Capturing { .. } => CheckpointPhase::Creating,
        Stage::Ready(_) => CheckpointPhase::Ready,
        Stage::Settled => live.phase.unwrap_or(CheckpointPhase::Pending),
    }
}

fn message(stage: &Stage, live: &DynamoCheckpointStatus) -> Option<String> {
    match stage {
        Stage::Blocked { message, .. } | Stage::Mistaken { message, .. } | Stage::Failed { message, .. } => {
            Some(message.clone())
        }
        Stage::Waiting(waits) | Stage::Capturing { waits, stalled: Some(_) } => Some(waits.clone()),
        Stage::Capturing { stalled: None, .. } | Stage::Ready(_) => None,
        Stage::Settled => live.message.clone(),
    }
}

fn set_conditions(
    all: &mut Vec<Condition>,
    observed: &Observed,
    stage: &Stage,
    phase: CheckpointPhase,
    job: Option<&str>,
    now: Timestamp,
) {
    let generation = observed.checkpoint.metadata.generation;
    if !matches!(stage, Stage::Settled | Stage::Ready(_) | Stage::Failed { .. }) {
        // What was said of an earlier version does not hold for this one.
        all.retain(|condition| condition.type_ != reason::JOB_COMPLETED);
    }
    let mut set = |type_, value: bool, reason: &str, message: &str| {
        set_condition(all, type_, Status::from(value), reason, message, generation, now);
    };
    match stage {
        Stage::Capturing { .. } => {
            let created = format!("Checkpoint job {} created", job.unwrap_or_default());
            set(reason::JOB_CREATED, true, reason::CREATED, &created);
        }
        Stage::Mistaken { reason, message } => set(reason::JOB_CREATED, false, reason, message),
        Stage::Failed { reason: reason::JOB_DELETED, message } => {
            set(reason::JOB_CREATED, false, reason::JOB_DELETED, message);
        }
        Stage::Failed { reason, message } => set(reason::JOB_COMPLETED, false, reason, message),
        Stage::Ready(message) => set(reason::JOB_COMPLETED, true, reason::CAPTURED, message),
        Stage::Blocked { .. } | Stage::Waiting(_) | Stage::Settled => {}
    }
    let progress = progress(stage, phase, observed);
    let (ready, why, message) = match &progress {
        Progress::Current => (true, reason::CAPTURED, ""),
        Progress::Working { message, .. } => (false, reason::CAPTURING, message.as_str()),
        Progress::Stuck { reason, message } => (false, reason.as_str(), message.as_str()),
    };
    set(conditions::READY, ready, why, message);
    set_progress(all, &progress, generation, now);
}

fn progress(stage: &Stage, phase: CheckpointPhase, observed: &Observed) -> Progress {
    let stuck =
        |reason: &str, message: &str| Progress::Stuck { reason: reason.to_owned(), message: message.to_owned() };
    let working = |waits: &str| Progress::Working { reason: reason::CAPTURING.to_owned(), message: waits.to_owned() };
    match stage {
        Stage::Blocked { reason, message } => stuck(reason, message),
        Stage::Mistaken { message, .. } => stuck(reason::INVALID_SPEC, message),
        Stage::Failed { message, .. } => stuck(reason::FAILED, message),
        Stage::Waiting(waits) | Stage::Capturing { waits, stalled: None } => working(waits),
        Stage::Capturing { waits, stalled: Some(reason) } => stuck(reason, waits),
        Stage::Ready(_) => Progress::Current,
        Stage::Settled if phase == CheckpointPhase::Ready => Progress::Current,
        Stage::Settled => {
            let live = observed.checkpoint.status.as_ref();
            stuck(reason::FAILED, live.and_then(|live| live.message.as_deref()).unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests;

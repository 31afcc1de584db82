//! Computes the status of a checkpoint from what was applied, never from what is desired.

use api_types::{
    conditions::{self, checkpoint as reason},
    names,
    v1alpha1::{CheckpointPhase, DynamoCheckpointStatus},
};
use controller_kit::{
    conditions::{Progress, Status, set_condition, set_progress},
    store::is_controlled_by,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use rendering::checkpoint::artifact_version;

use super::model::{CapturePhase, CheckpointApplied, CheckpointObserved};

/// Computes the whole status.
pub fn status(observed: &CheckpointObserved, applied: &CheckpointApplied, now: Timestamp) -> DynamoCheckpointStatus {
    let live = observed.checkpoint.status.clone().unwrap_or_default();
    let summary = summary(&applied.phase, &live);
    let expected = names::checkpoint_job(&observed.id, artifact_version(&observed.checkpoint));
    let begun = live.job_name.as_ref() == Some(&expected) || observed.job.is_some();
    let job_name = match &applied.phase {
        CapturePhase::Capturing { .. } | CapturePhase::Ready(_) => Some(expected),
        CapturePhase::Settled => live.job_name.clone(),
        // The capture starts when the elder is deleted.
        CapturePhase::Failed { reason: reason::DUPLICATE, .. } => None,
        CapturePhase::Failed { .. } => Some(expected).filter(|_| begun),
        CapturePhase::Blocked { .. } | CapturePhase::Waiting(_) | CapturePhase::Invalid { .. } => None,
    };
    let created = |kind: &str| applied.created.iter().any(|object| object.kind == kind);
    let captured = observed.capture.as_ref().is_some_and(|capture| is_controlled_by(capture, &observed.uid))
        || created("PodSnapshot");
    let progress = progress(&applied.phase, summary, &live);
    let generation = observed.checkpoint.metadata.generation;
    let mut all = live.conditions.clone();
    set_conditions(&mut all, &applied.phase, &progress, job_name.as_deref(), generation, now);
    DynamoCheckpointStatus {
        observed_generation: generation,
        phase: Some(summary),
        checkpoint_id: Some(observed.id.clone()),
        identity_hash: Some(observed.id.clone()),
        pod_snapshot_name: observed.checkpoint.metadata.name.clone().filter(|_| captured && job_name.is_some()),
        job_name,
        created_at: match (&applied.phase, summary) {
            (CapturePhase::Ready(_), _) => Some(Time(whole_seconds(now))),
            (_, CheckpointPhase::Ready) => live.created_at.clone(),
            _ => None,
        },
        message: match (&applied.phase, progress) {
            (CapturePhase::Settled, _) => live.message.clone(),
            (CapturePhase::Waiting(message), _) => Some(message.clone()),
            (_, Progress::Stuck { message, .. }) => Some(message),
            (_, Progress::Current | Progress::Working { .. }) => None,
        },
        conditions: all,
        ..live
    }
}

/// The status of a checkpoint that cannot be read: as it was, and why nothing goes on.
pub fn of_unreadable(
    before: DynamoCheckpointStatus,
    generation: Option<i64>,
    message: &str,
    now: Timestamp,
) -> DynamoCheckpointStatus {
    let mut status = before;
    status.observed_generation = generation;
    status.message = Some(message.to_owned());
    let stuck = Progress::stuck(reason::INVALID_SPEC, message);
    set_progress(&mut status.conditions, &stuck, generation, now);
    status
}

fn whole_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

fn summary(phase: &CapturePhase, live: &DynamoCheckpointStatus) -> CheckpointPhase {
    match phase {
        CapturePhase::Blocked { .. } | CapturePhase::Waiting(_) => CheckpointPhase::Pending,
        CapturePhase::Invalid { .. } | CapturePhase::Failed { .. } => CheckpointPhase::Failed,
        CapturePhase::Capturing { .. } => CheckpointPhase::Creating,
        CapturePhase::Ready(_) => CheckpointPhase::Ready,
        CapturePhase::Settled => live.phase.unwrap_or(CheckpointPhase::Pending),
    }
}

fn set_conditions(
    all: &mut Vec<Condition>,
    phase: &CapturePhase,
    progress: &Progress,
    job: Option<&str>,
    generation: Option<i64>,
    now: Timestamp,
) {
    if !matches!(phase, CapturePhase::Settled | CapturePhase::Ready(_) | CapturePhase::Failed { .. }) {
        // The condition is of an earlier version.
        all.retain(|condition| condition.type_ != reason::JOB_COMPLETED);
    }
    let mut set = |type_, value: bool, reason: &str, message: &str| {
        set_condition(all, type_, Status::from(value), reason, message, generation, now);
    };
    match phase {
        CapturePhase::Capturing { .. } => {
            let created = format!("Checkpoint job {} created", job.unwrap_or_default());
            set(reason::JOB_CREATED, true, reason::CREATED, &created);
        }
        CapturePhase::Invalid { reason, message } => set(reason::JOB_CREATED, false, reason, message),
        CapturePhase::Failed { reason: reason::JOB_DELETED, message } => {
            set(reason::JOB_CREATED, false, reason::JOB_DELETED, message);
        }
        CapturePhase::Failed { reason, message } => set(reason::JOB_COMPLETED, false, reason, message),
        CapturePhase::Ready(message) => set(reason::JOB_COMPLETED, true, reason::CAPTURED, message),
        CapturePhase::Blocked { .. } | CapturePhase::Waiting(_) | CapturePhase::Settled => {}
    }
    let (ready, why, message) = match progress {
        Progress::Current => (true, reason::CAPTURED, ""),
        Progress::Working { message, .. } => (false, reason::CAPTURING, message.as_str()),
        Progress::Stuck { reason, message } => (false, reason.as_str(), message.as_str()),
    };
    set(conditions::READY, ready, why, message);
    set_progress(all, progress, generation, now);
}

fn progress(phase: &CapturePhase, summary: CheckpointPhase, live: &DynamoCheckpointStatus) -> Progress {
    match phase {
        CapturePhase::Blocked { reason, message } => Progress::stuck(reason, message),
        CapturePhase::Invalid { message, .. } => Progress::stuck(reason::INVALID_SPEC, message),
        CapturePhase::Failed { message, .. } => Progress::stuck(reason::FAILED, message),
        CapturePhase::Waiting(waits) | CapturePhase::Capturing { waits, stalled: None } => {
            Progress::working(reason::CAPTURING, waits)
        }
        CapturePhase::Capturing { waits, stalled: Some(reason) } => Progress::stuck(reason, waits),
        CapturePhase::Ready(_) => Progress::Current,
        CapturePhase::Settled if summary == CheckpointPhase::Ready => Progress::Current,
        CapturePhase::Settled => Progress::stuck(reason::FAILED, live.message.as_deref().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests;

//! Plans a checkpoint. Pure: no I/O, no clock.
//!
//! ```text
//!            Job made            PodSnapshot made, captured, Job complete
//! Pending ──────────────► Creating ──────────────────────────────────────► Ready
//!    ▲                       │ Job or capture failed, or the Job was deleted
//!    └── another version ◄── Failed
//! ```
//!
//! The status is the memory of `Ready` and `Failed`: their Jobs are deleted.

pub mod cleanup;

use api_types::{
    annotations,
    conditions::checkpoint as reason,
    external::{CapturedPod, PodSnapshot, PodSnapshotSource, PodSnapshotSpec},
    labels, names, owner,
    v1alpha1::{CheckpointPhase, DynamoCheckpoint, DynamoCheckpointStatus},
};
use controller_kit::{conditions::find, store::is_controlled_by};
use k8s_openapi::{api::batch::v1::Job, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use rendering::{JobEnd, PodDiagnosis, checkpoint::artifact_version};

use super::{
    model::{CapturePhase, CheckpointObserved, CheckpointPlan, POD},
    validate::{SWITCHED_OFF, ValidatedCheckpoint, validate},
};

/// Awaited before the PodSnapshot.
const OTHER_CAPTURE: &str = "waiting for the capture of another version to go";
/// Awaited after the PodSnapshot.
const CAPTURED: &str = "waiting for the processes to be captured";

/// Plans the children of a checkpoint that is not being deleted.
pub fn plan(observed: &CheckpointObserved) -> CheckpointPlan {
    let status = observed.checkpoint.status.as_ref();
    let job_name = names::checkpoint_job(&observed.id, artifact_version(&observed.checkpoint));
    let begun = status.is_some_and(|status| status.job_name.as_ref() == Some(&job_name) && !is_duplicate(status));
    let phase = status.and_then(|status| status.phase).filter(|_| begun).unwrap_or(CheckpointPhase::Pending);
    match (phase, &observed.job) {
        (CheckpointPhase::Ready, _) => settled(observed, is_recorded_as_captured(observed)),
        (CheckpointPhase::Failed, _) => settled(observed, true),
        _ if observed.elder.is_some() => {
            let elder = observed.elder.as_deref().unwrap_or_default();
            let message = format!("checkpoint ID {} is already owned by {elder}", observed.id);
            fail(observed, reason::DUPLICATE, message)
        }
        // The Job of a failed capture is being deleted.
        (CheckpointPhase::Pending, Some(job)) if job.metadata.deletion_timestamp.is_some() => {
            plan_at(observed, CapturePhase::Waiting("waiting for an earlier Job to go".to_owned()))
        }
        (_, Some(job)) => capture(observed, job),
        (CheckpointPhase::Creating, None) => without_job(observed),
        (CheckpointPhase::Pending, None) => begin(observed),
    }
}

/// Whether it failed because of an older checkpoint of the same identifier. The status may still name a Job, if it is
/// of another operator.
fn is_duplicate(status: &DynamoCheckpointStatus) -> bool {
    status.phase == Some(CheckpointPhase::Failed) && completed(status, "False", reason::DUPLICATE)
}

/// Older operators did not record how a checkpoint became ready, and kept its Job.
fn is_recorded_as_captured(observed: &CheckpointObserved) -> bool {
    observed.checkpoint.status.as_ref().is_some_and(|status| completed(status, "True", reason::CAPTURED))
}

/// Whether the condition `JobCompleted` has this status and reason.
fn completed(status: &DynamoCheckpointStatus, value: &str, reason: &str) -> bool {
    let condition = find(&status.conditions, reason::JOB_COMPLETED);
    condition.is_some_and(|condition| condition.status == value && condition.reason == reason)
}

/// Every pass over a recorded end deletes the Job, if it still exists.
fn settled(observed: &CheckpointObserved, job_may_go: bool) -> CheckpointPlan {
    let jobs = observed.job.iter().filter(|_| job_may_go).chain(&observed.other_jobs);
    CheckpointPlan { delete_jobs: not_deleted(jobs), phase: CapturePhase::Settled, ..CheckpointPlan::default() }
}

/// The Job shows the reason, so it is deleted only when the status is stored. The status of a duplicate names no Job,
/// and its elder shows the reason: its Job is deleted at once.
fn fail(observed: &CheckpointObserved, reason: &'static str, message: String) -> CheckpointPlan {
    let now = observed.job.iter().filter(|_| reason == reason::DUPLICATE);
    let jobs = not_deleted(now.chain(&observed.other_jobs));
    CheckpointPlan { delete_jobs: jobs, phase: CapturePhase::Failed { reason, message }, ..CheckpointPlan::default() }
}

/// The Jobs that are not being deleted.
pub fn not_deleted<'a>(jobs: impl Iterator<Item = &'a Job>) -> Vec<Job> {
    jobs.filter(|job| job.metadata.deletion_timestamp.is_none()).cloned().collect()
}

/// Nothing but the deletion of Jobs of other versions.
fn plan_at(observed: &CheckpointObserved, phase: CapturePhase) -> CheckpointPlan {
    CheckpointPlan { delete_jobs: not_deleted(observed.other_jobs.iter()), phase, ..CheckpointPlan::default() }
}

/// Plans the Job, once everything exists that its pod needs, and nothing is left that would delay its capture.
fn begin(observed: &CheckpointObserved) -> CheckpointPlan {
    let at = |phase| plan_at(observed, phase);
    let ours = observed.capture.as_ref().filter(|capture| is_controlled_by(*capture, &observed.uid));
    if let Some(capture) = ours.filter(|capture| is_of_other_version(observed, capture)) {
        let phase = CapturePhase::Waiting(OTHER_CAPTURE.to_owned());
        return CheckpointPlan { delete_capture: not_yet_deleted(capture), ..at(phase) };
    }
    match validate(observed) {
        Err(phase) => at(phase),
        Ok(ValidatedCheckpoint { missing_volume, capture_job }) => {
            let waits = POD.to_owned();
            let create_job = Some(Job { metadata: owned(capture_job.metadata, observed), ..capture_job });
            let capturing = at(CapturePhase::Capturing { waits, stalled: None });
            CheckpointPlan { create_volume: missing_volume, create_job, ..capturing }
        }
    }
}

/// Plans the capture of the Job's pod. Capture and Job both have to succeed.
fn capture(observed: &CheckpointObserved, job: &Job) -> CheckpointPlan {
    let at = |phase| plan_at(observed, phase);
    let wait = |waits: &str| at(CapturePhase::Capturing { waits: waits.to_owned(), stalled: None });
    if observed.config.is_none() {
        return at(CapturePhase::Capturing { waits: SWITCHED_OFF.to_owned(), stalled: Some(reason::DISABLED) });
    }
    let capture = match &observed.capture {
        Some(capture) if !is_controlled_by(capture, &observed.uid) => {
            let name = observed.checkpoint.metadata.name.as_deref().unwrap_or_default();
            let message = format!("PodSnapshot {}/{name} has another owner", observed.namespace);
            return fail(observed, reason::CAPTURE_NAME_TAKEN, message);
        }
        Some(capture) if is_of_other_version(observed, capture) => {
            return CheckpointPlan { delete_capture: not_yet_deleted(capture), ..wait(OTHER_CAPTURE) };
        }
        found => found.as_ref(),
    };
    if let Some(message) = capture.and_then(|capture| message_of(capture, "Failed")) {
        return fail(observed, reason::CAPTURE_FAILED, message);
    }
    if let Some(failed) = JobEnd::Failed.of(job) {
        let message = match failed.message.as_deref().unwrap_or_default() {
            "" => "checkpoint job failed".to_owned(),
            message => format!("checkpoint job failed: {message}"),
        };
        return fail(observed, reason::JOB_FAILED, message);
    }
    let Some(capture) = capture else {
        // Pods that have ended are not observed. The phase stays, as with the upstream operator.
        if observed.pod.is_none() && JobEnd::Complete.of(job).is_some() {
            let waits =
                "checkpoint job ended before its processes were captured; delete the DynamoCheckpoint".to_owned();
            return at(CapturePhase::Capturing { waits, stalled: Some(reason::FAILED) });
        }
        return request_capture(observed);
    };
    let Some(message) = captured(capture) else { return at(waiting_for(observed, CAPTURED)) };
    if JobEnd::Complete.of(job).is_none() {
        return wait("the processes are captured; waiting for the Job to end");
    }
    // The Job is deleted once the status is stored: without both, a complete checkpoint would count as one without its
    // Job.
    at(CapturePhase::Ready(message))
}

fn request_capture(observed: &CheckpointObserved) -> CheckpointPlan {
    let at = |phase| plan_at(observed, phase);
    let Some(pod) = &observed.pod else { return at(waiting_for(observed, POD)) };
    if !observed.serves_captures {
        let waits = "the cluster does not serve PodSnapshots of nvidia.com; install the snapshot operator".to_owned();
        return at(CapturePhase::Capturing { waits, stalled: Some(reason::API_MISSING) });
    }
    CheckpointPlan { create_capture: Some(render_capture(observed, pod)), ..at(waiting_for(observed, CAPTURED)) }
}

/// Returns the phase of a wait, with the diagnosis of the Job's pod.
fn waiting_for(observed: &CheckpointObserved, what: &str) -> CapturePhase {
    match &observed.waits.trouble {
        None => CapturePhase::Capturing { waits: what.to_owned(), stalled: None },
        Some(PodDiagnosis { cause, message }) => CapturePhase::Capturing {
            waits: format!("{what}: {message}"),
            stalled: cause.needs_action().then(|| cause.reason()),
        },
    }
}

fn render_capture(observed: &CheckpointObserved, pod: &ObjectMeta) -> PodSnapshot {
    let checkpoint = &observed.checkpoint;
    let name = checkpoint.metadata.name.clone().unwrap_or_default();
    let labels = [(labels::SNAPSHOT_OWNER, name.clone()), (labels::CHECKPOINT_ID, observed.id.clone())];
    let version = (annotations::ARTIFACT_VERSION.to_owned(), artifact_version(checkpoint).to_owned());
    let metadata = ObjectMeta {
        name: Some(name),
        namespace: Some(observed.namespace.clone()),
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value)).into()),
        annotations: Some([version].into()),
        ..ObjectMeta::default()
    };
    let pod_ref = CapturedPod {
        name: pod.name.clone().unwrap_or_default(),
        uid: pod.uid.clone().unwrap_or_default(),
        containers: vec![checkpoint.spec.job.target_container().to_owned()],
    };
    PodSnapshot {
        metadata: owned(metadata, observed),
        spec: PodSnapshotSpec { source: PodSnapshotSource { pod_ref } },
        status: None,
    }
}

/// Whether a capture is of another pod than the present Job's. A capture of the upstream operator has no version.
fn is_of_other_version(observed: &CheckpointObserved, capture: &PodSnapshot) -> bool {
    let version = capture.metadata.annotations.as_ref().and_then(|all| all.get(annotations::ARTIFACT_VERSION));
    let other_version = version.is_some_and(|version| version != artifact_version(&observed.checkpoint));
    let uid = Some(&capture.spec.source.pod_ref.uid).filter(|uid| !uid.is_empty());
    let pod = observed.pod.as_ref().and_then(|pod| pod.uid.as_ref());
    other_version || uid.zip(pod).is_some_and(|(captured, present)| captured != present)
}

fn not_yet_deleted(capture: &PodSnapshot) -> Option<PodSnapshot> {
    Some(capture.clone()).filter(|capture| capture.metadata.deletion_timestamp.is_none())
}

/// The message of a true condition.
fn message_of(capture: &PodSnapshot, type_: &str) -> Option<String> {
    let found = find(&capture.status.as_ref()?.conditions, type_);
    found.filter(|found| found.status == "True").map(|found| found.message.clone())
}

/// The message of a complete capture.
fn captured(capture: &PodSnapshot) -> Option<String> {
    let bound = capture.status.as_ref().and_then(|status| status.bound_snapshot_content_name.as_ref());
    bound.and_then(|_| message_of(capture, "Ready"))
}

/// Plans for a deleted Job. A capture without the end of its Job may be incomplete.
fn without_job(observed: &CheckpointObserved) -> CheckpointPlan {
    let capture = observed.capture.as_ref().filter(|capture| is_controlled_by(*capture, &observed.uid));
    let Some(capture) = capture.filter(|capture| !is_of_other_version(observed, capture)) else {
        return fail(observed, reason::JOB_DELETED, "checkpoint job was deleted".to_owned());
    };
    if let Some(message) = message_of(capture, "Failed") {
        return fail(observed, reason::CAPTURE_FAILED, message);
    }
    let message = "checkpoint job was deleted before its end was seen".to_owned();
    fail(observed, reason::JOB_DELETED_EARLY, message)
}

fn owned(metadata: ObjectMeta, observed: &CheckpointObserved) -> ObjectMeta {
    let name = observed.checkpoint.metadata.name.as_deref().unwrap_or_default();
    let owner = owner::controller::<DynamoCheckpoint>(name, &observed.uid);
    ObjectMeta { owner_references: Some(vec![owner]), ..metadata }
}

#[cfg(test)]
mod tests;

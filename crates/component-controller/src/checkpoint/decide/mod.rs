//! What becomes of a checkpoint, from one snapshot. Pure: no I/O, no clock.
//!
//! ```text
//!            Job made            PodSnapshot made, captured, Job complete
//! Pending ──────────────► Creating ──────────────────────────────────────► Ready
//!    ▲                       │ Job or capture failed, or somebody deleted the Job
//!    └── another version ◄── Failed
//! ```
//!
//! `Ready` and `Failed` with a Job's name are memory: what they were told from is gone by then.

use std::collections::BTreeMap;

use api_types::{
    annotations,
    conditions::checkpoint as reason,
    external::{CapturedPod, PodSnapshot, PodSnapshotSource, PodSnapshotSpec},
    labels, names, owner,
    v1alpha1::{CheckpointPhase, DynamoCheckpoint, DynamoCheckpointStatus},
};
use k8s_openapi::{
    api::{batch::v1::Job, core::v1::PersistentVolumeClaim},
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta},
};
use workload::{
    Diagnosis, JobEnd, Violation,
    checkpoint::{
        CaptureSettings, artifact_version, check_shared_gpu_memory, render_capture_job, render_storage_claim,
    },
};

use super::observe::Observed;
use crate::snapshots::StorageLocation;

/// What is waited for first.
pub(super) const POD: &str = "waiting for the pod of the Job";
/// What is waited for then.
const CAPTURED: &str = "waiting for the processes to be captured";

/// What shall be done, in the order of the fields.
#[derive(Debug, Default, PartialEq)]
pub struct Decision {
    /// The claim that keeps checkpoints, if it is missing and to be made.
    pub make_claim: Option<PersistentVolumeClaim>,
    /// The Job whose pod is captured.
    pub make_job: Option<Job>,
    /// The request to capture it.
    pub make_capture: Option<PodSnapshot>,
    /// A capture of another version.
    pub delete_capture: Option<PodSnapshot>,
    /// Jobs that have done their work.
    pub delete_jobs: Vec<Job>,
    /// Where the checkpoint stands after this.
    pub stage: Stage,
}

/// Where a checkpoint stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Not begun: somebody has to change something outside the checkpoint.
    Blocked {
        /// Reason of `Stalled`.
        reason: &'static str,
        /// What, and how.
        message: String,
    },
    /// Not begun: something is on its way.
    Waiting(String),
    /// The spec has mistakes.
    Mistaken {
        /// Reason of `JobCreated`.
        reason: &'static str,
        /// All of them.
        message: String,
    },
    /// The Job is there, or being made.
    Capturing {
        /// What is waited for.
        waits: String,
        /// Reason of `Stalled`, if somebody has to change something.
        stalled: Option<&'static str>,
    },
    /// It stays as it was told before: ready or given up.
    #[default]
    Settled,
    /// Everything is captured and kept.
    Ready(String),
    /// Given up.
    Failed {
        /// Reason of `JobCompleted`, or of `JobCreated` if the Job was deleted.
        reason: &'static str,
        /// Why.
        message: String,
    },
}

/// Decides on a checkpoint that is not being deleted.
pub fn decide(observed: &Observed) -> Decision {
    let status = observed.checkpoint.status.as_ref();
    let wanted = names::checkpoint_job(&observed.id, artifact_version(&observed.checkpoint));
    let begun = status.is_some_and(|status| status.job_name.as_ref() == Some(&wanted) && !gave_way(status));
    let phase = status.and_then(|status| status.phase).filter(|_| begun).unwrap_or(CheckpointPhase::Pending);
    match (phase, &observed.job) {
        (CheckpointPhase::Ready, _) => settled(observed, ended_well(observed)),
        (CheckpointPhase::Failed, _) => settled(observed, true),
        _ if observed.elder.is_some() => {
            let elder = observed.elder.as_deref().unwrap_or_default();
            let message = format!("checkpoint ID {} is already owned by {elder}", observed.id);
            give_up(observed, reason::DUPLICATE, message)
        }
        // It was given up.
        (CheckpointPhase::Pending, Some(job)) if job.metadata.deletion_timestamp.is_some() => {
            let stage = Stage::Waiting("waiting for an earlier Job to go".to_owned());
            Decision { delete_jobs: living(observed.other_jobs.iter()), stage, ..Decision::default() }
        }
        (_, Some(job)) => capture(observed, job),
        (CheckpointPhase::Creating, None) => job_is_gone(observed),
        (CheckpointPhase::Pending, None) => begin(observed),
    }
}

/// Whether it failed for an older checkpoint of the same identifier. Such a status may still name a Job, where an operator wrote
/// it that never looked again.
fn gave_way(status: &DynamoCheckpointStatus) -> bool {
    let is_duplicate = |condition: &Condition| {
        condition.type_ == reason::JOB_COMPLETED && condition.reason == reason::DUPLICATE && condition.status == "False"
    };
    status.phase == Some(CheckpointPhase::Failed) && status.conditions.iter().any(is_duplicate)
}

/// Before operators told how a checkpoint became ready, its Job was kept.
fn ended_well(observed: &Observed) -> bool {
    let conditions = observed.checkpoint.status.as_ref().map(|status| status.conditions.as_slice());
    let completed = conditions.unwrap_or_default().iter().find(|condition| condition.type_ == reason::JOB_COMPLETED);
    completed.is_some_and(|condition| condition.status == "True" && condition.reason == reason::CAPTURED)
}

/// Every pass over a stored end deletes the Job, if it is still there: the one that the write wakes, or the first of another process.
fn settled(observed: &Observed, job_may_go: bool) -> Decision {
    let jobs = observed.job.iter().filter(|_| job_may_go).chain(&observed.other_jobs);
    Decision { delete_jobs: living(jobs), stage: Stage::Settled, ..Decision::default() }
}

/// The Job is what the reason was told from: it goes once that is stored, or a status that is lost would take the reason with it.
/// The status of a duplicate names no Job, and its elder tells the reason anew: its Job goes at once.
fn give_up(observed: &Observed, reason: &'static str, message: String) -> Decision {
    let at_once = observed.job.iter().filter(|_| reason == reason::DUPLICATE);
    let jobs = living(at_once.chain(&observed.other_jobs));
    Decision { delete_jobs: jobs, stage: Stage::Failed { reason, message }, ..Decision::default() }
}

/// Those that are not being deleted.
pub fn living<'a>(jobs: impl Iterator<Item = &'a Job>) -> Vec<Job> {
    jobs.filter(|job| job.metadata.deletion_timestamp.is_none()).cloned().collect()
}

/// Makes the Job, as soon as everything is there that its pod needs.
fn begin(observed: &Observed) -> Decision {
    let at = |stage| Decision { delete_jobs: living(observed.other_jobs.iter()), stage, ..Decision::default() };
    let Some(settings) = &observed.settings else {
        return at(Stage::Blocked { reason: reason::DISABLED, message: disabled() });
    };
    let make_claim = match storage_claim(observed) {
        Ok(claim) => claim,
        Err(message) => return at(Stage::Blocked { reason: reason::NO_STORAGE, message }),
    };
    let claimed_gpus = match &observed.claimed_gpus {
        Ok(gpus) => *gpus,
        Err(missing) => return at(Stage::Waiting(missing.clone())),
    };
    let capture_settings = CaptureSettings {
        seccomp_profile: settings.seccomp_profile.as_deref(),
        storage: observed.place.named(),
        claimed_gpus,
    };
    match render_capture_job(&observed.checkpoint, &observed.id, capture_settings) {
        Err(mistakes) => at(mistaken(observed, &mistakes)),
        Ok(job) => {
            let waits = POD.to_owned();
            let mut decision = at(Stage::Capturing { waits, stalled: None });
            decision.make_claim = make_claim;
            decision.make_job = Some(Job { metadata: owned(job.metadata, observed), ..job });
            decision
        }
    }
}

fn disabled() -> String {
    "checkpoints are switched off; an administrator switches them on with checkpoint.enabled in the operator's \
     configuration"
        .to_owned()
}

/// The claim that keeps checkpoints, if it is to be made.
fn storage_claim(observed: &Observed) -> Result<Option<PersistentVolumeClaim>, String> {
    let settings = observed.settings.clone().unwrap_or_default();
    match &observed.place {
        StorageLocation::Named { exists: false, .. } => {
            let claim = render_storage_claim(&observed.namespace, &settings.storage);
            let claim = claim.map_err(|problem| problem.to_string())?;
            claim.map(Some).ok_or_else(|| observed.place.hindrance(&observed.namespace).unwrap_or_default())
        }
        StorageLocation::Invalid(problem) => Err(problem.to_string()),
        // Without a word about storage the agent of the pod's node decides, wherever it runs.
        StorageLocation::Named { exists: true, .. } | StorageLocation::OfAgent(_) | StorageLocation::Unknown => {
            Ok(None)
        }
    }
}

fn mistaken(observed: &Observed, mistakes: &[Violation]) -> Stage {
    let prepared = check_shared_gpu_memory(&observed.checkpoint).is_ok();
    let reason = if prepared { reason::INVALID_SPEC } else { reason::NOT_PREPARED };
    let message = mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    Stage::Mistaken { reason, message }
}

/// The Job is there: its pod is captured, and both have to end well.
fn capture(observed: &Observed, job: &Job) -> Decision {
    let at = |stage| Decision { delete_jobs: living(observed.other_jobs.iter()), stage, ..Decision::default() };
    let wait = |waits: &str| at(Stage::Capturing { waits: waits.to_owned(), stalled: None });
    if observed.settings.is_none() {
        return at(Stage::Capturing { waits: disabled(), stalled: Some(reason::DISABLED) });
    }
    let capture = match &observed.capture {
        Some(capture) if !observed.is_ours(capture) => {
            let message = format!("{} belongs to somebody else", name_of_capture(observed));
            return give_up(observed, reason::CAPTURE_NAME_TAKEN, message);
        }
        Some(capture) if is_of_other_version(observed, capture) => {
            let mut decision = wait("waiting for the capture of another version to go");
            decision.delete_capture = Some(capture.clone()).filter(|it| it.metadata.deletion_timestamp.is_none());
            return decision;
        }
        found => found.as_ref(),
    };
    if let Some(message) = capture.and_then(|capture| message_of(&capture_conditions(capture), "Failed")) {
        return give_up(observed, reason::CAPTURE_FAILED, message);
    }
    if let Some(failed) = JobEnd::Failed.of(job) {
        let message = match failed.message.as_deref().unwrap_or_default() {
            "" => "checkpoint job failed".to_owned(),
            message => format!("checkpoint job failed: {message}"),
        };
        return give_up(observed, reason::JOB_FAILED, message);
    }
    let Some(capture) = capture else { return ask_for_capture(observed, at) };
    let Some(message) = captured(capture) else { return at(waiting_for(observed, CAPTURED)) };
    if JobEnd::Complete.of(job).is_none() {
        return wait("the processes are captured; waiting for the Job to end");
    }
    // The Job goes once this is stored. Were it gone and this lost, a whole checkpoint would count as one whose Job somebody deleted.
    at(Stage::Ready(message))
}

fn ask_for_capture(observed: &Observed, at: impl Fn(Stage) -> Decision) -> Decision {
    let Some(pod) = &observed.pod else { return at(waiting_for(observed, POD)) };
    if !observed.serves_captures {
        let waits = "the cluster does not serve PodSnapshots of nvidia.com; install the snapshot operator".to_owned();
        return at(Stage::Capturing { waits, stalled: Some(reason::API_MISSING) });
    }
    Decision { make_capture: Some(render_capture(observed, pod)), ..at(waiting_for(observed, CAPTURED)) }
}

/// What is waited for, with why the pod of the Job does not run.
fn waiting_for(observed: &Observed, what: &str) -> Stage {
    match &observed.waits.trouble {
        None => Stage::Capturing { waits: what.to_owned(), stalled: None },
        Some(Diagnosis { cause, message }) => Stage::Capturing {
            waits: format!("{what}: {message}"),
            stalled: cause.needs_action().then(|| cause.reason()),
        },
    }
}

fn render_capture(observed: &Observed, pod: &ObjectMeta) -> PodSnapshot {
    let checkpoint = &observed.checkpoint;
    let pairs = |all: [(&str, &str); 2]| -> BTreeMap<String, String> {
        all.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    let name = checkpoint.metadata.name.clone().unwrap_or_default();
    let version = BTreeMap::from([(annotations::ARTIFACT_VERSION.to_owned(), artifact_version(checkpoint).to_owned())]);
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        namespace: Some(observed.namespace.clone()),
        labels: Some(pairs([(labels::SNAPSHOT_OWNER, &name), (labels::CHECKPOINT_ID, &observed.id)])),
        annotations: Some(version),
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

/// Whether a capture is of another pod than the present Job's. One that the Go operator asked for has no version.
fn is_of_other_version(observed: &Observed, capture: &PodSnapshot) -> bool {
    let version = capture.metadata.annotations.as_ref().and_then(|all| all.get(annotations::ARTIFACT_VERSION));
    let other_version = version.is_some_and(|version| version != artifact_version(&observed.checkpoint));
    let uid = Some(&capture.spec.source.pod_ref.uid).filter(|uid| !uid.is_empty());
    let pod = observed.pod.as_ref().and_then(|pod| pod.uid.as_ref());
    other_version || uid.zip(pod).is_some_and(|(captured, present)| captured != present)
}

fn capture_conditions(capture: &PodSnapshot) -> Vec<Condition> {
    capture.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default()
}

/// What a true condition says.
fn message_of(all: &[Condition], type_: &str) -> Option<String> {
    let found = all.iter().find(|condition| condition.type_ == type_ && condition.status == "True")?;
    Some(found.message.clone())
}

/// What the capture says if it is complete.
fn captured(capture: &PodSnapshot) -> Option<String> {
    let bound = capture.status.as_ref().and_then(|status| status.bound_snapshot_content_name.as_ref());
    bound.and_then(|_| message_of(&capture_conditions(capture), "Ready"))
}

/// Somebody deleted the Job. What is captured without its end is not known to be whole.
fn job_is_gone(observed: &Observed) -> Decision {
    let capture = observed.capture.as_ref().filter(|capture| observed.is_ours(*capture));
    let Some(capture) = capture.filter(|capture| !is_of_other_version(observed, capture)) else {
        return give_up(observed, reason::JOB_DELETED, "checkpoint job was deleted".to_owned());
    };
    if let Some(message) = message_of(&capture_conditions(capture), "Failed") {
        return give_up(observed, reason::CAPTURE_FAILED, message);
    }
    let message = "checkpoint job was deleted before its end was seen".to_owned();
    give_up(observed, reason::JOB_DELETED_EARLY, message)
}

fn name_of_capture(observed: &Observed) -> String {
    let name = observed.checkpoint.metadata.name.as_deref().unwrap_or_default();
    format!("PodSnapshot {}/{name}", observed.namespace)
}

fn owned(metadata: ObjectMeta, observed: &Observed) -> ObjectMeta {
    let name = observed.checkpoint.metadata.name.as_deref().unwrap_or_default();
    let owner = owner::controller::<DynamoCheckpoint>(name, &observed.uid);
    ObjectMeta { owner_references: Some(vec![owner]), ..metadata }
}

#[cfg(test)]
mod tests;

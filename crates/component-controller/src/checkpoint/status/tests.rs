//! Tests of the status.

use serde_json::{Value, json};

use super::*;
use crate::checkpoint::fixtures::{JOB, capture, creating, observed};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn status_of(live: Value, phase: CapturePhase) -> DynamoCheckpointStatus {
    status(&observed(live), &CheckpointApplied { phase, created: Vec::new(), rejected: false }, at(100))
}

fn condition(status: &DynamoCheckpointStatus, type_: &str) -> String {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_);
    found.map(|condition| format!("{}/{}", condition.status, condition.reason)).unwrap_or_default()
}

fn capturing() -> CapturePhase {
    CapturePhase::Capturing { waits: "waiting".to_owned(), stalled: None }
}

#[test]
fn each_phase_has_its_conditions() {
    let blocked = CapturePhase::Blocked { reason: reason::DISABLED, message: "off".to_owned() };
    let invalid = CapturePhase::Invalid { reason: reason::INVALID_SPEC, message: "bad".to_owned() };
    let failed = CapturePhase::Failed { reason: reason::JOB_FAILED, message: "broke".to_owned() };
    let deleted = CapturePhase::Failed { reason: reason::JOB_DELETED, message: "gone".to_owned() };
    let table = [
        (blocked, "Pending", "", "", "False/CheckpointDisabled", "True/CheckpointDisabled"),
        (CapturePhase::Waiting("w".to_owned()), "Pending", "", "", "False/Capturing", "False/Progressing"),
        (invalid, "Failed", "False/InvalidSpec", "", "False/InvalidSpec", "True/InvalidSpec"),
        (capturing(), "Creating", "True/JobCreated", "", "False/Capturing", "False/Progressing"),
        (
            CapturePhase::Ready("m".to_owned()),
            "Ready",
            "",
            "True/PodSnapshotAndJobReady",
            "True/PodSnapshotAndJobReady",
            "False/UpToDate",
        ),
        (failed, "Failed", "", "False/JobFailed", "False/CheckpointFailed", "True/CheckpointFailed"),
        (deleted, "Failed", "False/JobDeleted", "", "False/CheckpointFailed", "True/CheckpointFailed"),
    ];
    for (phase, summary, created, completed, ready, stalled) in table {
        let status = status_of(creating(), phase.clone());
        assert_eq!(status.observed_generation, Some(1), "{phase:?}");
        assert_eq!(format!("{:?}", status.phase.unwrap()), summary, "{phase:?}");
        let found = ["JobCreated", "JobCompleted", "Ready", "Stalled"].map(|type_| condition(&status, type_));
        assert_eq!(found, [created, completed, ready, stalled], "{phase:?}");
        assert_eq!(status.checkpoint_id.as_deref(), Some("0123"));
        assert_eq!(status.identity_hash, status.checkpoint_id);
    }
}

#[test]
fn the_job_is_named_while_its_result_counts() {
    let failed = || CapturePhase::Failed { reason: reason::JOB_FAILED, message: String::new() };
    assert_eq!(status_of(Value::Null, capturing()).job_name.as_deref(), Some(JOB));
    assert_eq!(status_of(creating(), failed()).job_name.as_deref(), Some(JOB), "so that it is not tried again");
    assert_eq!(status_of(Value::Null, failed()).job_name, None, "nothing was started");
    let invalid = CapturePhase::Invalid { reason: reason::INVALID_SPEC, message: String::new() };
    assert_eq!(status_of(creating(), invalid).job_name, None, "so that a corrected spec is tried");
    let duplicate = CapturePhase::Failed { reason: reason::DUPLICATE, message: String::new() };
    assert_eq!(status_of(creating(), duplicate).job_name, None, "so that it is tried when the elder is deleted");
}

#[test]
fn a_settled_phase_keeps_the_status_and_adds_conditions() {
    let ready =
        json!({ "phase": "Ready", "jobName": JOB, "createdAt": "2026-01-01T00:00:00Z", "checkpointID": "0123" });
    let status = status_of(ready.clone(), CapturePhase::Settled);
    assert_eq!(json!(status)["createdAt"], ready["createdAt"]);
    assert_eq!(condition(&status, "Ready"), "True/PodSnapshotAndJobReady");
    let again = status_of(json!(status), CapturePhase::Settled);
    assert_eq!(again, status, "nothing changes");
}

#[test]
fn a_ready_checkpoint_has_its_time_and_its_capture() {
    let mut observed = observed(creating());
    observed.capture = Some(capture("Ready"));
    let status = status(
        &observed,
        &CheckpointApplied { phase: CapturePhase::Ready(String::new()), created: Vec::new(), rejected: false },
        at(100),
    );
    assert_eq!(json!(status)["createdAt"], "1970-01-01T00:01:40Z");
    assert_eq!(status.pod_snapshot_name.as_deref(), Some("ckpt"));
    let next = status_of(json!(status), CapturePhase::Waiting(String::new()));
    assert_eq!((next.created_at, next.pod_snapshot_name), (None, None), "another version is another checkpoint");
}

#[test]
fn a_checkpoint_that_cannot_be_read_keeps_what_was_captured() {
    let before = status_of(creating(), CapturePhase::Ready("m".to_owned()));
    let status = of_unreadable(before.clone(), Some(2), "spec.job: too large", at(200));
    assert_eq!(condition(&status, "Stalled"), "True/InvalidSpec");
    assert_eq!((status.phase, &status.job_name), (before.phase, &before.job_name));
    assert_eq!((status.observed_generation, status.message.as_deref()), (Some(2), Some("spec.job: too large")));
    assert_eq!(of_unreadable(status.clone(), Some(2), "spec.job: too large", at(300)), status);
}

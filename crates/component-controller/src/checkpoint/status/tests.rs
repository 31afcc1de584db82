//! What a checkpoint tells.

use serde_json::{Value, json};

use super::*;
use crate::checkpoint::fixtures::{JOB, capture, creating, observed};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn told(live: Value, stage: Stage) -> DynamoCheckpointStatus {
    status(&observed(live), &Acted { stage, made: Vec::new(), refused: false }, at(100))
}

fn condition(status: &DynamoCheckpointStatus, type_: &str) -> String {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_);
    found.map(|condition| format!("{}/{}", condition.status, condition.reason)).unwrap_or_default()
}

fn capturing() -> Stage {
    Stage::Capturing { waits: "waiting".to_owned(), stalled: None }
}

#[test]
fn each_stage_has_its_phase_and_its_conditions() {
    let blocked = Stage::Blocked { reason: reason::DISABLED, message: "off".to_owned() };
    let mistaken = Stage::Mistaken { reason: reason::INVALID_SPEC, message: "bad".to_owned() };
    let failed = Stage::Failed { reason: reason::JOB_FAILED, message: "broke".to_owned() };
    let deleted = Stage::Failed { reason: reason::JOB_DELETED, message: "gone".to_owned() };
    let table = [
        (blocked, "Pending", "", "", "False/CheckpointDisabled", "True/CheckpointDisabled"),
        (Stage::Waiting("w".to_owned()), "Pending", "", "", "False/Capturing", "False/Progressing"),
        (mistaken, "Failed", "False/InvalidSpec", "", "False/InvalidSpec", "True/InvalidSpec"),
        (capturing(), "Creating", "True/JobCreated", "", "False/Capturing", "False/Progressing"),
        (
            Stage::Ready("m".to_owned()),
            "Ready",
            "",
            "True/PodSnapshotAndJobReady",
            "True/PodSnapshotAndJobReady",
            "False/UpToDate",
        ),
        (failed, "Failed", "", "False/JobFailed", "False/CheckpointFailed", "True/CheckpointFailed"),
        (deleted, "Failed", "False/JobDeleted", "", "False/CheckpointFailed", "True/CheckpointFailed"),
    ];
    for (stage, phase, created, completed, ready, stalled) in table {
        let status = told(creating(), stage.clone());
        assert_eq!(status.observed_generation, Some(1), "{stage:?}");
        assert_eq!(format!("{:?}", status.phase.unwrap()), phase, "{stage:?}");
        let found = ["JobCreated", "JobCompleted", "Ready", "Stalled"].map(|type_| condition(&status, type_));
        assert_eq!(found, [created, completed, ready, stalled], "{stage:?}");
        assert_eq!(status.checkpoint_id.as_deref(), Some("0123"));
        assert_eq!(status.identity_hash, status.checkpoint_id);
    }
}

#[test]
fn the_job_is_named_as_long_as_it_counts() {
    let failed = || Stage::Failed { reason: reason::JOB_FAILED, message: String::new() };
    assert_eq!(told(Value::Null, capturing()).job_name.as_deref(), Some(JOB));
    assert_eq!(told(creating(), failed()).job_name.as_deref(), Some(JOB), "so that it is not tried again");
    assert_eq!(told(Value::Null, failed()).job_name, None, "nothing was begun");
    let mistaken = Stage::Mistaken { reason: reason::INVALID_SPEC, message: String::new() };
    assert_eq!(told(creating(), mistaken).job_name, None, "so that a mended spec is tried");
    let duplicate = Stage::Failed { reason: reason::DUPLICATE, message: String::new() };
    assert_eq!(told(creating(), duplicate).job_name, None, "so that it is tried when the elder is gone");
}

#[test]
fn what_is_settled_is_told_as_before_and_in_new_words_too() {
    let ready =
        json!({ "phase": "Ready", "jobName": JOB, "createdAt": "2026-01-01T00:00:00Z", "checkpointID": "0123" });
    let status = told(ready.clone(), Stage::Settled);
    assert_eq!(json!(status)["createdAt"], ready["createdAt"]);
    assert_eq!(condition(&status, "Ready"), "True/PodSnapshotAndJobReady");
    let again = told(json!(status), Stage::Settled);
    assert_eq!(again, status, "nothing new is said");
}

#[test]
fn a_ready_checkpoint_says_since_when_and_from_what() {
    let mut observed = observed(creating());
    observed.capture = Some(capture("Ready"));
    let status =
        status(&observed, &Acted { stage: Stage::Ready(String::new()), made: Vec::new(), refused: false }, at(100));
    assert_eq!(json!(status)["createdAt"], "1970-01-01T00:01:40Z");
    assert_eq!(status.pod_snapshot_name.as_deref(), Some("ckpt"));
    let next = told(json!(status), Stage::Waiting(String::new()));
    assert_eq!((next.created_at, next.pod_snapshot_name), (None, None), "another version is another checkpoint");
}

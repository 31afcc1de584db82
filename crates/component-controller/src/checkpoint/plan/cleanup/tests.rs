//! Tests that deletions end, whatever is missing.

use std::time::Duration;

use controller_kit::controller::Action;
use k8s_openapi::api::batch::v1::Job;
use rendering::checkpoint::StorageLocation;
use serde_json::{Value, json};

use super::*;
use crate::checkpoint::{
    fixtures::{JOB, job, observed},
    model::without_namespace,
    requeue::next_of_cleanup,
};

const NAME: &str = "checkpoint-cleanup-0123";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A checkpoint of a graph that is being deleted since second 0.
fn deleting() -> CheckpointObserved {
    let mut observed = observed(Value::Null);
    let metadata = &mut observed.checkpoint.metadata;
    metadata.deletion_timestamp = Some(serde_json::from_value(json!("1970-01-01T00:00:00Z")).unwrap());
    metadata.annotations = Some([(annotations::AUTO_CHECKPOINT.to_owned(), "true".to_owned())].into());
    observed
}

/// The live cleanup Job of the checkpoint with that uid.
fn live(uid: &str, ended: &str) -> Job {
    let mut job = job(NAME, ended);
    job.metadata.owner_references = None;
    job.metadata.annotations = Some([(annotations::CLEANUP_FOR.to_owned(), uid.to_owned())].into());
    job
}

fn left(cleanup: &Cleanup) -> &str {
    match cleanup {
        Cleanup::Done { left: Some(left), .. } => left,
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_the_artifact_of_a_graphs_checkpoint_is_removed() {
    let mut of_user = deleting();
    of_user.checkpoint.metadata.annotations = None;
    assert_eq!(plan(&of_user, at(1)), Cleanup::Done { finished: None, left: None });
}

#[test]
fn the_artifact_of_an_elder_stays() {
    let mut younger = deleting();
    younger.elder = Some("first".to_owned());
    assert_eq!(plan(&younger, at(1)), Cleanup::Done { finished: None, left: None });
}

#[test]
fn a_job_without_owner_removes_the_artifact() {
    let mut observed = deleting();
    let Cleanup::Start(job) = plan(&observed, at(1)) else { panic!("no Job") };
    assert_eq!((job.metadata.name.as_deref(), &job.metadata.owner_references), (Some(NAME), &None));
    observed.cleanup = Some(live("uid", ""));
    assert_eq!(plan(&observed, at(1)), Cleanup::Wait);
    observed.cleanup = Some(live("uid", "Failed"));
    assert!(matches!(plan(&observed, at(1)), Cleanup::Retry(_)));
    observed.cleanup = Some(live("uid", "Complete"));
    assert!(matches!(plan(&observed, at(1)), Cleanup::Done { finished: Some(_), left: None }));
    observed.cleanup = Some(live("an earlier checkpoint's", "Complete"));
    assert!(matches!(plan(&observed, at(1)), Cleanup::Retry(_)), "that one removed another artifact");
}

/// With the upstream operator a deletion hangs when the storage is unknown, or its Job fails again and again.
#[test]
fn a_deletion_has_a_deadline() {
    let mut observed = deleting();
    observed.location = StorageLocation::Unknown;
    assert!(left(&plan(&observed, at(1))).contains("no agent"));
    let mut strange = deleting();
    strange.id = "../other".to_owned();
    assert!(left(&plan(&strange, at(1))).contains("not the name of a folder"));
    let mut late = deleting();
    for cleanup in [None, Some(live("uid", "")), Some(live("uid", "Failed"))] {
        late.cleanup = cleanup;
        let given_up = plan(&late, at(601));
        assert!(left(&given_up).contains("in time"));
        let stopped = matches!(given_up, Cleanup::Done { finished: Some(_), .. });
        assert_eq!(stopped, late.cleanup.is_some(), "it must not remove a later artifact");
        assert!(!matches!(plan(&late, at(599)), Cleanup::Done { .. }));
    }
    let mut taken = deleting();
    taken.cleanup = Some(Job { metadata: Default::default(), ..Job::default() });
    assert!(left(&plan(&taken, at(1))).contains("has another owner"));
    assert_eq!(next_of_cleanup(&late, at(590)), Action::Requeue(Duration::from_secs(10)));
    assert_eq!(next_of_cleanup(&late, at(9_000)), Action::Requeue(Duration::from_secs(1)));
}

#[test]
fn an_artifact_left_in_a_deleted_namespace_is_named() {
    let going = without_namespace(&deleting());
    assert_eq!(left(&going), "artifact 0123: namespace team is being deleted, and nothing can run in it any more");
}

/// With the upstream operator the capture continues while the Job removes the folder, and what it writes after that
/// stays.
#[test]
fn captures_end_before_the_artifact_is_removed() {
    let mut observed = deleting();
    (observed.job, observed.is_captured) = (Some(job(JOB, "")), true);
    assert_eq!(plan(&observed, at(1)), Cleanup::Stop(vec![job(JOB, "")]));
    observed.job = None;
    assert_eq!(plan(&observed, at(1)), Cleanup::Stop(Vec::new()), "its pod still exists");
    assert!(left(&plan(&observed, at(601))).contains("in time"));
    observed.is_captured = false;
    assert!(matches!(plan(&observed, at(1)), Cleanup::Start(_)));
}

//! Deletions end, whatever is missing.

use serde_json::{Value, json};

use super::*;
use crate::{
    checkpoint::fixtures::{JOB, job, observed},
    snapshots::StorageLocation,
};

const NAME: &str = "checkpoint-cleanup-0123";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A checkpoint of a graph that is being deleted since second 0.
fn deleting() -> Observed {
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
fn only_what_a_graph_made_removes_what_it_kept() {
    let mut of_user = deleting();
    of_user.checkpoint.metadata.annotations = None;
    assert_eq!(clean_up(&of_user, at(1)), Cleanup::Done { finished: None, left: None });
}

#[test]
fn what_an_elder_keeps_stays() {
    let mut younger = deleting();
    younger.elder = Some("first".to_owned());
    assert_eq!(clean_up(&younger, at(1)), Cleanup::Done { finished: None, left: None });
}

#[test]
fn a_job_without_owner_removes_it_and_goes() {
    let mut observed = deleting();
    let Cleanup::Start(job) = clean_up(&observed, at(1)) else { panic!("no Job") };
    assert_eq!((job.metadata.name.as_deref(), &job.metadata.owner_references), (Some(NAME), &None));
    observed.cleanup = Some(live("uid", ""));
    assert_eq!(clean_up(&observed, at(1)), Cleanup::Wait);
    observed.cleanup = Some(live("uid", "Failed"));
    assert!(matches!(clean_up(&observed, at(1)), Cleanup::Retry(_)));
    observed.cleanup = Some(live("uid", "Complete"));
    assert!(matches!(clean_up(&observed, at(1)), Cleanup::Done { finished: Some(_), left: None }));
    observed.cleanup = Some(live("an earlier checkpoint's", "Complete"));
    assert!(matches!(clean_up(&observed, at(1)), Cleanup::Retry(_)), "that one removed something else");
}

/// In the reference a deletion hangs for ever when storage is not known, or its Job fails again and again.
#[test]
fn a_deletion_never_waits_for_ever() {
    let mut observed = deleting();
    observed.place = StorageLocation::Unknown;
    assert!(left(&clean_up(&observed, at(1))).contains("no agent"));
    let mut strange = deleting();
    strange.id = "../other".to_owned();
    assert!(left(&clean_up(&strange, at(1))).contains("not the name of a folder"));
    let mut late = deleting();
    for cleanup in [None, Some(live("uid", "")), Some(live("uid", "Failed"))] {
        late.cleanup = cleanup;
        let given_up = clean_up(&late, at(601));
        assert!(left(&given_up).contains("in time"));
        let stopped = matches!(given_up, Cleanup::Done { finished: Some(_), .. });
        assert_eq!(stopped, late.cleanup.is_some(), "it must not remove what comes later");
        assert!(!matches!(clean_up(&late, at(599)), Cleanup::Done { .. }));
    }
    let mut taken = deleting();
    taken.cleanup = Some(Job { metadata: Default::default(), ..Job::default() });
    assert!(left(&clean_up(&taken, at(1))).contains("belongs to somebody else"));
    assert_eq!(patience(&late, at(590)), Some(SignedDuration::from_secs(10)));
    assert_eq!(patience(&late, at(9_000)), Some(SignedDuration::from_secs(1)));
}

#[test]
fn what_cannot_be_removed_with_its_namespace_is_named() {
    let going = without_namespace(&deleting());
    assert_eq!(left(&going), "artifact 0123: namespace team is being deleted, and nothing can run in it any more");
}

/// In the reference the pod goes on to be captured while the Job removes the folder, and what it writes after that stays.
#[test]
fn what_is_still_captured_ends_before_anything_is_removed() {
    let mut observed = deleting();
    (observed.job, observed.is_captured) = (Some(job(JOB, "")), true);
    assert_eq!(clean_up(&observed, at(1)), Cleanup::Stop(vec![job(JOB, "")]));
    observed.job = None;
    assert_eq!(clean_up(&observed, at(1)), Cleanup::Stop(Vec::new()), "its pod is still there");
    assert!(left(&clean_up(&observed, at(601))).contains("in time"));
    observed.is_captured = false;
    assert!(matches!(clean_up(&observed, at(1)), Cleanup::Start(_)));
}

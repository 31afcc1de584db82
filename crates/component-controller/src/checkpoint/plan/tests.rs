//! Tests of every state of a checkpoint and its children.

use rendering::{
    PodCause,
    checkpoint::{CheckpointConfig, CheckpointStorage, StorageLocation, StorageSettings},
};
use serde_json::{Value, json};

use super::*;
use crate::checkpoint::{
    fixtures::{JOB, capture, creating, job, observed, pod},
    model::CheckpointApplied,
    status,
};

fn failed(planned: &CheckpointPlan) -> &'static str {
    match &planned.phase {
        CapturePhase::Failed { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

fn waits(planned: &CheckpointPlan) -> &str {
    match &planned.phase {
        CapturePhase::Capturing { waits, .. } => waits,
        other => panic!("{other:?}"),
    }
}

fn names(jobs: &[Job]) -> Vec<&str> {
    jobs.iter().filter_map(|job| job.metadata.name.as_deref()).collect()
}

#[test]
fn a_new_checkpoint_gets_its_job() {
    let planned = plan(&observed(Value::Null));
    let made = planned.create_job.unwrap();
    assert_eq!(made.metadata.name.as_deref(), Some(JOB));
    let owner = &made.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.uid.as_str(), owner.block_owner_deletion), ("uid", Some(true)));
    assert!(matches!(planned.phase, CapturePhase::Capturing { stalled: None, .. }));
}

#[test]
fn a_job_that_was_created_before_the_status_was_written_is_continued() {
    let mut observed = observed(Value::Null);
    observed.job = Some(job(JOB, ""));
    let planned = plan(&observed);
    assert_eq!((planned.create_job.is_none(), waits(&planned)), (true, "waiting for the pod of the Job"));
}

#[test]
fn what_is_in_the_way_of_the_job_is_reported_before_it_is_created() {
    let named = |create| CheckpointConfig {
        storage: StorageSettings {
            claim: "claim".to_owned(),
            folder: "/c".to_owned(),
            create,
            size: "1Gi".to_owned(),
            ..StorageSettings::default()
        },
        ..CheckpointConfig::default()
    };
    let missing = || StorageLocation::Named {
        storage: CheckpointStorage { claim: "claim".to_owned(), folder: "/c".to_owned() },
        exists: false,
    };
    let blocked = |edit: &dyn Fn(&mut CheckpointObserved)| {
        let mut observed = observed(Value::Null);
        edit(&mut observed);
        let planned = plan(&observed);
        assert!(planned.create_job.is_none());
        planned.phase
    };
    let off = blocked(&|o| o.config = None);
    assert!(matches!(off, CapturePhase::Blocked { reason: reason::DISABLED, .. }), "{off:?}");
    let claim = blocked(&|o| (o.location, o.config) = (missing(), Some(named(false))));
    assert!(matches!(claim, CapturePhase::Blocked { reason: reason::NO_STORAGE, .. }), "{claim:?}");
    let gpus = blocked(&|o| o.claimed_gpus = Err("waiting for it".to_owned()));
    assert_eq!(gpus, CapturePhase::Waiting("waiting for it".to_owned()));
    let spec = blocked(&|o| o.checkpoint.spec.job.target_container_name = Some("other".to_owned()));
    assert!(matches!(spec, CapturePhase::Invalid { reason: reason::INVALID_SPEC, .. }), "{spec:?}");
    let memory = blocked(&|o| {
        o.checkpoint.spec.gpu_memory_service = serde_json::from_value(json!({ "enabled": true })).unwrap();
    });
    assert!(matches!(memory, CapturePhase::Invalid { reason: reason::NOT_PREPARED, .. }), "{memory:?}");

    let mut made = observed(Value::Null);
    (made.location, made.config) = (missing(), Some(named(true)));
    let planned = plan(&made);
    assert_eq!(planned.create_volume.unwrap().metadata.name.as_deref(), Some("claim"));
    let pod = planned.create_job.unwrap().spec.unwrap().template.spec.unwrap();
    assert!(pod.volumes.unwrap().iter().any(|volume| volume.name == "checkpoint-storage"));
}

#[test]
fn the_pod_is_captured_once_it_is_there() {
    let mut observed = observed(creating());
    observed.job = Some(job(JOB, ""));
    assert!(plan(&observed).create_capture.is_none());
    observed.pod = Some(pod());
    let created = plan(&observed).create_capture.unwrap();
    assert_eq!(
        json!(created.spec),
        json!({ "source": { "podRef": { "name": "pod", "uid": "pod-uid", "containers": ["main"] } } })
    );
    let labels = json!({ "nvidia.com/snapshot-owner": "ckpt", "nvidia.com/snapshot-checkpoint-id": "0123" });
    assert_eq!(json!(created.metadata.labels), labels);
    observed.serves_captures = false;
    let planned = plan(&observed);
    assert!(planned.create_capture.is_none());
    assert!(matches!(planned.phase, CapturePhase::Capturing { stalled: Some(reason::API_MISSING), .. }));
}

#[test]
fn why_the_pod_does_not_run_is_reported_until_it_is_captured() {
    let refused = PodDiagnosis::from_creation_warning("Job j", "Error creating: a pod is forbidden: exceeded quota");
    let reported = |trouble: &PodDiagnosis, edit: &dyn Fn(&mut CheckpointObserved)| {
        let mut observed = observed(creating());
        observed.job = Some(job(JOB, ""));
        observed.waits.trouble = Some(trouble.clone());
        edit(&mut observed);
        let planned = plan(&observed);
        let status = status::status(
            &observed,
            &CheckpointApplied { phase: planned.phase, created: Vec::new(), rejected: false },
            Default::default(),
        );
        let stalled = status.conditions.into_iter().find(|condition| condition.type_ == "Stalled").unwrap();
        (status.message.unwrap_or_default(), format!("{}/{}", stalled.status, stalled.reason))
    };
    let words = "waiting for the pod of the Job: Job j: Error creating: a pod is forbidden: exceeded quota";
    assert_eq!(reported(&refused, &|_| ()), (words.to_owned(), "True/PodsRefused".to_owned()));
    let mute = PodDiagnosis { cause: PodCause::ImagePull, message: "pod p: no image".to_owned() };
    let captured = |o: &mut CheckpointObserved| (o.pod, o.capture) = (Some(pod()), Some(capture("")));
    for edit in [&|o: &mut CheckpointObserved| o.pod = Some(pod()), &captured] as [&dyn Fn(&mut CheckpointObserved); 2]
    {
        let words = "waiting for the processes to be captured: pod p: no image";
        assert_eq!(reported(&mute, edit), (words.to_owned(), "True/ImagePullFailed".to_owned()));
    }
    let unplaced = PodDiagnosis { cause: PodCause::Unschedulable, message: "pod p: no node".to_owned() };
    assert_eq!(reported(&unplaced, &|_| ()), (String::new(), "False/Progressing".to_owned()), "a node may come");
    let loading = PodDiagnosis { cause: PodCause::Probe, message: "pod p: it loads".to_owned() };
    assert_eq!(
        reported(&loading, &captured),
        (String::new(), "False/Progressing".to_owned()),
        "nothing must be changed"
    );
    let over = |o: &mut CheckpointObserved| (o.pod, o.capture) = (Some(pod()), Some(capture("Ready")));
    assert_eq!(reported(&mute, &over).0, "", "the Job has succeeded");
}

#[test]
fn capture_and_job_both_have_to_end_well() {
    let table = [
        ("", "", Err("waiting for the processes to be captured")),
        ("", "Complete", Err("waiting for the processes to be captured")),
        ("Ready", "", Err("the processes are captured; waiting for the Job to end")),
        ("Ready", "Complete", Ok(None)),
        ("Failed", "", Ok(Some(reason::CAPTURE_FAILED))),
        ("Failed", "Complete", Ok(Some(reason::CAPTURE_FAILED))),
        ("", "Failed", Ok(Some(reason::JOB_FAILED))),
        ("Ready", "Failed", Ok(Some(reason::JOB_FAILED))),
    ];
    for (captured, ended, expected) in table {
        let mut observed = observed(creating());
        (observed.job, observed.pod) = (Some(job(JOB, ended)), Some(pod()));
        observed.capture = Some(capture(captured));
        observed.other_jobs = vec![job("earlier", "")];
        let planned = plan(&observed);
        match expected {
            Err(wait) => assert_eq!(waits(&planned), wait, "{captured} {ended}"),
            Ok(Some(reason)) => assert_eq!(failed(&planned), reason, "{captured} {ended}"),
            Ok(None) => assert_eq!(planned.phase, CapturePhase::Ready("said".to_owned())),
        }
        assert_eq!(names(&planned.delete_jobs), ["earlier"], "{captured} {ended}");
        // Pods that have ended are not observed.
        observed.pod = None;
        assert_eq!(plan(&observed), planned, "{captured} {ended}");
    }
}

/// Returns the live state after a plan, whose status is stored or lost.
fn after(planned: &CheckpointPlan, mut observed: CheckpointObserved, stored: bool) -> CheckpointObserved {
    if stored {
        let applied = CheckpointApplied { phase: planned.phase.clone(), created: Vec::new(), rejected: false };
        let after = status::status(&observed, &applied, jiff::Timestamp::UNIX_EPOCH);
        observed.checkpoint.status = Some(after);
    }
    observed.job.take_if(|job| planned.delete_jobs.contains(job));
    observed
}

/// A Job that is deleted before its end is stored would count as deleted by a user, and a complete checkpoint as lost.
#[test]
fn a_job_goes_only_once_its_end_is_stored() {
    let foreign = PodSnapshot { metadata: ObjectMeta::default(), ..capture("") };
    let ends = [(capture("Ready"), "Complete"), (capture("Ready"), "Failed"), (capture("Failed"), ""), (foreign, "")];
    for ((found, ended), begun) in ends.into_iter().flat_map(|end| [(end.clone(), creating()), (end, Value::Null)]) {
        let live = || {
            let mut live = observed(begun.clone());
            (live.job, live.pod) = (Some(job(JOB, ended)), Some(pod()));
            live.capture = Some(found.clone());
            live
        };
        let first = plan(&live());
        assert!(matches!(first.phase, CapturePhase::Ready(_) | CapturePhase::Failed { .. }), "{:?}", first.phase);
        assert_eq!(plan(&after(&first, live(), false)).phase, first.phase, "a lost status is computed again");

        let stored = after(&first, live(), true);
        assert!(stored.job.is_some(), "{:?}", first.phase);
        let second = plan(&stored);
        assert_eq!(
            (&second.phase, names(&second.delete_jobs)),
            (&CapturePhase::Settled, vec![JOB]),
            "{:?}",
            first.phase
        );
        let before = stored.checkpoint.status.clone();
        let settled = after(&second, stored, true);
        assert_eq!(settled.checkpoint.status, before, "nothing changes");
        assert_eq!(plan(&settled), CheckpointPlan::default(), "and nothing is left to do");
    }
}

#[test]
fn a_capture_that_is_not_of_the_present_pod_is_not_believed() {
    let mut observed = observed(creating());
    (observed.job, observed.pod) = (Some(job(JOB, "Complete")), Some(pod()));
    let mut other_pod = capture("Ready");
    other_pod.spec.source.pod_ref.uid = "earlier".to_owned();
    let mut other_version = capture("Ready");
    other_version.metadata.annotations =
        Some([("nvidia.com/snapshot-artifact-version".to_owned(), "7".to_owned())].into());
    for stale in [other_pod, other_version] {
        observed.capture = Some(stale);
        let planned = plan(&observed);
        assert!(planned.delete_capture.is_some() && planned.create_capture.is_none());
    }
    observed.capture.as_mut().unwrap().metadata.owner_references = None;
    assert_eq!(failed(&plan(&observed)), reason::CAPTURE_NAME_TAKEN, "never deleted, never changed");
}

/// Found defect: its pod is no longer observed, so that the checkpoint waited for it forever.
#[test]
fn a_job_that_ends_before_its_capture_stalls_the_checkpoint() {
    let mut observed = observed(creating());
    observed.job = Some(job(JOB, "Complete"));
    let planned = plan(&observed);
    assert!(matches!(planned.phase, CapturePhase::Capturing { stalled: Some(reason::FAILED), .. }), "{planned:?}");
    assert!(waits(&planned).contains("before its processes were captured"), "{planned:?}");
    assert!(planned.create_capture.is_none() && planned.delete_jobs.is_empty());
    observed.pod = Some(pod());
    assert!(plan(&observed).create_capture.is_some(), "a pod that has not ended can be captured");
}

/// Found defect: the pod could end while the capture of another version was being deleted.
#[test]
fn the_job_of_another_version_waits_until_the_earlier_capture_is_gone() {
    let mut observed = observed(Value::Null);
    let mut earlier = capture("Ready");
    earlier.metadata.annotations = Some([("nvidia.com/snapshot-artifact-version".to_owned(), "7".to_owned())].into());
    observed.capture = Some(earlier);
    let planned = plan(&observed);
    assert!(planned.create_job.is_none() && planned.delete_capture.is_some());
    assert_eq!(planned.phase, CapturePhase::Waiting(OTHER_CAPTURE.to_owned()));
    observed.capture.as_mut().unwrap().metadata.owner_references = None;
    let planned = plan(&observed);
    assert!(planned.create_job.is_some() && planned.delete_capture.is_none(), "never deleted, never changed");
    observed.capture = None;
    assert!(plan(&observed).create_job.is_some());
}

#[test]
fn a_job_that_was_deleted_ends_the_checkpoint() {
    let mut gone = observed(creating());
    assert_eq!(failed(&plan(&gone)), reason::JOB_DELETED);
    gone.capture = Some(capture("Ready"));
    assert_eq!(failed(&plan(&gone)), reason::JOB_DELETED_EARLY);
    gone.capture = Some(capture("Failed"));
    assert_eq!(failed(&plan(&gone)), reason::CAPTURE_FAILED);
}

#[test]
fn what_is_settled_stays_and_its_job_goes() {
    let ended = |reason: &str| {
        json!([{ "type": "JobCompleted", "status": "True", "reason": reason, "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z" }])
    };
    let status = |phase: &str, reason: &str| json!({ "phase": phase, "jobName": JOB, "conditions": ended(reason) });
    for (status, goes) in [
        (status("Ready", reason::CAPTURED), true),
        (status("Ready", "JobComplete"), false),
        (status("Failed", reason::JOB_FAILED), true),
    ] {
        let mut observed = observed(status.clone());
        observed.job = Some(job(JOB, "Complete"));
        let planned = plan(&observed);
        assert_eq!(planned.phase, CapturePhase::Settled, "{status}");
        assert_eq!(!planned.delete_jobs.is_empty(), goes, "{status}");
        assert!(planned.create_job.is_none() && planned.create_capture.is_none());
    }
}

/// The upstream operator finds the capture of the version before, and calls the new one ready when its Job ends.
#[test]
fn another_version_is_captured_anew() {
    let mut observed = observed(json!({ "phase": "Ready", "jobName": JOB }));
    observed.checkpoint.metadata.annotations =
        Some([("nvidia.com/snapshot-artifact-version".to_owned(), "2".to_owned())].into());
    observed.other_jobs = vec![job(JOB, "Complete")];
    observed.capture = Some(capture("Ready"));
    let planned = plan(&observed);
    assert_eq!(planned.create_job.unwrap().metadata.name.as_deref(), Some("checkpoint-job-0123-2"));
    assert_eq!(names(&planned.delete_jobs), [JOB]);

    (observed.other_jobs, observed.job) = (Vec::new(), Some(job("checkpoint-job-0123-2", "")));
    observed.pod = Some(ObjectMeta { uid: Some("new-pod".to_owned()), ..pod() });
    assert!(plan(&observed).delete_capture.is_some());
    observed.capture = None;
    let created = plan(&observed).create_capture.unwrap();
    assert_eq!(created.spec.source.pod_ref.uid, "new-pod");
}

/// With the upstream operator both of two checkpoints with one identifier fail, each because of the other.
#[test]
fn of_two_with_one_identifier_the_younger_gives_up() {
    let mut younger = observed(Value::Null);
    younger.elder = Some("first".to_owned());
    let planned = plan(&younger);
    assert_eq!(failed(&planned), reason::DUPLICATE);
    assert!(planned.create_job.is_none());
    younger.job = Some(job(JOB, ""));
    assert_eq!(names(&plan(&younger).delete_jobs), [JOB], "its status will name none");
    let mut ready = observed(json!({ "phase": "Ready", "jobName": JOB }));
    ready.elder = Some("relabelled".to_owned());
    assert_eq!(plan(&ready).phase, CapturePhase::Settled, "what is captured stays");
}

/// The upstream operator does not try it again.
#[test]
fn the_younger_begins_when_the_elder_is_gone() {
    for begun in [Value::Null, creating()] {
        let mut younger = observed(begun);
        younger.elder = Some("first".to_owned());
        let applied = CheckpointApplied { phase: plan(&younger).phase, created: Vec::new(), rejected: false };
        let status = status::status(&younger, &applied, jiff::Timestamp::UNIX_EPOCH);
        let alone = observed(json!(status));
        assert!(plan(&alone).create_job.is_some(), "{status:?}");
    }
}

/// An earlier version named the Job in the status of a duplicate, and never tried it again.
#[test]
fn a_duplicate_begins_when_its_elder_is_gone_though_its_status_names_a_job() {
    let failed = |why: &str| {
        json!({ "phase": "Failed", "jobName": JOB, "conditions": [{ "type": "JobCompleted", "status": "False",
            "reason": why, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" }] })
    };
    let mut younger = observed(failed(reason::DUPLICATE));
    assert!(plan(&younger).create_job.is_some());
    younger.elder = Some("first".to_owned());
    assert!(matches!(plan(&younger).phase, CapturePhase::Failed { reason: reason::DUPLICATE, .. }));
    assert_eq!(plan(&observed(failed(reason::JOB_FAILED))).phase, CapturePhase::Settled, "what failed by itself stays");
}

#[test]
fn a_job_that_was_given_up_goes_before_another_is_made() {
    let mut again = observed(Value::Null);
    let mut going = job(JOB, "");
    going.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    again.job = Some(going);
    let planned = plan(&again);
    assert!(matches!(planned.phase, CapturePhase::Waiting(_)), "{:?}", planned.phase);
    assert!(planned.create_job.is_none());
}

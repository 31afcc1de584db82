//! Tests of plans.

use api_types::v1alpha1::DynamoComponent;
use controller_kit::pods::JobWaits;
use rendering::{PodCause, PodDiagnosis};
use serde_json::json;

use super::*;

fn job(name: &str, condition: Option<(&str, &str)>) -> Job {
    let conditions = condition.map(|(type_, reason)| {
        json!([{
            "type": type_, "status": "True", "reason": reason, "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }])
    });
    let status = json!({ "active": i32::from(condition.is_none()), "conditions": conditions });
    serde_json::from_value(json!({ "metadata": { "name": name }, "status": status })).unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn observed() -> ImageBuildObserved {
    ImageBuildObserved {
        manifest: Default::default(),
        component: DynamoComponent::new("c", Default::default()),
        image: Ok("r/i:t".to_owned()),
        exists: Some(Ok(false)),
        job_name: "j".to_owned(),
        job: None,
        other_jobs: Vec::new(),
        rendered: Some(Ok(job("j", None))),
        log: None,
        waits: JobWaits::default(),
    }
}

fn plan_with(edit: impl FnOnce(&mut ImageBuildObserved)) -> ImageBuildPlan {
    let mut observed = observed();
    edit(&mut observed);
    plan(&observed, at("2026-01-01T00:01:00Z"))
}

#[test]
fn an_image_is_built_where_the_registry_has_none() {
    let planned = plan_with(|_| {});
    assert_eq!(
        (planned.phase, planned.create.is_some()),
        (BuildPhase::Building { active: false, diagnosis: None }, true)
    );
    for known in [None, Some(Ok(true))] {
        let planned = plan_with(|o| o.exists = known);
        assert_eq!((planned.phase, planned.create), (BuildPhase::Available, None));
    }
    let down = plan_with(|o| o.exists = Some(Err(ImageBuildObstacle::Unreachable("r is down".to_owned()))));
    assert_eq!(
        (down.phase, down.create),
        (BuildPhase::Obstructed(ImageBuildObstacle::Unreachable("r is down".to_owned())), None)
    );
    let closed = plan_with(|o| o.exists = Some(Err(ImageBuildObstacle::Blocked("no login".to_owned()))));
    assert_eq!(
        (closed.phase, closed.create),
        (BuildPhase::Obstructed(ImageBuildObstacle::Blocked("no login".to_owned())), None)
    );
}

/// An image that was deleted while its Job was kept, for a day, was never built again.
#[test]
fn a_removed_image_is_built_again_although_its_job_exists() {
    let complete = || Some(job("j", Some(("Complete", ""))));
    let gone = plan_with(|o| (o.job, o.rendered) = (complete(), None));
    assert_eq!(gone.phase, BuildPhase::Building { active: false, diagnosis: None });
    assert_eq!((gone.delete.len(), gone.create), (1, None), "a Job of the same name is made once this one is gone");
    for known in [None, Some(Ok(true)), Some(Err(ImageBuildObstacle::Unreachable("away".to_owned())))] {
        let planned = plan_with(|o| (o.job, o.exists) = (complete(), known));
        assert_eq!((planned.phase, planned.delete.len()), (BuildPhase::Available, 0));
    }
    let going = plan_with(|o| {
        o.job = complete();
        let now = at("2026-01-01T00:00:30Z");
        o.job.as_mut().unwrap().metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
    });
    assert!(going.delete.is_empty());
}

#[test]
fn violations_are_reported_and_nothing_is_created() {
    let wrong = plan_with(|o| o.image = Err("no".to_owned()));
    assert_eq!(
        (wrong.phase, wrong.create),
        (BuildPhase::Obstructed(ImageBuildObstacle::Invalid("no".to_owned())), None)
    );
    let wrong = plan_with(|o| o.rendered = Some(Err(ImageBuildObstacle::Invalid("no".to_owned()))));
    assert_eq!(
        (wrong.phase, wrong.create),
        (BuildPhase::Obstructed(ImageBuildObstacle::Invalid("no".to_owned())), None)
    );
    let away = plan_with(|o| o.rendered = Some(Err(ImageBuildObstacle::Unreachable("store".to_owned()))));
    assert_eq!(
        (away.phase, away.create),
        (BuildPhase::Obstructed(ImageBuildObstacle::Unreachable("store".to_owned())), None)
    );
}

#[test]
fn the_phase_follows_the_job() {
    assert_eq!(
        plan_with(|o| o.job = Some(job("j", None))).phase,
        BuildPhase::Building { active: true, diagnosis: None }
    );
    let done = plan_with(|o| (o.job, o.exists) = (Some(job("j", Some(("Complete", "")))), None));
    assert_eq!(done.phase, BuildPhase::Available);
    let diagnosis = Some(PodDiagnosis { cause: PodCause::Unschedulable, message: "pod j-1: no node".to_owned() });
    let waits = plan_with(|o| {
        o.job = Some(job("j", None));
        o.waits.trouble = diagnosis.clone();
    });
    assert_eq!((waits.phase, waits.delete), (BuildPhase::Building { active: true, diagnosis }, Vec::new()));
    let late = plan_with(|o| o.job = Some(job("j", Some(("Failed", "DeadlineExceeded")))));
    assert!(matches!(late.phase, BuildPhase::Failed { late: true, .. }));
}

/// The legacy operator reported a failed build as Unknown, and did not try again for a day.
#[test]
fn a_failed_build_is_reported_with_its_log_and_tried_again() {
    let failed = |now: &str| {
        let job = Some(job("j", Some(("Failed", "BackoffLimitExceeded"))));
        let log = Some(Log { container: "builder".to_owned(), text: "error: no space left".to_owned() });
        let observed = ImageBuildObserved { job, log, ..observed() };
        plan(&observed, at(now))
    };
    let early = failed("2026-01-01T00:01:00Z");
    let BuildPhase::Failed { late: false, message } = &early.phase else { panic!("{:?}", early.phase) };
    assert!(
        message.starts_with("Job j: m") && message.ends_with("container builder:\nerror: no space left"),
        "{message}"
    );
    assert!(early.delete.is_empty());
    let later = failed("2026-01-01T00:10:01Z");
    assert_eq!(later.delete.len(), 1);
    assert!(matches!(later.phase, BuildPhase::Failed { .. }));
}

#[test]
fn jobs_of_earlier_specs_are_deleted() {
    let planned = plan_with(|o| o.other_jobs = vec![job("old", None)]);
    assert_eq!(planned.delete.len(), 1);
    assert!(planned.create.is_some());
}

//! Tests of the decision.

use serde_json::json;
use workload::Cause;

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

fn observed() -> Observed {
    Observed {
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

fn decided(edit: impl FnOnce(&mut Observed)) -> Decision {
    let mut observed = observed();
    edit(&mut observed);
    decide(&observed, at("2026-01-01T00:01:00Z"))
}

#[test]
fn an_image_is_built_where_the_registry_has_none() {
    let decision = decided(|_| {});
    assert_eq!((decision.stage, decision.make.is_some()), (Stage::Building { active: false, trouble: None }, true));
    for known in [None, Some(Ok(true))] {
        let decision = decided(|o| o.exists = known);
        assert_eq!((decision.stage, decision.make), (Stage::Available, None));
    }
    let down = decided(|o| o.exists = Some(Err(Hindrance::Unreachable("r is down".to_owned()))));
    assert_eq!((down.stage, down.make), (Stage::Unreachable("r is down".to_owned()), None));
    let closed = decided(|o| o.exists = Some(Err(Hindrance::Blocked("no login".to_owned()))));
    assert_eq!((closed.stage, closed.make), (Stage::Blocked("no login".to_owned()), None));
}

/// An image that was deleted while its Job was kept, for a day, was never built again.
#[test]
fn an_image_that_is_gone_is_built_again_although_its_job_is_there() {
    let complete = || Some(job("j", Some(("Complete", ""))));
    let gone = decided(|o| (o.job, o.rendered) = (complete(), None));
    assert_eq!(gone.stage, Stage::Building { active: false, trouble: None });
    assert_eq!((gone.delete.len(), gone.make), (1, None), "a Job of the same name is made once this one is gone");
    for known in [None, Some(Ok(true)), Some(Err(Hindrance::Unreachable("away".to_owned())))] {
        let decision = decided(|o| (o.job, o.exists) = (complete(), known));
        assert_eq!((decision.stage, decision.delete.len()), (Stage::Available, 0));
    }
    let going = decided(|o| {
        o.job = complete();
        let now = at("2026-01-01T00:00:30Z");
        o.job.as_mut().unwrap().metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
    });
    assert!(going.delete.is_empty());
}

#[test]
fn mistakes_are_told_and_nothing_is_made() {
    let wrong = decided(|o| o.image = Err("no".to_owned()));
    assert_eq!((wrong.stage, wrong.make), (Stage::Mistaken("no".to_owned()), None));
    let wrong = decided(|o| o.rendered = Some(Err(Hindrance::Mistake("no".to_owned()))));
    assert_eq!((wrong.stage, wrong.make), (Stage::Mistaken("no".to_owned()), None));
    let away = decided(|o| o.rendered = Some(Err(Hindrance::Unreachable("store".to_owned()))));
    assert_eq!((away.stage, away.make), (Stage::Unreachable("store".to_owned()), None));
}

#[test]
fn the_job_tells_how_far_the_build_is() {
    assert_eq!(decided(|o| o.job = Some(job("j", None))).stage, Stage::Building { active: true, trouble: None });
    let done = decided(|o| (o.job, o.exists) = (Some(job("j", Some(("Complete", "")))), None));
    assert_eq!(done.stage, Stage::Available);
    let trouble = Some(Diagnosis { cause: Cause::Unschedulable, message: "pod j-1: no node".to_owned() });
    let waits = decided(|o| {
        o.job = Some(job("j", None));
        o.waits.trouble = trouble.clone();
    });
    assert_eq!((waits.stage, waits.delete), (Stage::Building { active: true, trouble }, Vec::new()));
    let late = decided(|o| o.job = Some(job("j", Some(("Failed", "DeadlineExceeded")))));
    assert!(matches!(late.stage, Stage::Failed { late: true, .. }));
}

/// Defect of the operator of 2025: a failed build was told as Unknown, and was not tried again for a day.
#[test]
fn a_failed_build_says_so_with_its_log_and_is_tried_again() {
    let failed = |now: &str| {
        let job = Some(job("j", Some(("Failed", "BackoffLimitExceeded"))));
        let log = Some(Log { container: "builder".to_owned(), text: "error: no space left".to_owned() });
        let observed = Observed { job, log, ..observed() };
        decide(&observed, at(now))
    };
    let early = failed("2026-01-01T00:01:00Z");
    let Stage::Failed { late: false, message } = &early.stage else { panic!("{:?}", early.stage) };
    assert!(
        message.starts_with("Job j: m") && message.ends_with("container builder:\nerror: no space left"),
        "{message}"
    );
    assert!(early.delete.is_empty());
    let later = failed("2026-01-01T00:10:01Z");
    assert_eq!(later.delete.len(), 1);
    assert!(matches!(later.stage, Stage::Failed { .. }));
}

#[test]
fn jobs_of_earlier_specs_go() {
    let decision = decided(|o| o.other_jobs = vec![job("old", None)]);
    assert_eq!(decision.delete.len(), 1);
    assert!(decision.make.is_some());
}

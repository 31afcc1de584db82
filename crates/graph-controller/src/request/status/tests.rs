//! Cost of profiling over the whole life of a request.

use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

use super::*;
use crate::request::{fixtures::observed_with, plan::plan};

/// A request over time. Each pass plans, applies and writes its status; what there is beside it comes with
/// the look.
struct Life {
    generation: i64,
    status: Value,
}

impl Life {
    fn new() -> Self {
        Self { generation: 1, status: Value::Null }
    }

    /// Computes the status at that time, and returns the cost that it reports.
    fn look(&mut self, time: &str, job: Option<&Job>) -> Option<i64> {
        let now = at(time);
        let mut observed = observed_with(|request| {
            request["status"] = self.status.take();
            request["metadata"]["generation"] = json!(self.generation);
        });
        observed.job = job.cloned();
        let plan = plan(&observed, now);
        let job = plan.job.or(observed.job.clone());
        let (phase, findings) = (plan.phase, plan.findings);
        let applied = RequestApplied { phase, findings, job, made_graph: None, refused: Vec::new() };
        let status = status(&observed, &applied, now);
        self.status = json!(status);
        status.gpu_minutes
    }

    fn phase(&self) -> &str {
        self.status["phase"].as_str().unwrap()
    }
}

fn at(time: &str) -> Timestamp {
    format!("2026-01-01T{time}Z").parse().unwrap()
}

/// The Job of the request, whose pod has eight GPUs, with this status.
fn job(status: Value) -> Job {
    serde_json::from_value(json!({
        "metadata": { "name": "profile-chat", "namespace": "team-a", "ownerReferences": [{ "uid": "request-uid", "controller": true,
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentRequest", "name": "chat" }] },
        "spec": { "template": { "spec": { "containers": [
            { "name": "profiler", "resources": { "limits": { "nvidia.com/gpu": "8" } } }] } } },
        "status": status,
    }))
    .unwrap()
}

fn running(start: &str) -> Job {
    job(json!({ "startTime": at(start) }))
}

fn failed(start: &str, end: &str) -> Job {
    let failed = json!({ "type": "Failed", "status": "True", "lastTransitionTime": at(end) });
    job(json!({ "startTime": at(start), "conditions": [failed] }))
}

/// The same, which profiles for another spec than the present one.
fn of_another_spec(mut job: Job) -> Job {
    job.metadata.annotations = Some([("operator.dynamo/profiled-spec".to_owned(), "another".to_owned())].into());
    job
}

#[test]
fn what_is_spent_stays_spent() {
    let mut life = Life::new();
    assert_eq!(life.look("00:00:00", None), None, "its Job was made just now");
    let first = running("00:00:01");
    assert_eq!(life.look("00:00:01", Some(&first)), Some(0));
    assert_eq!(life.look("00:10:01", Some(&first)), Some(80));
    assert_eq!(life.look("00:10:20", Some(&first)), Some(80), "looking alone writes nothing");

    // The Job is deleted, and made again.
    assert_eq!((life.look("00:10:30", None), life.phase()), (Some(80), "Profiling"));
    let second = running("00:11:00");
    assert_eq!(life.look("00:12:00", Some(&second)), Some(88));
    let second = failed("00:11:00", "00:13:00");
    for time in ["00:20:00", "00:21:00"] {
        assert_eq!((life.look(time, Some(&second)), life.phase()), (Some(96), "Failed"), "exactly, and once");
    }

    // The spec is changed: the Job goes, and a third one comes.
    life.generation = 2;
    let second = of_another_spec(second);
    for time in ["00:25:00", "00:26:00"] {
        assert_eq!((life.look(time, Some(&second)), life.phase()), (Some(96), "Pending"));
    }
    assert_eq!((life.look("00:27:00", None), life.phase()), (Some(96), "Profiling"));
    assert_eq!(life.look("00:31:00", Some(&running("00:30:00"))), Some(104));
}

/// Its time begins anew when it goes on.
#[test]
fn a_suspended_job_has_cost_what_it_has_cost() {
    let mut life = Life::new();
    life.look("00:00:00", None);
    assert_eq!(life.look("00:01:00", Some(&running("00:00:00"))), Some(8));
    assert_eq!(life.look("00:02:00", Some(&job(json!({})))), Some(8));
    assert_eq!(life.look("00:06:00", Some(&running("00:05:00"))), Some(16));
}

/// The status is written in the step that deletes it, so nothing that it has cost is left out.
#[test]
fn a_job_that_is_deleted_while_it_runs_is_counted_to_its_end() {
    let stale = of_another_spec(running("00:00:00"));
    let mut life = Life::new();
    assert_eq!((life.look("00:00:15", Some(&stale)), life.phase()), (Some(2), "Pending"));
    assert_eq!(life.look("00:00:16", None), Some(2));
}

#[test]
fn trial_graphs_are_counted_on_when_a_profile_begins_anew() {
    let trials = json!({ "gpuSeconds": 90, "countedUntil": at("00:00:00"), "running": ["trial"] });
    let mut life = Life { generation: 2, ..Life::new() };
    life.status = json!({ "phase": "Failed", "observedGeneration": 1, "gpuMinutes": 2, "trialGraphs": trials });
    for (time, phase) in [("00:01:00", "Pending"), ("00:02:00", "Profiling")] {
        life.look(time, None);
        assert_eq!((life.phase(), &life.status["trialGraphs"]), (phase, &trials), "from where they were counted");
    }
    assert_eq!(life.look("00:04:00", Some(&running("00:03:00"))), Some(10));
}

#[test]
fn a_request_that_cannot_be_read_keeps_what_it_has_reached() {
    let before = RequestStatus {
        phase: Some(RequestPhase::Deployed),
        dgd_name: Some("chat-dgd".to_owned()),
        gpu_minutes: Some(7),
        ..Default::default()
    };
    let now = at("00:00:00");
    let status = of_unreadable(before.clone(), Some(2), "spec.overrides: too large", now);
    let again = of_unreadable(status.clone(), Some(2), "spec.overrides: too large", at("01:00:00"));
    assert_eq!(again, status, "nothing is written twice");
    let condition =
        |type_| find(&status.conditions, type_).map(|found| (found.status.as_str(), found.message.as_str()));
    assert_eq!(condition("Validation"), Some(("False", "spec.overrides: too large")));
    assert_eq!(condition("Stalled"), Some(("True", "spec.overrides: too large")));
    assert_eq!(status.observed_generation, Some(2));
    let kept = RequestStatus { conditions: Vec::new(), observed_generation: None, ..status };
    assert_eq!(kept, before);
}

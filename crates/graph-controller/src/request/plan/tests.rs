//! Every transition of a request, and the defects of the upstream operator as they are right.

use api_types::v1beta1::{ProfilingPhase, RequestPhase};
use controller_kit::conditions::find;
use k8s_openapi::{
    api::{batch::v1::Job, core::v1::ConfigMap},
    jiff::Timestamp,
};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::request::{
    fixtures::observed_with,
    model::{PlannedPhase, RequestApplied, RequestObserved, RequestPlan, Search},
    phase::begins,
    status::status,
};

const GRAPH: &str = "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nspec: {components: [{name: A}]}\n";

fn now() -> Timestamp {
    "2026-01-02T00:00:00Z".parse().unwrap()
}

fn owner() -> Value {
    json!([{ "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentRequest", "name": "chat",
        "uid": "request-uid", "controller": true }])
}

fn job(conditions: Value) -> Job {
    serde_json::from_value(json!({ "metadata": { "name": "profile-chat", "namespace": "team-a", "uid": "job",
        "ownerReferences": owner() }, "status": { "conditions": conditions, "completionTime": "2026-01-01T23:59:00Z" } }))
    .unwrap()
}

fn ended(how: &str) -> Value {
    json!([{ "type": how, "status": "True", "message": "it is over" }])
}

fn output(data: Value) -> ConfigMap {
    let metadata = json!({ "name": "dgdr-output-chat", "namespace": "team-a", "ownerReferences": owner() });
    serde_json::from_value(json!({ "metadata": metadata, "data": data })).unwrap()
}

fn in_phase(phase: &str) -> RequestObserved {
    observed_with(|r| r["status"] = json!({ "phase": phase, "observedGeneration": 1 }))
}

/// A request whose graph is known, after an edit of its status.
fn known(phase: &str, auto_apply: bool, edit: impl FnOnce(&mut Value)) -> RequestObserved {
    observed_with(|r| {
        let graph = json!({ "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
            "metadata": { "name": "chat-dgd" }, "spec": { "components": [{ "name": "A" }] } });
        r["spec"]["autoApply"] = json!(auto_apply);
        r["status"] = json!({ "phase": phase, "observedGeneration": 1, "dgdName": "chat-dgd",
            "profilingResults": { "selectedConfig": graph } });
        edit(&mut r["status"]);
    })
}

fn deployment(reason: &str) -> Value {
    json!([{ "type": "DeploymentReady", "status": "False", "reason": reason, "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z" }])
}

fn graph(state: &str, uid: Option<&str>) -> api_types::v1beta1::DynamoGraphDeployment {
    serde_json::from_value(json!({ "metadata": { "name": "chat-dgd", "namespace": "team-a", "uid": "graph-uid",
        "labels": { "dgdr.nvidia.com/name": "chat", "dgdr.nvidia.com/namespace": "team-a" },
        "annotations": uid.map(|uid| json!({ "operator.dynamo/request-uid": uid })) },
        "spec": { "components": [] },
        "status": { "state": state, "components": {
            "A": { "componentKind": "Deployment", "replicas": 2, "updatedReplicas": 2, "availableReplicas": 1 },
            "B": { "componentKind": "Deployment", "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1 } } } }))
    .unwrap()
}

/// Phase and reason of `Succeeded` after a plan was carried out as it is.
fn reported(observed: &RequestObserved, plan: RequestPlan) -> (RequestPhase, String) {
    let applied = RequestApplied {
        phase: plan.phase,
        findings: plan.findings,
        job: observed.job.clone(),
        made_graph: None,
        refused: Vec::new(),
    };
    let status = status(observed, &applied, now());
    let succeeded = find(&status.conditions, "Succeeded").unwrap();
    assert_eq!(succeeded.observed_generation, Some(1));
    (status.phase.unwrap(), succeeded.reason.clone())
}

fn follows(observed: &RequestObserved) -> (RequestPhase, String) {
    reported(observed, super::plan(observed, now()))
}

#[test]
fn a_right_spec_starts_the_profiler_at_once() {
    let observed = observed_with(|_| ());
    let plan = super::plan(&observed, now());
    assert_eq!(plan.job.as_ref().unwrap().name_any(), "profile-chat");
    assert_eq!(plan.account.as_ref().unwrap().binding.role_ref.name, "role");
    assert_eq!(reported(&observed, plan), (RequestPhase::Profiling, "Profiling".into()));
}

#[test]
fn a_wrong_spec_fails_with_every_violation_and_makes_nothing() {
    let mut observed = observed_with(|r| {
        r["spec"]["backend"] = json!("auto");
        r["spec"]["searchStrategy"] = json!("thorough");
        r["spec"]["image"] = json!("");
        r["spec"]["hardware"] = json!({ "vramMb": 1 });
    });
    observed.missing_claim = Some("weights".into());
    observed.hardware = Search::Nothing("no node has GPUs".into());
    let plan = super::plan(&observed, now());
    let PlannedPhase::Invalid { message, outside } = &plan.phase else { panic!("{:?}", plan.phase) };
    for part in ["spec.searchStrategy", "team-a/weights", "spec.image", "gpuSku, numGpusPerNode are not known"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(outside);
    assert_eq!(reported(&observed, plan), (RequestPhase::Failed, "ValidationFailed".into()));
}

/// An exporter behind a NetworkPolicy, say: it may answer the next time, and the status must show its
/// address.
#[test]
fn an_exporter_that_does_not_answer_leaves_the_request_pending_and_is_named() {
    let mut observed = observed_with(|r| r["spec"]["hardware"] = json!({}));
    observed.hardware = Search::Unanswered("http://10.0.0.1:9400 of node a: no answer".into());
    let plan = super::plan(&observed, now());
    assert_eq!(plan.job, None);
    let PlannedPhase::Waiting(message) = &plan.phase else { panic!("{:?}", plan.phase) };
    assert!(message.contains("10.0.0.1:9400 of node a") && message.contains("set gpuSku"), "{message}");
    assert_eq!(reported(&observed, plan), (RequestPhase::Pending, "Pending".into()));

    observed.missing_claim = Some("weights".into());
    assert!(
        matches!(super::plan(&observed, now()).phase, PlannedPhase::Invalid { outside: true, .. }),
        "no answer mends this"
    );
}

#[test]
fn profiling_goes_through_its_phases() {
    let mut observed = in_phase("Profiling");
    observed.job = Some(job(json!([])));
    let reason = |observed: &RequestObserved| {
        let plan = super::plan(observed, now());
        let applied = RequestApplied {
            phase: plan.phase,
            findings: plan.findings,
            job: None,
            made_graph: None,
            refused: Vec::new(),
        };
        let status = status(observed, &applied, now());
        (status.profiling_phase, find(&status.conditions, "Profiling").unwrap().reason.clone())
    };
    assert_eq!(reason(&observed), (None, "ProfilingRunning".into()));
    observed.output = Some(output(json!({ "phase": "SweepingDecode", "message": "3 of 8" })));
    assert_eq!(reason(&observed), (Some(ProfilingPhase::SweepingDecode), "SweepingDecode".into()));
    observed.output = Some(output(json!({ "phase": "Done" })));
    assert_eq!(reason(&observed), (Some(ProfilingPhase::Done), "Completed".into()));
}

#[test]
fn a_profiler_whose_pod_does_not_run_says_why() {
    let reported = |pod: Value| {
        let pod = json!({ "metadata": { "name": "profile-chat-1" }, "status": pod });
        let mut observed = in_phase("Profiling");
        observed.job = Some(job(json!([])));
        observed.waits.trouble = rendering::diagnose(&[serde_json::from_value(pod).unwrap()]);
        let RequestPlan { phase, findings, .. } = super::plan(&observed, now());
        let applied = RequestApplied { phase, findings, job: None, made_graph: None, refused: Vec::new() };
        let conditions = status(&observed, &applied, now()).conditions;
        let says = |type_: &str| find(&conditions, type_).map(|c| (c.reason.clone(), c.message.clone())).unwrap();
        (says("Stalled"), says("Profiling"), says("Ready").1)
    };
    let words = "pod profile-chat-1: 0/3 nodes are available".to_owned();
    let unplaced = json!({ "phase": "Pending", "conditions": [
        { "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available" }] });
    let (stalled, profiling, ready) = reported(unplaced);
    assert_eq!(stalled.0, "Progressing", "a node may come");
    assert_eq!((profiling, ready), (("ProfilingRunning".to_owned(), words.clone()), words));
    let ended = json!({ "phase": "Failed", "containerStatuses": [{ "name": "profiler", "image": "i", "imageID": "",
        "ready": false, "restartCount": 0, "state": { "terminated": { "exitCode": 1, "reason": "Error" } } }] });
    let (stalled, profiling, _) = reported(ended);
    assert_eq!(stalled.0, "Progressing", "the Job may try again, or says that it does not");
    assert!(profiling.1.contains("container profiler"), "{profiling:?}");
    let imageless = json!({ "phase": "Pending", "containerStatuses": [{ "name": "profiler", "image": "i", "imageID": "",
        "ready": false, "restartCount": 0, "state": { "waiting": { "reason": "ErrImagePull", "message": "no such image" } } }] });
    let ((reason, message), ..) = reported(imageless);
    assert!(reason == "PodCannotStart" && message.contains("no such image"), "{reason}: {message}");
    let starting = json!({ "phase": "Pending", "containerStatuses": [{ "name": "profiler", "image": "i", "imageID": "",
        "ready": false, "restartCount": 0, "state": { "waiting": { "reason": "ContainerCreating" } } }] });
    let (stalled, profiling, _) = reported(starting);
    assert_eq!(stalled.0, "Progressing", "no action of a user is needed");
    assert!(profiling.1.contains("container profiler"), "{profiling:?}");
}

#[test]
fn a_profile_becomes_a_graph_or_waits_for_approval() {
    for (auto_apply, expected) in [
        (true, (RequestPhase::Deploying, "Deploying".to_owned())),
        (false, (RequestPhase::Ready, "SpecGenerated".to_owned())),
    ] {
        let mut observed = in_phase("Profiling");
        observed.request.spec.auto_apply = auto_apply;
        observed.job = Some(job(ended("Complete")));
        let text = format!("{GRAPH}---\nkind: ConfigMap\nmetadata: {{name: data}}\n");
        observed.output = Some(output(json!({ "profiler_status": "success", "final_config.yaml": text })));
        let plan = super::plan(&observed, now());
        let labels = plan.config_maps[0].labels();
        assert_eq!(labels["dgdr.nvidia.com/name"], "chat");
        assert_eq!(plan.findings.graph.as_ref().unwrap().0, "chat-dgd");
        assert_eq!(reported(&observed, plan), expected);
    }
}

#[test]
fn a_failed_profile_says_why() {
    let failure = |conditions: Value, data: Value| {
        let mut observed = in_phase("Profiling");
        observed.job = Some(job(conditions));
        observed.output = Some(output(data));
        observed.pod_failures = vec!["container profiler ended with 1 (Error)".into()];
        match super::plan(&observed, now()).phase {
            PlannedPhase::ProfilingFailed(message) => message,
            other => panic!("{other:?}"),
        }
    };
    let said = json!({ "profiler_status": "failed", "profiler_error": "no such model" });
    assert_eq!(failure(ended("Failed"), said.clone()), "no such model");
    assert_eq!(failure(ended("Complete"), said), "no such model");
    assert_eq!(failure(ended("Failed"), json!({})), "it is over; container profiler ended with 1 (Error)");
}

#[test]
fn the_graph_is_made_once_and_followed() {
    let observed = known("Deploying", true, |_| ());
    let made = super::plan(&observed, now()).graph.unwrap();
    assert_eq!(made["metadata"]["labels"]["dgdr.nvidia.com/name"], "chat");
    assert_eq!(made["metadata"]["annotations"]["operator.dynamo/request-uid"], "request-uid");
    for (state, phase, expected) in [
        ("pending", "Deploying", (RequestPhase::Deploying, "Deploying")),
        ("successful", "Deploying", (RequestPhase::Deployed, "Deployed")),
        ("pending", "Deployed", (RequestPhase::Deploying, "Deploying")),
    ] {
        let mut observed = known(phase, true, |_| ());
        observed.graph = Some(graph(state, Some("request-uid")));
        assert_eq!(follows(&observed), (expected.0, expected.1.to_owned()), "{state} in {phase}");
    }
}

#[test]
fn a_graph_that_served_and_no_longer_does_is_degraded_until_it_serves() {
    let mut observed = known("Deployed", true, |_| ());
    observed.graph = Some(graph("pending", None));
    let reason = |observed: &RequestObserved| match super::plan(observed, now()).phase {
        PlannedPhase::Deploying { reason, .. } => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(reason(&observed), "DeploymentDegraded");
    let mut later = known("Deploying", true, |s| s["conditions"] = deployment("DeploymentDegraded"));
    later.graph = Some(graph("pending", None));
    assert_eq!(reason(&later), "DeploymentDegraded");
}

#[test]
fn a_graph_that_was_deleted_is_not_made_again() {
    let observed = known("Deployed", true, |s| s["conditions"] = deployment("DeploymentReady"));
    let plan = super::plan(&observed, now());
    assert!(plan.graph.is_none());
    assert_eq!(reported(&observed, plan), (RequestPhase::Failed, "DeploymentDeleted".into()));
}

#[test]
fn approval_makes_the_graph_with_the_runtime_of_that_moment() {
    let waiting = known("Ready", false, |_| ());
    assert_eq!(follows(&waiting), (RequestPhase::Ready, "SpecGenerated".into()));
    let mut approved = known("Ready", true, |_| ());
    approved.request.spec.runtime_version_override = Some("1.6.0".into());
    let graph = super::plan(&approved, now()).graph.unwrap();
    assert_eq!(graph["spec"]["components"][0]["runtimeVersionOverride"], "1.6.0");
}

#[test]
fn config_maps_become_the_graphs() {
    let mut observed = known("Deploying", true, |_| ());
    observed.graph = Some(graph("pending", None));
    let map = |name: &str, owners: Value| -> ConfigMap {
        serde_json::from_value(json!({ "metadata": { "name": name, "ownerReferences": owners } })).unwrap()
    };
    observed.config_maps = vec![map("data", json!([])), map("owned", owner()), map("dgdr-output-chat", json!([]))];
    let given = super::plan(&observed, now()).hand_over;
    assert_eq!(given.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["data"]);
}

/// In the upstream operator, a Job that cannot be read ends the request.
#[test]
fn a_job_that_was_deleted_is_made_again_and_one_that_ended_is_not_needed() {
    let mut observed = in_phase("Profiling");
    assert!(super::plan(&observed, now()).job.is_some());
    assert!(begins(&observed), "and its surroundings are looked at before");

    // Hardware that was found for the first Job serves the second, even if no node with GPUs is there at the moment.
    let mut found = observed_with(|r| {
        r["spec"].as_object_mut().unwrap().remove("hardware");
        r["status"] = json!({ "phase": "Profiling", "observedGeneration": 1, "profilingJobName": "profile-chat",
            "hardware": { "gpuSku": "h100_sxm", "vramMb": 81920, "numGpusPerNode": 8 } });
    });
    for search in [Search::NotAsked, Search::Nothing("no node has GPUs".into())] {
        found.hardware = search;
        let plan = super::plan(&found, now());
        let config = plan.job.as_ref().unwrap().spec.as_ref().unwrap().template.spec.as_ref().unwrap();
        assert!(config.containers[0].args.as_ref().unwrap()[1].contains("h100_sxm"));
        assert_eq!(reported(&found, plan), (RequestPhase::Profiling, "Profiling".into()));
    }

    observed.job = Some(job(json!([])));
    assert!(!begins(&observed), "nothing is looked at while it runs");
    observed.job = None;
    observed.output = Some(output(json!({ "profiler_status": "success", "final_config.yaml": GRAPH })));
    assert!(!begins(&observed));
    assert_eq!(follows(&observed), (RequestPhase::Deploying, "Deploying".into()));
}

/// A foreign object of the name of the output is reported before the profiler runs for hours, and is neither taken nor
/// deleted.
#[test]
fn a_config_map_of_another_owner_keeps_the_profiler_from_starting() {
    let mut observed = observed_with(|_| ());
    let mut foreign = output(json!({}));
    foreign.metadata.owner_references = None;
    observed.output = Some(foreign);
    let plan = super::plan(&observed, now());
    let PlannedPhase::Blocked { reason: "NameTaken", message } = &plan.phase else { panic!("{:?}", plan.phase) };
    assert!(message.contains("ConfigMap team-a/dgdr-output-chat"), "{message}");
    assert!(plan.job.is_none() && plan.delete_output.is_none());
}

/// In the upstream operator, a change of the spec while profiling stops the request for ever, even if it is taken back
///.
#[test]
fn a_late_change_of_the_spec_is_reported_and_stops_nothing() {
    let mut observed = in_phase("Profiling");
    let mut job = job(json!([]));
    job.metadata.annotations = Some([("operator.dynamo/profiled-spec".to_owned(), "another".to_owned())].into());
    observed.job = Some(job);
    let plan = super::plan(&observed, now());
    assert!(plan.findings.drift.is_some());
    assert_eq!(reported(&observed, plan), (RequestPhase::Profiling, "Profiling".into()));
    observed.job = super::plan(&observed_with(|_| ()), now()).job;
    let plan = super::plan(&observed, now());
    assert_eq!(plan.findings.drift, None);
}

/// In the upstream operator, a Job of an earlier spec is changed, which no Job can be.
#[test]
fn a_job_of_an_earlier_spec_goes_before_another_is_made() {
    let mut observed = observed_with(|_| ());
    let mut old = job(json!([]));
    old.metadata.annotations = Some([("operator.dynamo/profiled-spec".to_owned(), "earlier".to_owned())].into());
    observed.job = Some(old);
    let plan = super::plan(&observed, now());
    assert!(plan.delete_job.is_some() && plan.job.is_none());
    assert_eq!(reported(&observed, plan), (RequestPhase::Pending, "Pending".into()));
    observed.job = None;
    observed.output = Some(output(json!({})));
    let plan = super::plan(&observed, now());
    assert!(plan.delete_output.is_some() && plan.job.is_none(), "nor is its output taken for that of another");
}

/// In the upstream operator, any graph of the expected name is taken for the request's.
#[test]
fn a_graph_of_another_owner_is_not_adopted() {
    let mut observed = known("Deploying", true, |_| ());
    observed.graph = Some(graph("successful", Some("another-request")));
    let plan = super::plan(&observed, now());
    let PlannedPhase::Deploying { reason: "NameTaken", message, stuck: true } = &plan.phase else {
        panic!("{:?}", plan.phase)
    };
    assert!(message.contains("team-a/chat-dgd"), "{message}");
    assert!(plan.hand_over.is_empty() && plan.graph.is_none());
}

/// In the upstream operator, an unknown word of the profiler is an error without end.
#[test]
fn an_unknown_word_of_the_profiler_hinders_nothing() {
    let mut observed =
        observed_with(|r| r["status"] = json!({ "phase": "Profiling", "profilingPhase": "SweepingPrefill" }));
    observed.job = Some(job(json!([])));
    observed.output = Some(output(json!({ "phase": "Dreaming", "message": "of sheep" })));
    let PlannedPhase::Profiling(profiling) = super::plan(&observed, now()).phase else { panic!("it goes on") };
    assert_eq!((profiling.phase, profiling.message.as_str()), (Some(ProfilingPhase::SweepingPrefill), "of sheep"));
}

/// In the upstream operator, a profile whose output does not arrive is waited for without end.
#[test]
fn output_that_does_not_arrive_is_given_up() {
    let mut observed = in_phase("Profiling");
    observed.job = Some(job(ended("Complete")));
    let PlannedPhase::Profiling(profiling) = super::plan(&observed, now()).phase else { panic!("it waits") };
    assert_eq!(profiling.until.unwrap().duration_since(now()).as_secs(), 120);
    observed.output_missing_for = std::time::Duration::from_secs(120);
    let PlannedPhase::GenerationFailed(message) = super::plan(&observed, now()).phase else { panic!("it ends") };
    assert!(message.contains("dgdr-output-chat"), "{message}");
}

/// Defect: the time was measured from the Job controller's clock, and a cache that lagged cost a profile of hours.
#[test]
fn an_output_counts_as_lost_only_after_we_have_waited_for_it() {
    let mut observed = in_phase("Profiling");
    observed.job = Some(job(ended("Complete")));
    let later = now().checked_add(std::time::Duration::from_secs(3600)).unwrap();
    assert!(matches!(super::plan(&observed, later).phase, PlannedPhase::Profiling(_)), "first seen complete just now");
}

/// Defect: an output that came after the wait was left, and deleted with the next change of the spec.
#[test]
fn an_output_that_comes_late_is_used() {
    let mut observed = observed_with(|r| {
        let failed = json!([{ "type": "SpecGenerated", "status": "False", "reason": "GenerationFailed", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
        r["status"] = json!({ "phase": "Failed", "observedGeneration": 1, "conditions": failed });
    });
    observed.job = Some(job(ended("Complete")));
    assert_eq!(super::plan(&observed, now()), RequestPlan::default());
    observed.output = Some(output(json!({ "profiler_status": "success", "final_config.yaml": GRAPH })));
    assert!(super::plan(&observed, now()).findings.graph.is_some(), "{:?}", super::plan(&observed, now()).phase);
}

/// The way out of the phase Failed: what was profiled for the same spec is used again.
#[test]
fn a_failed_request_whose_spec_changed_begins_again() {
    let failed = |r: &mut Value| {
        r["metadata"]["generation"] = json!(2);
        r["status"]["phase"] = json!("Failed");
    };
    let mut observed = observed_with(|r| {
        r["status"] = json!({ "observedGeneration": 1 });
        failed(r);
    });
    observed.job = Some(job(ended("Failed")));
    let plan = super::plan(&observed, now());
    assert!(plan.delete_job.is_some());
    let mut deleted = known("Failed", true, |s| s["conditions"] = deployment("DeploymentDeleted"));
    deleted.request.metadata.generation = Some(2);
    let mut profiled = super::plan(&observed_with(|_| ()), now()).job.unwrap();
    profiled.metadata.uid = Some("job".into());
    deleted.job = Some(profiled);
    assert!(super::plan(&deleted, now()).graph.is_some());
    let ended = in_phase("Failed");
    assert_eq!(super::plan(&ended, now()), RequestPlan::default(), "nothing happens without a change");
}

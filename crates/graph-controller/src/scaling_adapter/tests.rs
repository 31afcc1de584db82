//! Tests of the pure phases: what an adapter requests, and its status and events.

use std::time::Duration;

use controller_kit::events::{Event, EventType};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Value, json};

use super::{model::ComponentScale, observe::first_of, *};
use crate::graph::fixtures::graph_with;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

type Planned = Result<ScalingAdapterPlan, NoEffect>;

fn planned(replicas: i32, edit: impl FnOnce(&mut Value)) -> Planned {
    plan::plan(&observed(replicas, edit))
}

fn scale(plan: Planned) -> Option<ComponentScale> {
    plan.unwrap().scale
}

fn status_of(plan: Planned, outcome: ScaleOutcome) -> Option<Status> {
    status::of_applied(&ScalingAdapterApplied { plan, outcome }, NOW)
}

fn event(plan: Planned, outcome: ScaleOutcome) -> Option<Event> {
    events::of_applied(&ScalingAdapterApplied { plan, outcome })
}

fn observed(replicas: i32, edit: impl FnOnce(&mut Value)) -> ScalingAdapterObserved {
    let graph = graph_with(|g| {
        g["spec"]["components"][1]["scalingAdapter"] = json!({});
        edit(g);
    });
    let adapter = serde_json::from_value(json!({
        "metadata": { "name": "chat-decode", "namespace": "team-a" },
        "spec": { "replicas": replicas, "dgdRef": { "name": "chat", "componentName": "Decode" } },
    }));
    ScalingAdapterObserved { adapter: adapter.unwrap(), graph: Some(graph), preceded_by: None, pause: None }
}

/// Found defect: two adapters for one component overwrote each other's replicas without end.
#[test]
fn one_adapter_scales_a_component_and_another_says_so() {
    let meta = |name: &str, second: i64, owner: Option<&str>, deleted: bool| {
        let owner =
            owner.map(|uid| json!({ "apiVersion": "x/v1", "kind": "X", "name": "x", "uid": uid, "controller": true }));
        let mut meta: ObjectMeta = serde_json::from_value(json!({ "name": name,
            "creationTimestamp": Timestamp::from_second(second).unwrap().to_string() }))
        .unwrap();
        meta.owner_references = owner.map(|owner| vec![serde_json::from_value(owner).unwrap()]);
        meta.deletion_timestamp = deleted.then_some(Time(NOW));
        meta
    };
    let (old, same, new) = (meta("b", 1, None, false), meta("a", 2, None, false), meta("z", 2, None, false));
    let (own, other) = (meta("own", 9, Some("u"), false), meta("0", 0, Some("of-another"), false));
    let table = [
        (vec![], None),
        (vec![same.clone(), old.clone(), new.clone()], Some("b")),
        (vec![new.clone(), same.clone()], Some("a")),
        (vec![old.clone(), own.clone(), same.clone()], Some("own")),
        (vec![old.clone(), other.clone()], Some("0")),
        (vec![own, other], Some("own")),
        (vec![meta("going", 0, Some("u"), true), same], Some("a")),
    ];
    for (adapters, expected) in table {
        assert_eq!(first_of(&adapters, Some("u")), expected, "{adapters:?}");
    }
    let mut observed = observed(7, |_| {});
    observed.preceded_by = Some("chat-decode".to_owned());
    let idle = plan::plan(&observed);
    assert_eq!(status_of(idle.clone(), ScaleOutcome::Unchanged), None, "it writes nothing");
    let event = event(idle, ScaleOutcome::Unchanged).unwrap();
    assert_eq!((event.type_, event.reason.as_str()), (EventType::Warning, "AnotherAdapterScales"));
    assert!(event.note.contains("is scaled by DynamoGraphDeploymentScalingAdapter chat-decode"), "{}", event.note);
}

#[test]
fn a_change_waits_for_the_end_of_the_pause() {
    let rest = Duration::from_millis(600);
    let paused = |replicas| ScalingAdapterObserved { pause: Some(rest), ..observed(replicas, |_| {}) };
    let Ok(ScalingAdapterPlan { scale: None, delayed, .. }) = plan::plan(&paused(7)) else { panic!("not delayed") };
    assert_eq!(delayed, Some(rest));
    let Ok(ScalingAdapterPlan { scale: None, delayed, .. }) = plan::plan(&paused(4)) else { panic!("nothing to do") };
    assert_eq!(delayed, None, "nothing waits");
}

#[test]
fn the_adapter_is_the_source_of_truth() {
    let plan = planned(7, |_| {});
    assert_eq!(status_of(plan.clone(), ScaleOutcome::Scaled).unwrap().last_scale_time, Some(Time(NOW)));
    assert_eq!(scale(plan), Some(ComponentScale { index: 1, component: "Decode".into(), from: Some(4), to: 7 }));
    assert_eq!(scale(planned(4, |_| {})), None);
    assert_eq!(scale(planned(1, |g| g["spec"]["components"][1]["replicas"] = json!(null))), None, "none means one");
    assert_eq!(scale(planned(0, |_| {})).unwrap().to, 0, "zero is a number like any other");
}

#[test]
fn the_status_counts_the_pods_that_there_are() {
    let counts = |g: &mut Value| {
        g["status"] = json!({ "state": "pending", "components": { "Decode": {
            "componentKind": "Deployment", "replicas": 2, "updatedReplicas": 2 } } });
    };
    let status = status_of(planned(4, counts), ScaleOutcome::Unchanged).unwrap();
    assert_eq!((status.replicas, status.last_scale_time), (2, None));
    let selector = "nvidia.com/dynamo-component=Decode,nvidia.com/dynamo-graph-deployment-name=chat";
    assert_eq!(status.selector.as_deref(), Some(selector));
    let of_kind = |kind: &str| {
        let status = json!({ "state": "pending", "components": { "Decode": { "componentKind": kind, "replicas": 2,
            "updatedReplicas": 2 } } });
        status_of(planned(4, |g| g["status"] = status), ScaleOutcome::Unchanged).unwrap().selector.unwrap()
    };
    // Defect: an autoscaler by CPU made nodeCount times as many replicas, because the pods of all nodes were selected.
    let leaders = format!("{selector},leaderworkerset.sigs.k8s.io/worker-index=0");
    assert_eq!(of_kind("LeaderWorkerSet"), leaders);
    assert_eq!(of_kind("PodCliqueScalingGroup"), selector);
}

#[test]
fn an_adapter_without_effect_says_why() {
    let why = |edit: fn(&mut Value)| event(planned(7, edit), ScaleOutcome::Unchanged).unwrap().note;
    assert!(why(|g| g["spec"]["components"][1]["scalingAdapter"] = json!(null)).contains("has no scalingAdapter"));
    assert!(why(|g| g["spec"]["components"][1]["name"] = json!("Other")).contains("has no component Decode"));
    let done = event(planned(7, |_| {}), ScaleOutcome::Scaled).unwrap();
    assert_eq!(done.note, "component Decode goes from 4 to 7 replicas");
    assert_eq!(event(planned(7, |_| {}), ScaleOutcome::Unchanged), None, "nothing was scaled");
}

#[test]
fn a_rejected_scale_is_in_an_event_and_has_no_time() {
    let plan = planned(7, |_| {});
    let rejected = || ScaleOutcome::Rejected("spec: too many".into());
    let event = event(plan.clone(), rejected()).unwrap();
    assert_eq!((event.type_, event.reason.as_str()), (EventType::Warning, "UpdateFailed"));
    assert_eq!(event.note, "component Decode cannot go from 4 to 7 replicas: spec: too many");
    assert_eq!(status_of(plan, rejected()).unwrap().last_scale_time, None);
}

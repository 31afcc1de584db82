//! Scaling adapters, as autoscalers and users use them.

use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter};
use k8s_openapi::api::{autoscaling::v2::HorizontalPodAutoscaler, events::v1::Event};
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use test_cluster::wait;

use crate::harness::{Harness, LIMIT, graph};

type Adapter = DynamoGraphDeploymentScalingAdapter;

fn with_adapter(name: &str) -> Value {
    graph(name, |g| g["spec"]["components"][1]["scalingAdapter"] = json!({}))
}

fn replicas(graph: &DynamoGraphDeployment) -> Option<i32> {
    graph.spec.components.iter().find(|component| component.name == "Decode")?.replicas
}

/// As `kubectl scale` and autoscalers do, by the scale subresource.
async fn scale(harness: &Harness, adapter: &str, replicas: i32) {
    let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    harness.api::<Adapter>().patch_scale(adapter, &PatchParams::default(), &patch).await.unwrap();
}

/// Waits until something is said about an object, and gives all that was said of this reason.
async fn reported(harness: &Harness, about: &str, reason: &str) -> Vec<Event> {
    let events = harness.api::<Event>();
    let look = async || {
        let mut all = events.list(&ListParams::default()).await.unwrap().items;
        let is_about =
            |event: &Event| event.regarding.as_ref().and_then(|object| object.name.as_deref()) == Some(about);
        all.retain(|event| event.reason.as_deref() == Some(reason) && is_about(event));
        Some(all).filter(|all| !all.is_empty())
    };
    wait::until(format!("{reason} of {about}"), LIMIT, look).await.unwrap()
}

/// The upstream operator records an event of the rejection, again with each try. Without one, an autoscaler would go on
/// by an old count for ever.
#[tokio::test]
async fn a_rejected_scale_is_reported_once_and_delays_no_status() {
    let harness = Harness::new("refused").await;
    let mut graph = with_adapter("chat");
    let worker = &mut graph["spec"]["components"][1];
    (worker["replicas"], worker["minAvailable"]) = (json!(3), json!(2));
    harness.apply(&graph).await;
    let selects = |a: &Adapter| {
        let selector = a.status.as_ref().and_then(|status| status.selector.as_deref());
        selector.is_some_and(|selector| selector.starts_with("nvidia.com/dynamo-component=Decode"))
    };
    harness.until("chat-decode", "there", selects).await;

    scale(&harness, "chat-decode", 1).await;
    let events = reported(&harness, "chat-decode", "UpdateFailed").await;
    let note = events[0].note.as_deref().unwrap();
    assert!(note.contains("cannot go from 3 to 1 replicas") && note.contains("minAvailable"), "{note}");

    let stale = Patch::Merge(json!({ "status": { "replicas": 0, "selector": "of=before" } }));
    harness.api::<Adapter>().patch_status("chat-decode", &PatchParams::default(), &stale).await.unwrap();
    let adapter = harness.until("chat-decode", "up to date", selects).await;
    assert_eq!(adapter.status.unwrap().last_scale_time, None, "nothing was scaled");
    let events = reported(&harness, "chat-decode", "UpdateFailed").await;
    assert!(events.len() == 1 && events[0].series.is_none(), "{events:?}");

    scale(&harness, "chat-decode", 4).await;
    harness.until("chat", "scaled", |g: &DynamoGraphDeployment| replicas(g) == Some(4)).await;
}

#[tokio::test]
async fn what_is_set_on_the_adapter_reaches_the_workers_and_the_status() {
    let harness = Harness::new("scaling").await;
    harness.apply(&with_adapter("chat")).await;
    harness.ready("chat").await;
    let adapter = harness.until("chat-decode", "there", |a: &Adapter| a.status.is_some()).await;
    assert_eq!(adapter.spec.replicas, 1);

    for expected in [3, 0, 2] {
        scale(&harness, "chat-decode", expected).await;
        harness.until("chat", "scaled", |g: &DynamoGraphDeployment| replicas(g) == Some(expected)).await;
        let worker = harness.component("chat", "Decode").await;
        let is_scaled = |d: &DynamoComponentDeployment| d.spec.component.replicas == Some(expected);
        harness.until(worker.metadata.name.as_deref().unwrap(), "scaled", is_scaled).await;
        harness.ready("chat").await;
        let counted =
            |a: &Adapter| a.status.as_ref().is_some_and(|s| s.replicas == expected && s.last_scale_time.is_some());
        harness.until("chat-decode", "counted", counted).await;
    }
    assert_eq!(harness.components("chat").await.len(), 2, "scaling makes no new revision");
    harness.until_counted("DynamoGraphDeployment", "successful").await;
    harness.until_counted("DynamoGraphDeploymentScalingAdapter", "ready").await;
    let scale = harness.api::<Adapter>().get_scale("chat-decode").await.unwrap();
    let selector = scale.status.unwrap().selector.unwrap();
    assert_eq!(selector, "nvidia.com/dynamo-component=Decode,nvidia.com/dynamo-graph-deployment-name=chat");
}

#[tokio::test]
async fn a_count_that_is_set_on_the_graph_is_brought_back() {
    let harness = Harness::new("truth").await;
    harness.apply(&with_adapter("chat")).await;
    harness.until("chat-decode", "there", |_: &Adapter| true).await;
    scale(&harness, "chat-decode", 3).await;
    harness.until("chat", "scaled", |g: &DynamoGraphDeployment| replicas(g) == Some(3)).await;
    let has_three = |d: &DynamoComponentDeployment| d.spec.component.replicas == Some(3);
    let worker = harness.component("chat", "Decode").await;
    let scaled = harness.until(&worker.name_any(), "scaled", has_three).await;
    // The user's file says 1, and the user forces it.
    for _ in 0..5 {
        harness.apply(&with_adapter("chat")).await;
        harness.until("chat", "brought back", |g: &DynamoGraphDeployment| replicas(g) == Some(3)).await;
    }
    assert_eq!(harness.api::<Adapter>().get("chat-decode").await.unwrap().spec.replicas, 3);
    harness.until_reconciled("chat").await;
    let after = harness.until(&worker.name_any(), "as it was", has_three).await;
    assert_eq!(after.metadata.generation, scaled.metadata.generation, "workers were taken away meanwhile");
}

/// The upstream operator sends a deletion for every component without adapter, whosever object has that name.
#[tokio::test]
async fn an_adapter_goes_with_its_marker_and_others_stay() {
    let harness = Harness::new("marker").await;
    let theirs = json!({ "metadata": { "name": "chat-frontend" },
        "spec": { "replicas": 5, "dgdRef": { "name": "chat", "componentName": "Frontend" } } });
    let theirs: Adapter = serde_json::from_value(theirs).unwrap();
    harness.api().create(&PostParams::default(), &theirs).await.unwrap();
    harness.apply(&with_adapter("chat")).await;
    harness.until("chat-decode", "there", |_: &Adapter| true).await;
    harness.edit("chat", &json!({ "spec": { "components": graph("chat", |_| {})["spec"]["components"] } })).await;
    harness.gone::<Adapter>("chat-decode").await;
    for reason in ["AdapterCreated", "AdapterDeleted"] {
        let events = reported(&harness, "chat", reason).await;
        assert_eq!(events.len(), 1, "{events:?}");
        assert!(events[0].note.as_deref().unwrap().contains("chat-decode"), "{events:?}");
    }
    harness.ready("chat").await;
    let left = harness.api::<Adapter>().get("chat-frontend").await.unwrap();
    assert_eq!((left.spec.replicas, left.status), (5, None), "the component does not specify it");
    let graph = harness.api::<DynamoGraphDeployment>().get("chat").await.unwrap();
    assert_eq!(graph.spec.components[0].replicas, Some(1));

    // A repetition counts in the series of the first event.
    harness.apply(&with_adapter("chat")).await;
    harness.until("chat-decode", "there again", |_: &Adapter| true).await;
    let counted = async || {
        let events = reported(&harness, "chat", "AdapterCreated").await;
        let counts: Vec<_> = events.iter().map(|event| event.series.as_ref().map(|series| series.count)).collect();
        if counts == [Some(2)] { Ok(()) } else { Err(format!("{counts:?}")) }
    };
    wait::until("the event to be counted", LIMIT, counted).await.unwrap();
}

/// Found defect: each of the two overwrote the other's replicas, as fast as the API server could take it.
#[tokio::test]
async fn two_adapters_for_one_component_write_nothing_in_turn() {
    let harness = Harness::new("rivals").await;
    harness.apply(&with_adapter("chat")).await;
    harness.until("chat-decode", "there", |a: &Adapter| a.status.is_some()).await;
    let rival = json!({ "metadata": { "name": "a-rival" },
        "spec": { "replicas": 5, "dgdRef": { "name": "chat", "componentName": "Decode" } } });
    harness.api().create(&PostParams::default(), &serde_json::from_value::<Adapter>(rival).unwrap()).await.unwrap();
    let events = reported(&harness, "a-rival", "AnotherAdapterScales").await;
    assert!(events[0].note.as_deref().unwrap().contains("chat-decode"), "{events:?}");
    let before = harness.api::<DynamoGraphDeployment>().get("chat").await.unwrap();
    for _ in 0..2 {
        harness.until_reconciled("chat").await;
    }
    let after = harness.api::<DynamoGraphDeployment>().get("chat").await.unwrap();
    assert_eq!((after.metadata.generation, replicas(&after)), (before.metadata.generation, Some(1)));
    assert_eq!(harness.api::<Adapter>().get("a-rival").await.unwrap().status, None);
}

#[tokio::test]
async fn a_real_autoscaler_scales_the_component() {
    let harness = Harness::new("autoscaler").await;
    harness.apply(&with_adapter("chat")).await;
    harness.ready("chat").await;
    harness.until("chat-decode", "there", |a: &Adapter| a.status.is_some()).await;
    // Below its minimum an autoscaler acts even without a metric, which is not served here.
    let autoscaler: HorizontalPodAutoscaler = serde_json::from_value(json!({
        "metadata": { "name": "decode" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentScalingAdapter",
                "name": "chat-decode" },
            "minReplicas": 2, "maxReplicas": 4,
            "metrics": [{ "type": "Resource",
                "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 50 } } }],
        } }))
    .unwrap();
    harness.api().create(&PostParams::default(), &autoscaler).await.unwrap();
    harness.until("chat", "scaled by the autoscaler", |g: &DynamoGraphDeployment| replicas(g) == Some(2)).await;
}

//! Rollouts under the control of their user, on live objects.

use api_types::{
    annotations, labels, revision_history,
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment},
};
use k8s_openapi::api::events::v1::Event;
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use test_cluster::wait;

use crate::harness::{Harness, LIMIT, condition, graph};

/// Four workers of an image.
fn workers(tag: &str, annotations: &Value) -> Value {
    graph("chat", |g| {
        g["metadata"]["annotations"] = annotations.clone();
        let decode = &mut g["spec"]["components"][1];
        decode["replicas"] = json!(4);
        decode["podTemplate"]["spec"]["containers"][0]["image"] = json!(format!("registry.example.com/decode:{tag}"));
    })
}

fn image_of(d: &DynamoComponentDeployment) -> &str {
    let spec = d.spec.component.pod_template.as_ref().and_then(|template| template.spec.as_ref()).unwrap();
    spec.containers[0].image.as_deref().unwrap()
}

/// Replicas of the live workers by the tag of their image.
async fn replicas(harness: &Harness) -> Vec<(String, i32)> {
    let workers = harness.components("chat").await.into_iter().filter(|d| d.spec.component.name == "Decode");
    let tag = |d: &DynamoComponentDeployment| image_of(d).rsplit(':').next().unwrap().to_owned();
    let mut all: Vec<_> = workers.map(|d| (tag(&d), d.spec.component.desired_replicas())).collect();
    all.sort();
    all
}

/// Reports of one object what the component controller does while none of its pods serves.
async fn fail(harness: &Harness, d: &DynamoComponentDeployment) {
    let (name, replicas) = (d.name_any(), d.spec.component.desired_replicas());
    let component = json!({ "componentKind": "Deployment", "componentNames": [name], "replicas": replicas,
        "updatedReplicas": replicas, "readyReplicas": 0, "availableReplicas": 0 });
    let status = json!({ "observedGeneration": d.metadata.generation, "conditions": [], "component": component });
    let patch = Patch::Merge(json!({ "status": status }));
    let api = harness.api::<DynamoComponentDeployment>();
    api.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
}

/// Plays pods that come up, but for those of image `broken`, until the workers are these.
async fn until_workers(harness: &Harness, broken: Option<&str>, expected: &[(&str, i32)]) {
    let look = async || {
        for d in harness.components("chat").await {
            let is_broken = broken.is_some_and(|tag| image_of(&d).ends_with(tag));
            let reported = d.status.as_ref().and_then(|status| status.observed_generation);
            if reported == d.metadata.generation {
                continue;
            }
            match is_broken {
                true => fail(harness, &d).await,
                false => harness.serve(&d).await,
            }
        }
        let all = replicas(harness).await;
        let found: Vec<_> = all.iter().map(|(tag, replicas)| (tag.as_str(), *replicas)).collect();
        if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
    };
    wait::until(format!("the workers to be {expected:?}"), LIMIT, look).await.unwrap();
}

/// Waits until a condition has this status and reason; gives its message.
async fn message(harness: &Harness, type_: &str, status: &str, reason: &str) -> String {
    let fits = |g: &DynamoGraphDeployment| {
        let observed = g.status.as_ref().and_then(|status| status.observed_generation);
        observed == g.metadata.generation && condition(g, type_, status).is_some_and(|found| found.reason == reason)
    };
    let graph = harness.until::<DynamoGraphDeployment>("chat", &format!("{type_} {status} {reason}"), fits).await;
    condition(&graph, type_, status).unwrap().message.clone()
}

#[tokio::test]
async fn a_rollout_is_paused_and_goes_on() {
    let harness = Harness::new("paused").await;
    harness.apply(&workers("1", &json!({}))).await;
    harness.ready("chat").await;
    // An edit of a paused graph starts nothing, and scaling reaches what is live.
    let paused = json!({ "operator.dynamo/rollout": "paused" });
    harness.apply(&workers("2", &paused)).await;
    let text = message(&harness, "Reconciling", "True", "RolloutPaused").await;
    assert!(text.contains("remove annotation operator.dynamo/rollout"), "{text}");
    assert_eq!(replicas(&harness).await, [("1".to_owned(), 4)]);

    // In the middle of a rollout, both revisions stay, whatever else is reconciled.
    harness.apply(&workers("2", &json!({ "operator.dynamo/rollout-step": "50%" }))).await;
    until_workers(&harness, None, &[("1", 2), ("2", 2)]).await;
    harness.apply(&workers("2", &paused)).await;
    message(&harness, "Reconciling", "True", "RolloutPaused").await;
    let writes = harness.writes_of("DynamoComponentDeployment");
    for _ in 0..3 {
        harness.until_reconciled("chat").await;
    }
    assert_eq!(harness.writes_of("DynamoComponentDeployment"), writes);
    until_workers(&harness, None, &[("1", 2), ("2", 2)]).await;

    harness.apply(&workers("2", &json!({}))).await;
    until_workers(&harness, None, &[("2", 4)]).await;
    harness.ready("chat").await;
}

#[tokio::test]
async fn a_new_worker_lists_the_revisions_that_were_replaced() {
    let mut harness = Harness::new("history").await;
    let mut names = Vec::new();
    for tag in ["1", "2", "3"] {
        harness.apply(&workers(tag, &json!({}))).await;
        until_workers(&harness, None, &[(tag, 4)]).await;
        harness.ready("chat").await;
        names.insert(0, harness.component("chat", "Decode").await.labels()[labels::WORKER_HASH].clone());
    }
    let worker = harness.component("chat", "Decode").await;
    let listed = &worker.annotations()[annotations::PREVIOUS_REVISIONS];
    let found = revision_history::parse(listed);
    assert_eq!(found.iter().map(|one| &one.revision).collect::<Vec<_>>(), names[1..].iter().collect::<Vec<_>>());
    let images: Vec<_> = found.iter().flat_map(|one| &one.images).collect();
    assert_eq!(images, ["registry.example.com/decode:2", "registry.example.com/decode:1"]);
    assert!(found.iter().all(|one| one.created.is_some()), "{listed}");

    // Another process writes nothing for it.
    harness.restart();
    harness.until_reconciled("chat").await;
    let later = harness.component("chat", "Decode").await;
    assert_eq!(later.metadata.resource_version, worker.metadata.resource_version);
}

#[tokio::test]
async fn a_canary_is_held_follows_the_count_and_is_taken_back() {
    let harness = Harness::new("canary").await;
    let step = |share: &str| json!({ "operator.dynamo/rollout-step": share });
    harness.apply(&workers("1", &step("25%"))).await;
    harness.ready("chat").await;
    harness.apply(&workers("2", &step("25%"))).await;
    until_workers(&harness, None, &[("1", 3), ("2", 1)]).await;
    let text = message(&harness, "Reconciling", "True", "RolloutHeld").await;
    assert!(text.contains("Decode has 1 new and 3 old of 4 desired workers"), "{text}");
    assert!(condition(&harness.api().get("chat").await.unwrap(), "Stalled", "False").is_some());

    let mut scaled = workers("2", &step("25%"));
    scaled["spec"]["components"][1]["replicas"] = json!(8);
    harness.apply(&scaled).await;
    until_workers(&harness, None, &[("1", 6), ("2", 2)]).await;

    harness.apply(&workers("2", &json!({ "operator.dynamo/rollout": "undone" }))).await;
    until_workers(&harness, None, &[("1", 4)]).await;
    message(&harness, "Reconciling", "True", "RolloutUndone").await;
    harness.apply(&workers("1", &json!({}))).await;
    harness.ready("chat").await;
    assert_eq!(replicas(&harness).await, [("1".to_owned(), 4)]);
}

#[tokio::test]
async fn a_rollout_without_progress_is_undone_and_another_edit_rolls() {
    let mut harness = Harness::new("deadline").await;
    let deadline = json!({ "operator.dynamo/progress-deadline": "2s" });
    harness.apply(&workers("1", &deadline)).await;
    harness.ready("chat").await;
    harness.apply(&workers("2", &deadline)).await;
    // Nothing else wakes the controller than the deadline.
    let text = message(&harness, "RolloutProgressing", "False", "RolloutUndone").await;
    assert!(text.contains("within operator.dynamo/progress-deadline 2s"), "{text}");
    until_workers(&harness, Some(":2"), &[("1", 4)]).await;
    message(&harness, "Stalled", "True", "RolloutUndone").await;
    let published = async || {
        let all = harness.api::<Event>().list(&ListParams::default()).await.unwrap().items;
        let undone: Vec<_> = all.iter().filter(|event| event.reason.as_deref() == Some("RolloutUndone")).collect();
        if undone.len() == 1 { Ok(()) } else { Err(format!("{undone:?}")) }
    };
    wait::until("one event", LIMIT, published).await.unwrap();

    // It is in effect after a restart of the controller, and without annotations of the graph.
    harness.restart();
    harness.apply(&workers("2", &json!({}))).await;
    for _ in 0..2 {
        harness.until_reconciled("chat").await;
    }
    assert_eq!(replicas(&harness).await, [("1".to_owned(), 4)]);

    // Steps that are played here may take longer than the deadline of before.
    harness.apply(&workers("3", &json!({ "operator.dynamo/progress-deadline": "10m" }))).await;
    until_workers(&harness, None, &[("3", 4)]).await;
    let graph = harness.ready("chat").await;
    assert!(graph.status.unwrap().conditions.iter().all(|found| found.type_ != "RolloutProgressing"));
    let names: Vec<_> = harness.components("chat").await.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[tokio::test]
async fn a_violation_in_the_annotations_is_named_with_its_remedy() {
    let harness = Harness::new("control").await;
    harness.apply(&workers("1", &json!({ "operator.dynamo/rollout-step": "half" }))).await;
    let text = message(&harness, "Stalled", "True", "InvalidSpec").await;
    let path = "metadata.annotations[operator.dynamo/rollout-step]";
    assert!(text.contains(path) && text.contains("such as 25%"), "{text}");
}

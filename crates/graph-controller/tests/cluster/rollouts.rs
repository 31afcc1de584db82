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

use crate::bed::{Bed, LIMIT, condition, graph};

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
async fn replicas(bed: &Bed) -> Vec<(String, i32)> {
    let workers = bed.components("chat").await.into_iter().filter(|d| d.spec.component.name == "Decode");
    let tag = |d: &DynamoComponentDeployment| image_of(d).rsplit(':').next().unwrap().to_owned();
    let mut all: Vec<_> = workers.map(|d| (tag(&d), d.spec.component.desired_replicas())).collect();
    all.sort();
    all
}

/// Reports of one object what the component controller does while none of its pods serves.
async fn fail(bed: &Bed, d: &DynamoComponentDeployment) {
    let (name, replicas) = (d.name_any(), d.spec.component.desired_replicas());
    let component = json!({ "componentKind": "Deployment", "componentNames": [name], "replicas": replicas,
        "updatedReplicas": replicas, "readyReplicas": 0, "availableReplicas": 0 });
    let status = json!({ "observedGeneration": d.metadata.generation, "conditions": [], "component": component });
    let patch = Patch::Merge(json!({ "status": status }));
    let api = bed.api::<DynamoComponentDeployment>();
    api.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
}

/// Plays pods that come up, but for those of image `broken`, until the workers are these.
async fn until_workers(bed: &Bed, broken: Option<&str>, expected: &[(&str, i32)]) {
    let look = async || {
        for d in bed.components("chat").await {
            let is_broken = broken.is_some_and(|tag| image_of(&d).ends_with(tag));
            let reported = d.status.as_ref().and_then(|status| status.observed_generation);
            if reported == d.metadata.generation {
                continue;
            }
            match is_broken {
                true => fail(bed, &d).await,
                false => bed.serve(&d).await,
            }
        }
        let all = replicas(bed).await;
        let found: Vec<_> = all.iter().map(|(tag, replicas)| (tag.as_str(), *replicas)).collect();
        if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
    };
    wait::until(format!("the workers to be {expected:?}"), LIMIT, look).await.unwrap();
}

/// Waits until a condition has this status and reason; gives its message.
async fn message(bed: &Bed, type_: &str, status: &str, reason: &str) -> String {
    let fits = |g: &DynamoGraphDeployment| {
        let observed = g.status.as_ref().and_then(|status| status.observed_generation);
        observed == g.metadata.generation && condition(g, type_, status).is_some_and(|found| found.reason == reason)
    };
    let graph = bed.until::<DynamoGraphDeployment>("chat", &format!("{type_} {status} {reason}"), fits).await;
    condition(&graph, type_, status).unwrap().message.clone()
}

#[tokio::test]
async fn a_rollout_is_paused_and_goes_on() {
    let bed = Bed::new("paused").await;
    bed.apply(&workers("1", &json!({}))).await;
    bed.ready("chat").await;
    // An edit of a paused graph starts nothing, and scaling reaches what is live.
    let paused = json!({ "operator.dynamo/rollout": "paused" });
    bed.apply(&workers("2", &paused)).await;
    let text = message(&bed, "Reconciling", "True", "RolloutPaused").await;
    assert!(text.contains("remove annotation operator.dynamo/rollout"), "{text}");
    assert_eq!(replicas(&bed).await, [("1".to_owned(), 4)]);

    // In the middle of a rollout, both revisions stay, whatever else is reconciled.
    bed.apply(&workers("2", &json!({ "operator.dynamo/rollout-step": "50%" }))).await;
    until_workers(&bed, None, &[("1", 2), ("2", 2)]).await;
    bed.apply(&workers("2", &paused)).await;
    message(&bed, "Reconciling", "True", "RolloutPaused").await;
    let writes = bed.writes_of("DynamoComponentDeployment");
    for _ in 0..3 {
        bed.until_reconciled("chat").await;
    }
    assert_eq!(bed.writes_of("DynamoComponentDeployment"), writes);
    until_workers(&bed, None, &[("1", 2), ("2", 2)]).await;

    bed.apply(&workers("2", &json!({}))).await;
    until_workers(&bed, None, &[("2", 4)]).await;
    bed.ready("chat").await;
}

#[tokio::test]
async fn a_new_worker_lists_the_revisions_that_were_replaced() {
    let mut bed = Bed::new("history").await;
    let mut names = Vec::new();
    for tag in ["1", "2", "3"] {
        bed.apply(&workers(tag, &json!({}))).await;
        until_workers(&bed, None, &[(tag, 4)]).await;
        bed.ready("chat").await;
        names.insert(0, bed.component("chat", "Decode").await.labels()[labels::WORKER_HASH].clone());
    }
    let worker = bed.component("chat", "Decode").await;
    let listed = &worker.annotations()[annotations::PREVIOUS_REVISIONS];
    let found = revision_history::parse(listed);
    assert_eq!(found.iter().map(|one| &one.revision).collect::<Vec<_>>(), names[1..].iter().collect::<Vec<_>>());
    let images: Vec<_> = found.iter().flat_map(|one| &one.images).collect();
    assert_eq!(images, ["registry.example.com/decode:2", "registry.example.com/decode:1"]);
    assert!(found.iter().all(|one| one.created.is_some()), "{listed}");

    // Another process writes nothing for it.
    bed.restart();
    bed.until_reconciled("chat").await;
    let later = bed.component("chat", "Decode").await;
    assert_eq!(later.metadata.resource_version, worker.metadata.resource_version);
}

#[tokio::test]
async fn a_canary_is_held_follows_the_count_and_is_taken_back() {
    let bed = Bed::new("canary").await;
    let step = |share: &str| json!({ "operator.dynamo/rollout-step": share });
    bed.apply(&workers("1", &step("25%"))).await;
    bed.ready("chat").await;
    bed.apply(&workers("2", &step("25%"))).await;
    until_workers(&bed, None, &[("1", 3), ("2", 1)]).await;
    let text = message(&bed, "Reconciling", "True", "RolloutHeld").await;
    assert!(text.contains("Decode has 1 new and 3 old of 4 desired workers"), "{text}");
    assert!(condition(&bed.api().get("chat").await.unwrap(), "Stalled", "False").is_some());

    let mut scaled = workers("2", &step("25%"));
    scaled["spec"]["components"][1]["replicas"] = json!(8);
    bed.apply(&scaled).await;
    until_workers(&bed, None, &[("1", 6), ("2", 2)]).await;

    bed.apply(&workers("2", &json!({ "operator.dynamo/rollout": "undone" }))).await;
    until_workers(&bed, None, &[("1", 4)]).await;
    message(&bed, "Reconciling", "True", "RolloutUndone").await;
    bed.apply(&workers("1", &json!({}))).await;
    bed.ready("chat").await;
    assert_eq!(replicas(&bed).await, [("1".to_owned(), 4)]);
}

#[tokio::test]
async fn a_rollout_without_progress_is_undone_and_another_edit_rolls() {
    let mut bed = Bed::new("deadline").await;
    let deadline = json!({ "operator.dynamo/progress-deadline": "2s" });
    bed.apply(&workers("1", &deadline)).await;
    bed.ready("chat").await;
    bed.apply(&workers("2", &deadline)).await;
    // Nothing else wakes the controller than the deadline.
    let text = message(&bed, "RolloutProgressing", "False", "RolloutUndone").await;
    assert!(text.contains("within operator.dynamo/progress-deadline 2s"), "{text}");
    until_workers(&bed, Some(":2"), &[("1", 4)]).await;
    message(&bed, "Stalled", "True", "RolloutUndone").await;
    let published = async || {
        let all = bed.api::<Event>().list(&ListParams::default()).await.unwrap().items;
        let undone: Vec<_> = all.iter().filter(|event| event.reason.as_deref() == Some("RolloutUndone")).collect();
        if undone.len() == 1 { Ok(()) } else { Err(format!("{undone:?}")) }
    };
    wait::until("one event", LIMIT, published).await.unwrap();

    // A controller that starts anew, and a graph without annotations, know of it.
    bed.restart();
    bed.apply(&workers("2", &json!({}))).await;
    for _ in 0..2 {
        bed.until_reconciled("chat").await;
    }
    assert_eq!(replicas(&bed).await, [("1".to_owned(), 4)]);

    // Steps that are played here may take longer than the deadline of before.
    bed.apply(&workers("3", &json!({ "operator.dynamo/progress-deadline": "10m" }))).await;
    until_workers(&bed, None, &[("3", 4)]).await;
    let graph = bed.ready("chat").await;
    assert!(graph.status.unwrap().conditions.iter().all(|found| found.type_ != "RolloutProgressing"));
    let names: Vec<_> = bed.components("chat").await.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[tokio::test]
async fn a_mistake_in_the_annotations_is_named_with_its_remedy() {
    let bed = Bed::new("control").await;
    bed.apply(&workers("1", &json!({ "operator.dynamo/rollout-step": "half" }))).await;
    let text = message(&bed, "Stalled", "True", "InvalidSpec").await;
    let path = "metadata.annotations[operator.dynamo/rollout-step]";
    assert!(text.contains(path) && text.contains("such as 25%"), "{text}");
}

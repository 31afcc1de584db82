//! Checkpoints that graphs make. What the component controller would make of them is played.

use api_types::{
    grove::PodCliqueSet,
    v1alpha1::DynamoCheckpoint,
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment},
};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use test_cluster::wait;

use crate::harness::{Harness, LIMIT, graph};

fn chat(image: &str, policy: &str) -> Value {
    graph("chat", |g| {
        let decode = &mut g["spec"]["components"][1];
        decode["experimental"] = json!({ "checkpoint": { "enabled": true, "startupPolicy": "WaitForCheckpoint",
            "deletionPolicy": policy } });
        decode["podTemplate"]["spec"]["containers"][0]["image"] = json!(image);
    })
}

async fn checkpoints(harness: &Harness) -> Vec<DynamoCheckpoint> {
    harness.api::<DynamoCheckpoint>().list(&ListParams::default()).await.unwrap().items
}

/// Waits until there are checkpoints that fit.
async fn until(harness: &Harness, what: &str, fits: impl Fn(&[DynamoCheckpoint]) -> bool) -> Vec<DynamoCheckpoint> {
    let look = async || {
        let found = checkpoints(harness).await;
        if fits(&found) { Ok(found) } else { Err(serde_json::to_string(&found).unwrap()) }
    };
    wait::until(format!("checkpoints to be {what}"), LIMIT, look).await.unwrap()
}

async fn set_ready(harness: &Harness, name: &str) {
    let ready = Patch::Merge(json!({ "status": { "phase": "Ready" } }));
    harness.api::<DynamoCheckpoint>().patch_status(name, &PatchParams::default(), &ready).await.unwrap();
}

/// Acts as the component controller when the data that a checkpoint kept is removed.
async fn let_go(harness: &Harness, name: &str) {
    let without = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    harness.api::<DynamoCheckpoint>().patch(name, &PatchParams::default(), &without).await.unwrap();
}

fn reason(graph: &DynamoGraphDeployment) -> Option<&str> {
    let conditions = &graph.status.as_ref()?.conditions;
    Some(conditions.iter().find(|condition| condition.type_ == "Ready")?.reason.as_str())
}

fn reference(d: &DynamoComponentDeployment) -> Option<&str> {
    d.spec.component.experimental.as_ref()?.checkpoint.as_ref()?.checkpoint_ref.as_deref()
}

fn is_going(checkpoint: &DynamoCheckpoint) -> bool {
    checkpoint.metadata.deletion_timestamp.is_some()
}

#[tokio::test]
async fn each_revision_waits_for_its_checkpoint_and_the_old_one_goes() {
    let harness = Harness::with_checkpoints("checkpoints").await;
    let uid = harness.apply(&chat("registry.example.com/decode:1", "Delete")).await.uid();
    let [first] = <[_; 1]>::try_from(until(&harness, "made", |all| all.len() == 1).await).unwrap();
    assert_eq!(first.owner_references()[0].uid, uid.unwrap());
    assert_eq!(first.finalizers(), ["nvidia.com/finalizer"]);
    let decode = harness.component("chat", "Decode").await;
    assert_eq!((decode.spec.component.replicas, reference(&decode)), (Some(0), Some(first.name_any().as_str())));
    harness.until("chat", "waiting", |g| reason(g) == Some("waiting_for_checkpoint")).await;

    set_ready(&harness, &first.name_any()).await;
    let started = |d: &DynamoComponentDeployment| d.spec.component.replicas == Some(1);
    harness.until(&decode.name_any(), "started", started).await;
    let ready = harness.ready("chat").await;
    assert_eq!(ready.status.unwrap().checkpoints["Decode"].ready, Some(true));
    let writes = harness.writes_of("DynamoCheckpoint");
    harness.until_reconciled("chat").await;
    assert_eq!(harness.writes_of("DynamoCheckpoint"), writes, "nothing is written when there is nothing to do");

    harness.apply(&chat("registry.example.com/decode:2", "Delete")).await;
    let both = until(&harness, "two", |all| all.len() == 2).await;
    let second = both.iter().find(|found| found.name_any() != first.name_any()).unwrap();
    harness.until("chat", "waiting again", |g| reason(g) == Some("waiting_for_checkpoint")).await;
    harness.until_reconciled("chat").await;
    let old: DynamoComponentDeployment = harness.api().get(&decode.name_any()).await.unwrap();
    assert_eq!(old.spec.component.replicas, Some(1), "it serves until another can");
    set_ready(&harness, &second.name_any()).await;
    harness.ready("chat").await;
    until(&harness, "one and one on its way out", |all| all.iter().filter(|found| is_going(found)).count() == 1).await;
    let_go(&harness, &first.name_any()).await;
    until(&harness, "the second alone", |all| all.len() == 1 && all[0].name_any() == second.name_any()).await;

    // Nothing of the graph's own keeps it: the checkpoint goes after it, when what it kept is removed.
    harness.api::<DynamoGraphDeployment>().delete("chat", &DeleteParams::background()).await.unwrap();
    harness.gone::<DynamoGraphDeployment>("chat").await;
    until(&harness, "on its way out", |all| all.iter().all(is_going)).await;
    let_go(&harness, &second.name_any()).await;
    harness.gone::<DynamoCheckpoint>(&second.name_any()).await;
}

/// The storage of checkpoints is read from the agents of the namespace.
#[tokio::test]
async fn pods_on_grove_mount_the_claim_of_the_agent_that_restores_them() {
    let Some(mut harness) = Harness::on_grove("grove-checkpoints").await else { return };
    harness.settings().checkpoint.enabled = true;
    let agent: DaemonSet = serde_json::from_value(json!({
        "metadata": { "name": "agent", "labels": { "app.kubernetes.io/component": "snapshot-agent" } },
        "spec": { "selector": { "matchLabels": { "a": "b" } }, "template": {
            "metadata": { "labels": { "a": "b" } },
            "spec": { "nodeSelector": { "nowhere": "true" },
                "containers": [{ "name": "agent", "image": "registry.example/agent:1",
                    "volumeMounts": [{ "name": "checkpoints", "mountPath": "/checkpoints" }] }],
                "volumes": [{ "name": "checkpoints", "persistentVolumeClaim": { "claimName": "kept" } }] } } },
    }))
    .unwrap();
    harness.api::<DaemonSet>().create(&PostParams::default(), &agent).await.unwrap();
    harness.start();
    harness.apply(&chat("registry.example.com/decode:1", "Delete")).await;
    let [made] = <[_; 1]>::try_from(until(&harness, "made", |all| all.len() == 1).await).unwrap();
    set_ready(&harness, &made.name_any()).await;
    let mounts = |set: &PodCliqueSet| {
        let pods = set.spec.template.cliques.iter().map(|clique| json!(clique.spec.pod_spec));
        pods.filter(|pod| pod["volumes"].to_string().contains("\"claimName\":\"kept\"")).count() == 1
    };
    harness.until("chat", "restored", mounts).await;
}

#[tokio::test]
async fn what_is_retained_has_no_owner_and_stays() {
    let harness = Harness::with_checkpoints("retained").await;
    harness.apply(&chat("registry.example.com/decode:1", "Retain")).await;
    let [kept] = <[_; 1]>::try_from(until(&harness, "made", |all| all.len() == 1).await).unwrap();
    assert!(kept.owner_references().is_empty());
    harness.until("chat", "waiting", |g| reason(g) == Some("waiting_for_checkpoint")).await;
    harness.api::<DynamoGraphDeployment>().delete("chat", &DeleteParams::foreground()).await.unwrap();
    harness.gone::<DynamoGraphDeployment>("chat").await;
    assert!(!is_going(&checkpoints(&harness).await[0]));
    let_go(&harness, &kept.name_any()).await;
}

/// Another operator makes its objects by plain updates: what it set, no apply of ours takes away.
async fn made_elsewhere(harness: &Harness, name: &str) {
    let mut fields = json!(harness.api::<DynamoCheckpoint>().get(name).await.unwrap().metadata.managed_fields);
    for entry in fields.as_array_mut().unwrap() {
        (entry["manager"], entry["operation"]) = (json!("manager"), json!("Update"));
    }
    let theirs = Patch::Merge(json!({ "metadata": { "managedFields": fields } }));
    harness.api::<DynamoCheckpoint>().patch(name, &PatchParams::default(), &theirs).await.unwrap();
}

fn policy(checkpoint: &DynamoCheckpoint) -> &str {
    &checkpoint.annotations()["nvidia.com/dynamo-checkpoint-deletion-policy"]
}

#[tokio::test]
async fn what_is_retained_later_stays_whichever_process_made_it() {
    let harness = Harness::with_checkpoints("retained-later").await;
    let image = "registry.example.com/decode:1";
    harness.apply(&chat(image, "Delete")).await;
    let [made] = <[_; 1]>::try_from(until(&harness, "made", |all| all.len() == 1).await).unwrap();
    assert_eq!(made.owner_references().len(), 1);
    harness.until("chat", "waiting", |g| reason(g) == Some("waiting_for_checkpoint")).await;
    harness.until_reconciled("chat").await;
    made_elsewhere(&harness, &made.name_any()).await;

    harness.apply(&chat(image, "Retain")).await;
    let released = |all: &[DynamoCheckpoint]| all.len() == 1 && all[0].owner_references().is_empty();
    let [kept] =
        <[_; 1]>::try_from(until(&harness, "without owner", |all| released(all) && policy(&all[0]) == "Retain").await)
            .unwrap();
    assert_eq!((kept.uid(), &kept.spec), (made.uid(), &made.spec));
    harness.until_reconciled("chat").await;
    let writes = harness.writes_of("DynamoCheckpoint");
    harness.until_reconciled("chat").await;
    assert_eq!(harness.writes_of("DynamoCheckpoint"), writes, "once");

    harness.api::<DynamoGraphDeployment>().delete("chat", &DeleteParams::foreground()).await.unwrap();
    harness.gone::<DynamoGraphDeployment>("chat").await;
    assert!(!is_going(&checkpoints(&harness).await[0]));
    let_go(&harness, &kept.name_any()).await;
}

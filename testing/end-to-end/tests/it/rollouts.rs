//! Changes of worker revision, with everything that users and other clients do meanwhile.

use std::{collections::BTreeSet, time::Duration};

use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use end_to_end::{BoxError, Harness, Operators, harness};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use test_cluster::wait;

use crate::graphs::{annotate_component, disaggregated};

const PATIENCE: Duration = Duration::from_secs(120);

/// Revisions of the workers that exist.
async fn revisions(harness: &Harness) -> Result<BTreeSet<String>, BoxError> {
    let label = |d: &DynamoComponentDeployment| d.labels().get("nvidia.com/dynamo-worker-hash").cloned();
    Ok(harness.components().await?.iter().filter_map(label).collect())
}

#[tokio::test]
async fn a_revert_in_the_middle_keeps_the_revision_that_serves() -> Result<(), BoxError> {
    let harness = harness("revert").await?;
    let _operators = Operators::of(&harness).await?;
    harness.apply(&disaggregated("chat", "1.0.0", 1, 4)).await?;
    harness.ready("chat").await?;
    let first = revisions(&harness).await?;
    let uids = deployments(&harness).await?;

    // The new revision fits on no node, so the change cannot end by itself.
    let mut stuck = disaggregated("chat", "2.0.0", 1, 4);
    for worker in [1, 2] {
        stuck["spec"]["components"][worker]["podTemplate"]["spec"]["nodeSelector"] = json!({ "no": "such-node" });
    }
    harness.apply(&stuck).await?;
    harness.condition("chat", "Ready", "False", "rolling_update_in_progress").await?;
    let why = harness.condition("chat", "Reconciling", "True", "Unschedulable").await?;
    assert!(why.contains("pod chat-") && why.contains("nodes are available"), "{why}");
    harness.apply(&disaggregated("chat", "1.0.0", 1, 4)).await?;
    harness.ready("chat").await?;

    assert_eq!(revisions(&harness).await?, first);
    assert_eq!(deployments(&harness).await?, uids, "the serving Deployments must be the same objects");
    Ok(())
}

/// Component, whether its revision is the first, expected and ready replicas.
type Count = (String, bool, Option<i32>, i32);

/// New decode workers come up, new prefill workers do not: old and new ones do not talk to each other, so the old ones
/// of both stay.
#[tokio::test]
async fn one_component_that_does_not_start_keeps_the_old_revision_whole() -> Result<(), BoxError> {
    let harness = harness("whole").await?;
    let _operators = Operators::of(&harness).await?;
    harness.apply(&disaggregated("chat", "1.0.0", 4, 4)).await?;
    harness.ready("chat").await?;
    let first = revisions(&harness).await?;
    let mut stuck = disaggregated("chat", "2.0.0", 4, 4);
    stuck["spec"]["components"][1]["podTemplate"]["spec"]["nodeSelector"] = json!({ "no": "such-node" });
    harness.apply(&stuck).await?;

    let counts = async || -> Result<Vec<Count>, BoxError> {
        let all = harness.components().await?;
        let workers = all.iter().filter_map(|d| Some((d, d.labels().get("nvidia.com/dynamo-worker-hash")?)));
        let ready = |d: &DynamoComponentDeployment| d.status.as_ref()?.component.as_ref()?.ready_replicas;
        let counts = workers.map(|(d, revision)| {
            let component = &d.spec.component;
            (component.name.clone(), first.contains(revision), component.replicas, ready(d).unwrap_or(0))
        });
        Ok(counts.collect())
    };
    let halted = async || {
        let all = counts().await.map_err(|e| e.to_string())?;
        let new_decode = all.iter().any(|(name, is_old, _, ready)| name == "Decode" && !is_old && *ready == 2);
        if new_decode { Ok(()) } else { Err(format!("{all:?}")) }
    };
    wait::until("new decode workers", PATIENCE, halted).await?;
    harness.condition("chat", "Reconciling", "True", "Unschedulable").await?;
    let all = counts().await?;
    for name in ["Prefill", "Decode"] {
        let old = all.iter().find(|(component, is_old, ..)| component == name && *is_old);
        assert!(old.is_some_and(|(_, _, expected, ready)| *expected == Some(3) && *ready == 3), "{all:?}");
    }

    harness.apply(&disaggregated("chat", "2.0.0", 4, 4)).await?;
    harness.ready("chat").await?;
    assert!(revisions(&harness).await?.is_disjoint(&first), "a rollout whose components all come up ends");
    Ok(())
}

/// Name and uid of every Deployment.
async fn deployments(harness: &Harness) -> Result<BTreeSet<(String, String)>, BoxError> {
    let all = harness.api::<Deployment>().list(&ListParams::default()).await?;
    Ok(all.iter().map(|d| (d.name_any(), d.uid().unwrap_or_default())).collect())
}

#[tokio::test]
async fn replaced_metadata_orphans_no_revision_and_rolls_no_pod() -> Result<(), BoxError> {
    let harness = harness("replace").await?;
    let _operators = Operators::of(&harness).await?;
    let mut graph = disaggregated("chat", "1.0.0", 1, 1);
    graph["metadata"]["annotations"] = json!({ "nvidia.com/dynamo-operator-origin-version": "1.4.0" });
    harness.apply(&graph).await?;
    harness.ready("chat").await?;
    let before = deployments(&harness).await?;
    let pods = pods(&harness).await?;

    // What `kubectl replace` and `helm upgrade --force` do: no annotation survives.
    let api = harness.api::<DynamoGraphDeployment>();
    let mut live = api.get("chat").await?;
    live.metadata.annotations = None;
    live.metadata.managed_fields = None;
    live.spec.components[2].replicas = Some(2);
    api.replace("chat", &PostParams::default(), &live).await?;
    harness.ready("chat").await?;

    assert_eq!(deployments(&harness).await?, before);
    assert!(pods.is_subset(&self::pods(&harness).await?), "pods of the first revision were replaced");
    Ok(())
}

async fn pods(harness: &Harness) -> Result<BTreeSet<String>, BoxError> {
    Ok(harness.api::<Pod>().list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect())
}

#[tokio::test]
async fn recreate_never_runs_two_revisions_at_once() -> Result<(), BoxError> {
    let harness = harness("recreate").await?;
    let _operators = Operators::of(&harness).await?;
    let recreate = |tag: &str| {
        let mut graph = disaggregated("chat", tag, 1, 2);
        annotate_component(&mut graph, 2, "nvidia.com/deployment-strategy", "Recreate");
        graph
    };
    harness.apply(&recreate("1.0.0")).await?;
    harness.ready("chat").await?;
    let api = harness.api::<Pod>();
    let decode = ListParams::default().labels("nvidia.com/dynamo-component=Decode");
    // A real pod takes its time to end; a finalizer makes a fake one do so.
    let slow = api.list(&decode).await?.items.remove(0).name_any();
    let finalizers = |list: &[&str]| json!({ "metadata": { "finalizers": list } });
    api.patch(&slow, &PatchParams::default(), &Patch::Merge(finalizers(&["example.com/slow"]))).await?;
    harness.apply(&recreate("2.0.0")).await?;
    let graphs = harness.api::<DynamoGraphDeployment>();
    let waits = async || {
        let graph = graphs.get("chat").await.map_err(|e| e.to_string())?;
        let text = format!("{:?}", graph.status.unwrap_or_default().conditions);
        if text.contains("old pods have not ended") { Ok(()) } else { Err(text) }
    };
    wait::until("the graph to name the pod that has not ended", PATIENCE, waits).await?;
    api.patch(&slow, &PatchParams::default(), &Patch::Merge(finalizers(&[]))).await?;
    let probe = async || {
        let pods = api.list(&decode).await.map_err(|e| e.to_string())?;
        let revisions: BTreeSet<_> =
            pods.iter().filter_map(|p| p.labels().get("nvidia.com/dynamo-worker-hash").cloned()).collect();
        assert!(revisions.len() <= 1, "pods of {revisions:?} at the same time");
        let graph = harness.api::<DynamoGraphDeployment>().get("chat").await.map_err(|e| e.to_string())?;
        let status = graph.status.unwrap_or_default();
        let ready = status.observed_generation == graph.metadata.generation
            && status.conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
        if ready { Ok(()) } else { Err(format!("{:?}", status.conditions)) }
    };
    wait::until("the recreated workers", PATIENCE, probe).await?;
    Ok(())
}

#[tokio::test]
async fn scaling_to_zero_and_back_is_nothing_special() -> Result<(), BoxError> {
    let harness = harness("zero").await?;
    let _operators = Operators::of(&harness).await?;
    for replicas in [2, 0, 1] {
        harness.apply(&disaggregated("chat", "1.0.0", replicas, replicas)).await?;
        let graph = harness.ready("chat").await?;
        let decode = graph.status.and_then(|s| s.components.get("Decode").cloned());
        assert_eq!(decode.and_then(|d| d.ready_replicas), Some(replicas));
    }
    // A change of revision at zero ends at once, and the way up leads to the new one.
    harness.apply(&disaggregated("chat", "2.0.0", 0, 0)).await?;
    harness.ready("chat").await?;
    harness.apply(&disaggregated("chat", "2.0.0", 1, 1)).await?;
    harness.ready("chat").await?;
    assert_eq!(revisions(&harness).await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn drift_is_repaired_and_foreign_metadata_stays() -> Result<(), BoxError> {
    let harness = harness("drift").await?;
    let _operators = Operators::of(&harness).await?;
    harness.apply(&disaggregated("chat", "1.0.0", 1, 1)).await?;
    harness.ready("chat").await?;
    let (components, deployments) = (harness.api::<DynamoComponentDeployment>(), harness.api::<Deployment>());
    let vandal = PatchParams::default();
    let change = json!({ "metadata": { "annotations": { "example.com/note": "mine" } }, "spec": { "replicas": 3 } });
    components.patch("chat-frontend", &vandal, &Patch::Merge(&change)).await?;
    let image =
        json!({ "spec": { "template": { "spec": { "containers": [{ "name": "main", "image": "evil:1" }] } } } });
    deployments.patch("chat-frontend", &vandal, &Patch::Strategic(&image)).await?;
    harness.api::<k8s_openapi::api::core::v1::Service>().delete("chat-frontend", &DeleteParams::default()).await?;

    let probe = async || {
        let component = components.get("chat-frontend").await.map_err(|e| e.to_string())?;
        let deployment = deployments.get("chat-frontend").await.map_err(|e| e.to_string())?;
        harness.api::<k8s_openapi::api::core::v1::Service>().get("chat-frontend").await.map_err(|e| e.to_string())?;
        let image = deployment.spec.and_then(|s| s.template.spec).and_then(|s| s.containers[0].image.clone());
        let kept = component.annotations().contains_key("example.com/note");
        let repaired = component.spec.component.replicas == Some(1) && image.as_deref() != Some("evil:1");
        if repaired && kept { Ok(()) } else { Err(format!("{:?} {image:?}", component.spec.component.replicas)) }
    };
    wait::until("the repair", PATIENCE, probe).await?;
    Ok(())
}

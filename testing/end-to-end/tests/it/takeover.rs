//! Namespaces of the Go operator, as the conformance kit has recorded them, taken over: nothing rolls, and then
//! everything goes on as if they had always been ours.

use std::{collections::BTreeMap, time::Duration};

use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use end_to_end::{BoxError, Harness, Operators, harness};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use rendering::LeaderWorkerSet;
use serde_json::{Value, json};
use test_cluster::{conformance_kit, wait};

use crate::{
    nodes::{Player, harness_with_sets},
    recorded::Case,
};

const PATIENCE: Duration = Duration::from_secs(120);

/// Identity and spec of everything that runs pods.
async fn workloads(harness: &Harness) -> Result<BTreeMap<String, (Option<String>, Value)>, BoxError> {
    let mut all = BTreeMap::new();
    for d in harness.api::<Deployment>().list(&ListParams::default()).await? {
        all.insert(format!("Deployment {}", d.name_any()), (d.uid(), json!(d.spec)));
    }
    if let Ok(sets) = harness.api::<LeaderWorkerSet>().list(&ListParams::default()).await {
        for s in sets {
            all.insert(format!("LeaderWorkerSet {}", s.name_any()), (s.uid(), json!(s.spec)));
        }
    }
    Ok(all)
}

async fn until_available(harness: &Harness) -> Result<(), BoxError> {
    let api = harness.api::<Deployment>();
    let probe = async || {
        let all = api.list(&ListParams::default()).await.map_err(|e| e.to_string())?;
        let lacks = |d: &Deployment| {
            let available = d.status.as_ref().and_then(|s| s.available_replicas).unwrap_or(0);
            available < d.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1)
        };
        let lacking: Vec<_> = all.iter().filter(|d| lacks(d)).map(ResourceExt::name_any).collect();
        if lacking.is_empty() { Ok(()) } else { Err(lacking.join(", ")) }
    };
    Ok(wait::until("the Go operator's Deployments", PATIENCE, probe).await?)
}

/// Index of the first worker of a graph.
fn worker(graph: &DynamoGraphDeployment) -> usize {
    graph.spec.components.iter().position(|component| component.is_worker()).unwrap_or_default()
}

async fn edit(harness: &Harness, operations: Value) -> Result<(), BoxError> {
    let api = harness.api::<DynamoGraphDeployment>();
    let name = api.list(&ListParams::default()).await?.items.remove(0).name_any();
    let patch = Patch::<()>::Json(serde_json::from_value(operations)?);
    api.patch(&name, &PatchParams::default(), &patch).await?;
    harness.ready(&name).await.map(drop)
}

/// Takes a case over, and then scales, edits and deletes.
async fn take_over(harness: &Harness, mode: &str, name: &str) -> Result<(), BoxError> {
    let Some(kit) = conformance_kit() else { return Ok(()) };
    let case = Case::read(&kit, mode, name, Some(harness.ns()))?;
    case.load(&harness.client).await?;
    until_available(harness).await?;
    let graphs = harness.api::<DynamoGraphDeployment>();
    let before = workloads(harness).await?;
    let operators = Operators::of(harness).await?;

    let graph = graphs.list(&ListParams::default()).await?.items.remove(0);
    let name = graph.name_any();
    let known = async || {
        let all = harness.components().await.map_err(|e| e.to_string())?;
        let ours = |d: &DynamoComponentDeployment| {
            let conditions = d.status.iter().flat_map(|status| &status.conditions);
            conditions.filter(|c| c.type_ == "Reconciling").any(|c| c.status == "False")
        };
        if all.iter().all(ours) { Ok(()) } else { Err("a component that is not reconciled yet".to_owned()) }
    };
    wait::until("all components to be looked at", PATIENCE, known).await?;
    harness.ready(&name).await?;
    assert_eq!(workloads(harness).await?, before, "a spec was written, or a workload came or went");
    let notes = graphs.get(&name).await?.annotations().clone();
    assert!(!notes.contains_key("nvidia.com/current-worker-hash"), "the Go operator's own note is still true");

    let index = worker(&graph);
    let at = |field: &str| format!("/spec/components/{index}/{field}");
    edit(harness, json!([{ "op": "add", "path": at("replicas"), "value": 2 }])).await?;
    let scaled = workloads(harness).await?;
    assert!(scaled.keys().eq(before.keys()), "scaling starts no revision");

    let image = at("podTemplate/spec/containers/0/image");
    edit(harness, json!([{ "op": "replace", "path": image, "value": "registry.example/other:2.0.0" }])).await?;
    // The garbage collector takes the workloads of the old revision a moment after its components.
    let one_revision = async || {
        let live = workloads(harness).await.map_err(|e| e.to_string())?;
        if live.len() == before.len() { Ok(live) } else { Err(format!("{:?}", live.keys())) }
    };
    let edited = wait::until("one revision to be left", PATIENCE, one_revision).await?;
    assert!(!edited.keys().eq(before.keys()), "an edit starts a revision");
    let notes = graphs.get(&name).await?.annotations().clone();
    let reported = notes.get("nvidia.com/current-worker-hash").cloned().unwrap_or_default();
    assert!(
        edited.keys().any(|key| key.contains(&reported)) && !reported.is_empty(),
        "{reported} of {:?}",
        edited.keys()
    );
    assert!(!notes.contains_key("nvidia.com/current-worker-hash-v2"), "a digest of what is gone");

    graphs.delete(&name, &DeleteParams::foreground()).await?;
    let gone = async || match graphs.get_opt(&name).await {
        Ok(None) => Ok(()),
        Ok(Some(graph)) => Err(format!("{:?}", graph.meta().finalizers)),
        Err(error) => Err(error.to_string()),
    };
    wait::until("the graph to go", PATIENCE, gone).await?;
    assert!(harness.components().await?.is_empty());
    operators.stop().await
}

#[tokio::test]
async fn one_worker() -> Result<(), BoxError> {
    take_over(&harness("takeover-agg").await?, "base", "examples__backends__vllm__deploy__agg").await
}

#[tokio::test]
async fn disaggregated_workers() -> Result<(), BoxError> {
    take_over(&harness("takeover-disagg").await?, "base", "examples__backends__sglang__deploy__disagg").await
}

#[tokio::test]
async fn a_graph_of_v1alpha1() -> Result<(), BoxError> {
    take_over(&harness("takeover-alpha").await?, "base", "deploy__utils__tests__fixtures__v1alpha1__disagg").await
}

#[tokio::test]
async fn replicas_over_several_nodes() -> Result<(), BoxError> {
    let Some(harness) = harness_with_sets("takeover-nodes").await? else { return Ok(()) };
    let _player = Player::start(&harness);
    take_over(&harness, "lws", "examples__backends__vllm__deploy__disagg-multinode").await
}

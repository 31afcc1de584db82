//! Namespaces of the Go operator, as the conformance kit has recorded them, taken over: nothing rolls, and then everything
//! goes on as if they had always been ours.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use api_types::conversion::{ApiVersion, convert};
use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use end_to_end::{BoxError, World, world};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};
use test_cluster::{conformance_kit, wait};
use workload::LeaderWorkerSet;

use crate::nodes::{Player, world_with_sets};

const PATIENCE: Duration = Duration::from_secs(120);
/// The Go operator's finalizer, on everything that it serves.
const FINALIZER: &str = "nvidia.com/finalizer";
/// Kinds that a namespace may hold and that are no part of what is taken over.
const LEFT_OUT: [&str; 1] = ["Secret"];

/// A recorded case, as if it had been recorded in this namespace.
struct Case {
    record: Value,
    /// The graph as its author wrote it, in the storage version, with the notes of the Go operator.
    graph: Value,
}

impl Case {
    fn read(kit: &Path, mode: &str, name: &str, namespace: &str) -> Result<Self, BoxError> {
        let text = std::fs::read_to_string(kit.join("expected").join(mode).join(format!("{name}.json")))?;
        let recorded: Value = serde_json::from_str(&text)?;
        let text = text.replace(recorded["namespace"].as_str().ok_or("no namespace")?, namespace);
        let record: Value = serde_json::from_str(&text)?;
        let input = std::fs::read_to_string(kit.join("input").join(record["example"].as_str().ok_or("no example")?))?;
        let options = serde_saphyr::options! { emit_comments: false };
        let documents: Vec<Value> =
            serde_saphyr::from_multiple_with_options(&input.replace(":my-tag", ":1.5.0"), options)?;
        let graph = documents.into_iter().find(|d| d["kind"] == "DynamoGraphDeployment").ok_or("no graph")?;
        let mut graph = convert(graph, ApiVersion::V1Beta1)?;
        let notes = record["objects"].as_array().into_iter().flatten();
        let suffix = notes.filter_map(|o| o["metadata"]["labels"]["nvidia.com/dynamo-worker-hash"].as_str()).next();
        graph["metadata"]["namespace"] = json!(namespace);
        graph["metadata"]["finalizers"] = json!([FINALIZER]);
        graph["metadata"]["annotations"]["nvidia.com/dynamo-operator-origin-version"] = json!("1.5.0");
        graph["metadata"]["annotations"]["nvidia.com/current-worker-hash-v2"] = json!(suffix);
        Ok(Self { record, graph })
    }

    fn status_of(&self, kind: &str, name: &str) -> Value {
        let all = self.record["crs"].as_array().into_iter().flatten();
        let mut found = all.filter(|cr| cr["kind"] == kind && cr["name"] == name);
        let mut status = found.next().map(|cr| cr["v1beta1"]["status"].clone()).unwrap_or_default();
        for condition in status["conditions"].as_array_mut().into_iter().flatten() {
            condition["lastTransitionTime"] = json!("2026-01-01T00:00:00Z");
            condition["message"] = json!("");
        }
        status
    }
}

/// The objects of a case, owners first, each under the uid that its owner has here.
async fn load(world: &World, case: &Case) -> Result<(), BoxError> {
    let mut uids = BTreeMap::new();
    let all = case.record["objects"].as_array().into_iter().flatten().cloned();
    let mut left: Vec<Value> = all.filter(|o| LEFT_OUT.iter().all(|kind| o["kind"] != *kind)).collect();
    left.insert(0, case.graph.clone());
    while !left.is_empty() {
        let before = left.len();
        let mut later = Vec::new();
        for mut object in left {
            let owners = object["metadata"]["ownerReferences"].as_array_mut();
            let known = owners.into_iter().flatten().all(|owner| match uids.get(&key(owner, &owner["name"])) {
                Some(uid) => {
                    owner["uid"] = json!(uid);
                    true
                }
                None => false,
            });
            if known {
                let uid = create(world, case, &object).await?;
                uids.insert(key(&object, &object["metadata"]["name"]), uid);
            } else {
                later.push(object);
            }
        }
        assert!(later.len() < before, "owners are missing of {later:?}");
        left = later;
    }
    Ok(())
}

fn key(object: &Value, name: &Value) -> String {
    format!("{}/{}", object["kind"], name)
}

async fn create(world: &World, case: &Case, object: &Value) -> Result<String, BoxError> {
    let mut object: DynamicObject = serde_json::from_value(object.clone())?;
    let TypeMeta { api_version, kind } = object.types.clone().ok_or("no kind")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(TypeMeta { api_version, kind: kind.clone() })?);
    if kind == "Service" {
        // The API server chooses another one.
        let spec = object.data["spec"].as_object_mut().ok_or("no spec")?;
        ["clusterIP", "clusterIPs"].iter().for_each(|field| drop(spec.remove(*field)));
    }
    let api: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), world.ns(), &resource);
    let params = PostParams { field_manager: Some("manager".to_owned()), ..PostParams::default() };
    let made = api.create(&params, &object).await.map_err(|e| format!("{kind} {}: {e}", object.name_any()))?;
    let status = case.status_of(&kind, &made.name_any());
    if kind.starts_with("Dynamo") && status.is_object() {
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(&made.name_any(), &PatchParams::default(), &patch).await?;
    }
    made.uid().ok_or_else(|| "no uid".into())
}

/// Identity and spec of everything that runs pods.
async fn workloads(world: &World) -> Result<BTreeMap<String, (Option<String>, Value)>, BoxError> {
    let mut all = BTreeMap::new();
    for d in world.api::<Deployment>().list(&ListParams::default()).await? {
        all.insert(format!("Deployment {}", d.name_any()), (d.uid(), json!(d.spec)));
    }
    if let Ok(sets) = world.api::<LeaderWorkerSet>().list(&ListParams::default()).await {
        for s in sets {
            all.insert(format!("LeaderWorkerSet {}", s.name_any()), (s.uid(), json!(s.spec)));
        }
    }
    Ok(all)
}

async fn until_available(world: &World) -> Result<(), BoxError> {
    let api = world.api::<Deployment>();
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

async fn edit(world: &World, operations: Value) -> Result<(), BoxError> {
    let api = world.api::<DynamoGraphDeployment>();
    let name = api.list(&ListParams::default()).await?.items.remove(0).name_any();
    let patch = Patch::<()>::Json(serde_json::from_value(operations)?);
    api.patch(&name, &PatchParams::default(), &patch).await?;
    world.ready(&name).await.map(drop)
}

/// Takes a case over, and then scales, edits and deletes.
async fn take_over(world: &World, mode: &str, name: &str) -> Result<(), BoxError> {
    let Some(kit) = conformance_kit() else { return Ok(()) };
    let case = Case::read(&kit, mode, name, world.ns())?;
    load(world, &case).await?;
    until_available(world).await?;
    let graphs = world.api::<DynamoGraphDeployment>();
    let before = workloads(world).await?;
    let operators = world.operators().await?;

    let graph = graphs.list(&ListParams::default()).await?.items.remove(0);
    let name = graph.name_any();
    let known = async || {
        let all = world.components().await.map_err(|e| e.to_string())?;
        let ours = |d: &DynamoComponentDeployment| {
            let conditions = d.status.iter().flat_map(|status| &status.conditions);
            conditions.filter(|c| c.type_ == "Reconciling").any(|c| c.status == "False")
        };
        if all.iter().all(ours) { Ok(()) } else { Err("a component that nobody has looked at".to_owned()) }
    };
    wait::until("all components to be looked at", PATIENCE, known).await?;
    world.ready(&name).await?;
    assert_eq!(workloads(world).await?, before, "a spec was written, or a workload came or went");
    let notes = graphs.get(&name).await?.annotations().clone();
    assert!(!notes.contains_key("nvidia.com/current-worker-hash"), "the Go operator's own note is still true");

    let index = worker(&graph);
    let at = |field: &str| format!("/spec/components/{index}/{field}");
    edit(world, json!([{ "op": "add", "path": at("replicas"), "value": 2 }])).await?;
    let scaled = workloads(world).await?;
    assert!(scaled.keys().eq(before.keys()), "scaling starts no generation");

    let image = at("podTemplate/spec/containers/0/image");
    edit(world, json!([{ "op": "replace", "path": image, "value": "registry.example/other:2.0.0" }])).await?;
    // The garbage collector takes the workloads of the old generation a moment after its components.
    let one_generation = async || {
        let live = workloads(world).await.map_err(|e| e.to_string())?;
        if live.len() == before.len() { Ok(live) } else { Err(format!("{:?}", live.keys())) }
    };
    let edited = wait::until("one generation to be left", PATIENCE, one_generation).await?;
    assert!(!edited.keys().eq(before.keys()), "an edit starts a generation");
    let notes = graphs.get(&name).await?.annotations().clone();
    let told = notes.get("nvidia.com/current-worker-hash").cloned().unwrap_or_default();
    assert!(edited.keys().any(|key| key.contains(&told)) && !told.is_empty(), "{told} of {:?}", edited.keys());
    assert!(!notes.contains_key("nvidia.com/current-worker-hash-v2"), "a digest of what is gone");

    graphs.delete(&name, &DeleteParams::foreground()).await?;
    let gone = async || match graphs.get_opt(&name).await {
        Ok(None) => Ok(()),
        Ok(Some(graph)) => Err(format!("{:?}", graph.meta().finalizers)),
        Err(error) => Err(error.to_string()),
    };
    wait::until("the graph to go", PATIENCE, gone).await?;
    assert!(world.components().await?.is_empty());
    operators.stop().await
}

#[tokio::test]
async fn one_worker() -> Result<(), BoxError> {
    take_over(&world("takeover-agg").await?, "base", "examples__backends__vllm__deploy__agg").await
}

#[tokio::test]
async fn disaggregated_workers() -> Result<(), BoxError> {
    take_over(&world("takeover-disagg").await?, "base", "examples__backends__sglang__deploy__disagg").await
}

#[tokio::test]
async fn a_graph_of_v1alpha1() -> Result<(), BoxError> {
    take_over(&world("takeover-alpha").await?, "base", "deploy__utils__tests__fixtures__v1alpha1__disagg").await
}

#[tokio::test]
async fn replicas_over_several_nodes() -> Result<(), BoxError> {
    let Some(world) = world_with_sets("takeover-nodes").await? else { return Ok(()) };
    let _player = Player::start(&world);
    take_over(&world, "lws", "examples__backends__vllm__deploy__disagg-multinode").await
}

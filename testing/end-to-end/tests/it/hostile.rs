//! A tenant whose objects are made to stop the controllers, beside a tenant with one graph.

use std::time::{Duration, Instant};

use api_types::{labels, v1beta1::DynamoGraphDeployment};
use end_to_end::{BoxError, COMPONENT_CONTROLLER, GRAPH_CONTROLLER, Harness, cluster_wide, private_harness};
use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    api::{Api, DynamicObject, ListParams, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use test_cluster::{Program, wait};

use crate::graphs::disaggregated;

/// Graphs of the hostile tenant that change all the time.
const CHANGING: usize = 40;
/// ConfigMaps of the hostile tenant with a label of the operator, of nearly 1 MB each.
const LARGE: usize = 30;
/// The time within which a new graph of the other tenant is ready.
const SOON: Duration = Duration::from_secs(5);
/// On a machine that is busy otherwise, as many times the time without the attack: the API server, which works for both
/// tenants, has the same processors.
const FACTOR: u32 = 10;

/// A controller of all namespaces.
async fn controller(harness: &Harness, binary: &str) -> Result<Program, BoxError> {
    let program = cluster_wide(binary, harness.cluster.kubeconfig())?;
    harness.cluster.run(&program).await?;
    Ok(program)
}

fn objects(harness: &Harness, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(harness.client.clone(), harness.ns(), &resource)
}

async fn apply(harness: &Harness, object: &Value) -> Result<(), BoxError> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
    let api = objects(harness, group, version, text("/kind"));
    api.patch(text("/metadata/name"), &PatchParams::apply("tenant").force(), &Patch::Apply(object)).await?;
    Ok(())
}

/// The graph without pods.
fn idle(name: &str) -> Value {
    let mut graph = disaggregated(name, "1.0.0", 0, 0);
    graph["spec"]["components"][0]["replicas"] = json!(0);
    graph
}

/// A component with the most nodes that the schema takes, for the framework that lists them all in a command.
fn many_nodes(count: u32) -> Value {
    json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoComponentDeployment", "metadata": { "name": "many-nodes" },
        "spec": {
            "name": "w", "type": "worker", "backendFramework": "trtllm", "multinode": { "nodeCount": count },
            "podTemplate": { "spec": { "containers": [{
                "name": "main", "image": "registry.example/worker:1.0.0",
                "command": ["python3"], "args": ["-m", "dynamo.trtllm"],
            }] } },
        },
    })
}

/// A graph whose annotation names thousands of claims.
fn many_claims() -> Value {
    let claims: Vec<Value> = (0..8000).map(|number| json!({ "name": format!("p{number:05}") })).collect();
    let mut graph = idle("many-claims");
    graph["metadata"]["annotations"]["nvidia.com/dgd-spec"] = json!({ "spec": { "pvcs": claims } }).to_string().into();
    graph
}

fn large_map(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": format!("large-{number}"), "labels": { "nvidia.com/dynamo-graph-deployment-name": "many-claims" },
        },
        "data": { "x": "a".repeat(900_000) },
    })
}

/// Adapters of one component with different replicas.
fn rival(number: u32) -> Value {
    json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentScalingAdapter",
        "metadata": { "name": format!("rival-{number}") },
        "spec": { "replicas": number, "dgdRef": { "name": "changing-0", "componentName": "Decode" } },
    })
}

/// Stores all objects of the attack.
async fn attack(harness: &Harness) -> Result<(), BoxError> {
    let refused = apply(harness, &many_nodes(2_000_000_000)).await;
    assert!(refused.is_err(), "a number above the maximum of the schema is refused");
    let mut all = vec![many_nodes(1024), many_claims()];
    all.extend((0..LARGE).map(large_map));
    all.extend((0..CHANGING).map(|number| idle(&format!("changing-{number}"))));
    all.extend([0, 1].map(rival));
    for batch in all.chunks(8) {
        try_join_all(batch.iter().map(|object| apply(harness, object))).await?;
    }
    Ok(())
}

/// Changes the graphs of the attack one after the other, without end.
async fn keep_changing(harness: &Harness) -> Result<(), BoxError> {
    let graphs = harness.api::<DynamoGraphDeployment>();
    for round in 0_u64.. {
        for number in 0..CHANGING {
            let tag = json!([{ "op": "add", "path": "/spec/components/1/podTemplate/spec/containers/0/image",
                "value": format!("registry.example/prefill:{round}") }]);
            let patch = Patch::Json::<()>(serde_json::from_value(tag)?);
            graphs.patch(&format!("changing-{number}"), &PatchParams::default(), &patch).await?;
        }
    }
    Ok(())
}

/// Creates a graph, and returns how long it takes to be ready.
async fn time_of(harness: &Harness, name: &str) -> Result<Duration, BoxError> {
    let start = Instant::now();
    harness.apply(&disaggregated(name, "1.0.0", 1, 1)).await?;
    harness.ready(name).await?;
    Ok(start.elapsed())
}

/// Creates the Deployments of a graph once more without the operator, and returns how long they take to be available:
/// what the control plane needs by itself.
async fn time_without_operator(harness: &Harness, graph: &str, name: &str) -> Result<Duration, BoxError> {
    let deployments = harness.api::<Deployment>();
    let of_graph = ListParams::default().labels(&format!("{}={graph}", labels::GRAPH));
    let mut copies = Vec::new();
    for (number, deployment) in deployments.list(&of_graph).await?.items.into_iter().enumerate() {
        let copy = format!("{name}-{number}");
        let mut spec = serde_json::to_value(deployment.spec)?;
        spec["selector"] = json!({ "matchLabels": { "copy": copy } });
        spec["template"]["metadata"] = json!({ "labels": { "copy": copy } });
        copies
            .push(json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": copy }, "spec": spec }));
    }
    assert!(!copies.is_empty(), "graph {graph} has Deployments");
    let start = Instant::now();
    try_join_all(copies.iter().map(|copy| apply(harness, copy))).await?;
    for copy in &copies {
        let name = copy["metadata"]["name"].as_str().unwrap_or_default();
        wait::until(&format!("Deployment {name} is available"), SOON * FACTOR, async || {
            let status = deployments.get(name).await.ok()?.status?;
            (status.available_replicas.unwrap_or(0) > 0).then_some(())
        })
        .await?;
    }
    Ok(start.elapsed())
}

fn since_ready(graph: &DynamoGraphDeployment) -> Option<Value> {
    let conditions = &graph.status.as_ref()?.conditions;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    serde_json::to_value(&ready.last_transition_time).ok()
}

#[tokio::test]
async fn a_hostile_tenant_does_not_keep_another_tenants_graph_from_being_ready() -> Result<(), BoxError> {
    let hostile = private_harness("hostile").await?;
    let other = Harness::on(hostile.cluster, "other").await?;
    let controllers =
        [controller(&hostile, GRAPH_CONTROLLER).await?, controller(&hostile, COMPONENT_CONTROLLER).await?];
    let pids =
        || controllers.each_ref().map(|program| hostile.cluster.process(&program.name).map(|process| process.pid));
    // The first graph waits for leadership and caches.
    time_of(&other, "steady").await?;
    let alone = time_of(&other, "alone").await?;
    let plain_alone = time_without_operator(&other, "alone", "plain-alone").await?;
    let (started, steady) = (pids(), other.ready("steady").await?);

    attack(&hostile).await?;
    let under_attack = async {
        let first = time_of(&other, "first").await?;
        let slowest = first.max(time_of(&other, "second").await?);
        Ok::<_, BoxError>((slowest, time_without_operator(&other, "alone", "plain-attacked").await?))
    };
    let (under_attack, plain) = tokio::select! {
        ended = keep_changing(&hostile) => return Err(format!("the attack ended: {ended:?}").into()),
        times = under_attack => times?,
    };

    println!(
        "graph: {alone:?} alone, {under_attack:?} under attack; its Deployments without the operator: {plain_alone:?} alone, \
         {plain:?} under attack"
    );
    assert!(under_attack <= SOON.max(alone * FACTOR), "alone: {alone:?}; under attack: {under_attack:?}");
    let after = other.api::<DynamoGraphDeployment>().get("steady").await?;
    assert!(since_ready(&after).is_some());
    assert_eq!(since_ready(&after), since_ready(&steady), "the graph has been ready all the time");
    assert!(started.iter().all(Option::is_some));
    assert_eq!(pids(), started, "no controller was killed");
    Ok(())
}

//! One install for the whole cluster.

use anyhow::{Context, Result, ensure};
use api_types::v1beta1::DynamoGraphDeployment;
use kube::{
    ResourceExt,
    api::{Api, DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
};
use local_operator::http;
use serde_json::json;
use test_cluster::wait;

use super::{OPERATOR, RELEASE, TEAM};
use crate::harness::{Harness, PATIENCE, containers, graph};

/// Port of workers.
const SYSTEM_PORT: i32 = api_types::ports::SYSTEM;

/// The chart installs into a namespace that takes only restricted pods, and all of its pods run.
pub(super) async fn install(harness: &Harness) -> Result<()> {
    harness.namespace(OPERATOR, "restricted").await?;
    harness.install(RELEASE, OPERATOR, &[]).await?;
    let pods = harness.pods(OPERATOR).list(&ListParams::default()).await?;
    let ready = pods.iter().filter(|pod| containers(pod).iter().all(|container| container.ready));
    let mut ready: Vec<String> = ready.map(ResourceExt::name_any).collect();
    ready.sort();
    ensure!(ready.len() == 6, "three controllers, two webhook servers and crds are expected; ready are {ready:?}");
    Ok(())
}

/// A graph becomes ready, and its pods run.
pub(super) async fn graph_runs(harness: &Harness) -> Result<()> {
    harness.namespace(TEAM, "privileged").await?;
    harness.apply(TEAM, &graph("chat", "1")).await?;
    harness.ready(TEAM, "chat").await?;
    let pods = harness.serving(TEAM, "chat").await.map_err(anyhow::Error::msg)?;
    let running = pods.iter().filter(|pod| containers(pod).iter().all(|container| container.ready)).count();
    ensure!(running == 2, "a frontend and a worker are expected, {running} pods run");
    Ok(())
}

/// The log of a worker is read through its kubelet, and its own API through the pod network.
pub(super) async fn logs_and_network(harness: &Harness) -> Result<()> {
    let worker = harness.worker(TEAM, "chat").await?;
    let said = harness.logs(TEAM, &worker.name_any()).await?;
    ensure!(said.contains("mock engine listens on 9090"), "the worker said {said:?}");
    let address = worker.status.and_then(|status| status.pod_ip).context("the worker has no address")?;
    let answer = http::send(&format!("{address}:{SYSTEM_PORT}"), "GET", "/v1/loras").await?;
    ensure!(answer.contains("200 OK"), "the worker answers {answer:?}");
    Ok(())
}

/// An edit of what workers run brings new pods, and takes the old ones away.
pub(super) async fn rollout(harness: &Harness) -> Result<()> {
    let before = harness.worker(TEAM, "chat").await?;
    harness.apply(TEAM, &graph("chat", "2")).await?;
    harness.ready(TEAM, "chat").await?;
    wait::until("the old worker to be gone", PATIENCE, async || {
        let pods = harness.serving(TEAM, "chat").await?;
        let names: Vec<String> = pods.iter().map(ResourceExt::name_any).collect();
        let changed = pods.len() == 2 && !names.contains(&before.name_any());
        if changed { Ok(()) } else { Err(format!("there are {names:?}")) }
    })
    .await?;
    Ok(())
}

/// A worker that takes more memory than it may is killed; its graph says that it is not ready, and then that it is
/// again.
pub(super) async fn memory_exhausted(harness: &Harness) -> Result<()> {
    let worker = harness.worker(TEAM, "chat").await?;
    let restarts = containers(&worker).iter().map(|container| container.restart_count).sum::<i32>();
    let before = transition(&harness.graphs(TEAM).get("chat").await?);
    let address = worker.status.as_ref().and_then(|status| status.pod_ip.clone()).context("no address")?;
    // The engine ends before it answers.
    let _ = http::send(&format!("{address}:{SYSTEM_PORT}"), "POST", "/exhaust").await;
    wait::until("the worker to have been killed", PATIENCE, async || {
        let pod = harness.pods(TEAM).get(&worker.name_any()).await.map_err(|error| error.to_string())?;
        let ends = containers(&pod).iter().filter(|container| container.restart_count > restarts);
        let reasons = ends.filter_map(|container| container.last_state.as_ref()?.terminated.as_ref()?.reason.clone());
        let reasons: Vec<String> = reasons.collect();
        if reasons.iter().any(|reason| reason == "OOMKilled") {
            Ok(())
        } else {
            Err(format!("it ended by {reasons:?}"))
        }
    })
    .await?;
    wait::until("the graph to say that it was not Ready", PATIENCE, async || {
        let graph = harness.graphs(TEAM).get("chat").await.map_err(|error| error.to_string())?;
        let after = transition(&graph);
        if before == after { Err(format!("Ready since {after:?}")) } else { Ok(()) }
    })
    .await?;
    harness.ready(TEAM, "chat").await
}

/// Returns the last transition time of `Ready`.
fn transition(graph: &DynamoGraphDeployment) -> Option<String> {
    let conditions = &graph.status.as_ref()?.conditions;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    Some(ready.last_transition_time.0.to_string())
}

/// The API server reaches the webhook server through its Service, by its CA: for admission and for conversion.
pub(super) async fn webhooks(harness: &Harness) -> Result<()> {
    let mut wrong = graph("wrong", "1");
    wrong["spec"]["components"][1]["name"] = json!("Frontend");
    let rejection = harness.apply(TEAM, &wrong).await.err().context("two components of one name are accepted")?;
    ensure!(!rejection.to_string().contains("failed calling webhook"), "{rejection}");
    let kind = GroupVersionKind::gvk(api_types::GROUP, "v1alpha1", "DynamoGraphDeployment");
    let old: Api<DynamicObject> = Api::namespaced_with(harness.client.clone(), TEAM, &ApiResource::from_gvk(&kind));
    let converted = old.get("chat").await.context("no conversion to v1alpha1")?;
    ensure!(converted.data["spec"]["services"]["Worker"].is_object(), "{}", converted.data["spec"]);
    Ok(())
}

/// An adapter is loaded into a worker that runs, by the model controller.
pub(super) async fn adapter(harness: &Harness) -> Result<()> {
    let model = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoModel", "metadata": {"name": "poet", "namespace": TEAM},
        "spec": {"modelName": "poet", "baseModelName": "base", "modelType": "lora", "source": {"uri": "s3://models/poet"}},
    });
    let mut graph = graph("tuned", "1");
    graph["spec"]["components"][1]["modelRef"] = json!({"name": "base"});
    harness.apply(TEAM, &graph).await?;
    harness.cluster.apply(&[model]).await?;
    harness.ready(TEAM, "tuned").await?;
    let worker = harness.worker(TEAM, "tuned").await?;
    let address = worker.status.and_then(|status| status.pod_ip).context("no address")?;
    wait::until("the worker to hold the adapter", PATIENCE, async || {
        let answer = http::send(&format!("{address}:{SYSTEM_PORT}"), "GET", "/v1/loras").await;
        let answer = answer.map_err(|error| format!("{error:#}"))?;
        if answer.contains("poet") { Ok(()) } else { Err(answer) }
    })
    .await?;
    harness.delete(TEAM, "tuned").await
}

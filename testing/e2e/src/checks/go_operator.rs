//! The release of the Go operator, upgraded to this chart and rolled back.

use std::{collections::BTreeSet, env, path::PathBuf};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    ResourceExt,
    api::{Api, ListParams, Patch, PatchParams},
};
use serde_json::json;
use test_cluster::wait;

use super::TEAM;
use crate::{
    REPOSITORY, TAG,
    harness::{HELM_TIMEOUT, Harness, PATIENCE, chart, containers, graph},
    node,
};

/// The folder with the Go operator's chart (`chart`) and image (`image.tar`).
const DIR: &str = "DYNAMO_GO_OPERATOR_DIR";
const NAMESPACE: &str = "go-operator";
const RELEASE: &str = "dynamo-platform";
const GRAPH: &str = "kept";
/// Both charts take the image by these values.
const IMAGE: &str = "dynamo-operator.controllerManager.manager.image";
/// Deployments of the Go operator, and those of this chart.
const GO: &str = "control-plane=controller-manager,app.kubernetes.io/instance=dynamo-platform";
const OURS: &str = "app.kubernetes.io/part-of=dynamo-operator,app.kubernetes.io/instance=dynamo-platform";

/// `helm upgrade` from the Go operator's chart, and `helm rollback`, keep every pod of a graph. Each operator is stopped
/// before the other is installed.
pub(super) async fn go_operator(harness: &Harness) -> Result<()> {
    let Some(dir) = env::var_os(DIR).map(PathBuf::from) else {
        println!("skipped: {DIR} names no folder with the Go operator");
        return Ok(());
    };
    node::ctr(&["--namespace=k8s.io", "images", "import", &dir.join("image.tar").to_string_lossy()])?;
    harness.namespace(NAMESPACE, "baseline").await?;
    harness.namespace(TEAM, "privileged").await?;
    let theirs = dir.join("chart").to_string_lossy().into_owned();
    helm(harness, "install", &theirs, &format!("{REPOSITORY}/kubernetes-operator")).await?;
    apply(harness, 1).await?;
    let pods = serving(harness, 2).await?;

    let platform = chart("dynamo-platform");
    let rejection =
        helm(harness, "upgrade", &platform, REPOSITORY).await.err().context("two operators are accepted")?;
    ensure!(format!("{rejection:#}").contains("runs the Go operator; stop it first"), "{rejection:#}");
    stop(harness, GO).await?;
    helm(harness, "upgrade", &platform, REPOSITORY).await?;
    harness.ready(TEAM, GRAPH).await?;
    ensure!(serving(harness, 2).await? == pods, "the upgrade replaced pods");
    apply(harness, 2).await?;
    let pods = kept(&pods, serving(harness, 3).await?)?;

    stop(harness, OURS).await?;
    harness.helm(&["rollback", RELEASE, "1", "--namespace", NAMESPACE, "--wait", HELM_TIMEOUT]).await?;
    apply(harness, 3).await?;
    kept(&pods, serving(harness, 4).await?)?;

    harness.delete(TEAM, GRAPH).await?;
    harness.uninstall(RELEASE, NAMESPACE).await
}

/// Installs or upgrades the release with the values of its last revision.
async fn helm(harness: &Harness, verb: &str, chart: &str, repository: &str) -> Result<()> {
    let (repository, tag) = (format!("{IMAGE}.repository={repository}"), format!("{IMAGE}.tag={TAG}"));
    let args = [verb, RELEASE, chart, "--namespace", NAMESPACE, "--wait", HELM_TIMEOUT];
    harness.helm(&[&args as &[&str], &["--set", &repository, "--set", &tag]].concat()).await.map(drop)
}

/// Applies the graph with a number of workers. The API server may still be learning who admits it.
async fn apply(harness: &Harness, workers: u32) -> Result<()> {
    let mut graph = graph(GRAPH, "1");
    graph["spec"]["components"][1]["replicas"] = json!(workers);
    wait::until("the graph to be admitted", PATIENCE, async || {
        harness.apply(TEAM, &graph).await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    Ok(())
}

/// Uids of the graph's pods, when so many serve.
async fn serving(harness: &Harness, count: usize) -> Result<BTreeSet<String>> {
    let pods = wait::until(format!("{count} pods to serve"), PATIENCE, async || {
        let pods = harness.serving(TEAM, GRAPH).await?;
        let ready = pods.iter().filter(|pod| containers(pod).iter().any(|container| container.ready)).count();
        if (pods.len(), ready) == (count, count) { Ok(pods) } else { Err(format!("{ready} of {} do", pods.len())) }
    });
    Ok(pods.await?.iter().filter_map(ResourceExt::uid).collect())
}

/// The pods that serve now, unless one of those before is missing.
fn kept(before: &BTreeSet<String>, now: BTreeSet<String>) -> Result<BTreeSet<String>> {
    ensure!(before.is_subset(&now), "of the pods {before:?}, only {now:?} are left");
    Ok(now)
}

/// Scales Deployments of the release to zero; returns when their pods are gone.
async fn stop(harness: &Harness, selector: &str) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(harness.client.clone(), NAMESPACE);
    let list = deployments.list(&ListParams::default().labels(selector)).await?;
    ensure!(!list.items.is_empty(), "no Deployment has the labels {selector}");
    for deployment in list {
        let scale = Patch::Merge(json!({"spec": {"replicas": 0}}));
        deployments.patch_scale(&deployment.name_any(), &PatchParams::default(), &scale).await?;
    }
    wait::until("the operator to stop", PATIENCE, async || {
        let pods = harness.pods(NAMESPACE).list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        if pods.items.is_empty() { Ok(()) } else { Err(format!("{} pods are left", pods.items.len())) }
    })
    .await?;
    Ok(())
}

//! Releases of one program: a program changed in an install of all, and each program by its own chart.

use std::{collections::BTreeMap, process::Command};

use anyhow::{Context, Result, ensure};
use kube::{ResourceExt, api::ListParams};
use test_cluster::{
    Server,
    assets::{Assets, Tool},
};

use super::{OPERATOR, RELEASE, TEAM};
use crate::{
    REPOSITORY, TAG,
    harness::{HELM_TIMEOUT, Harness, chart, containers, graph},
    node,
};

/// The program that is upgraded alone, and the tag of its new image.
const CHANGED: &str = "model-controller";
const NEXT: &str = "next";
/// The namespace of releases of one program each, for the whole cluster, in the order in which they are installed.
const ALONE: &str = "programs";
const PROGRAMS: [&str; 5] = ["crds", "webhook-server", "graph-controller", "component-controller", "model-controller"];
/// The same for that namespace only. `lease-scope` becomes ready when the others are.
const ALONE_RESTRICTED: &str = "programs-of-a-namespace";
const RESTRICTED_PROGRAMS: [&str; 4] = ["graph-controller", "component-controller", "model-controller", "lease-scope"];

/// An upgrade of one program, and its rollback, replace the pods of that program and no other pod.
pub(super) async fn one_program(harness: &Harness) -> Result<()> {
    let image = |tag: &str| format!("{REPOSITORY}/{CHANGED}:{tag}");
    node::ctr(&["--namespace=k8s.io", "images", "tag", &image(TAG), &image(NEXT)])?;
    let worker = harness.worker(TEAM, "chat").await?.uid();
    let (platform, value) = (chart("dynamo-platform"), format!("dynamo-operator.{CHANGED}.image.tag={NEXT}"));
    let wait = ["--namespace", OPERATOR, "--wait", HELM_TIMEOUT];
    let upgrade = ["upgrade", RELEASE, &platform, "--reset-then-reuse-values", "--set", &value];
    for command in [&upgrade as &[&str], &["rollback", RELEASE]] {
        let before = pods(harness, OPERATOR).await?;
        harness.helm(&[command, &wait].concat()).await?;
        let after = pods(harness, OPERATOR).await?;
        let gone: Vec<&String> =
            before.iter().filter(|(uid, _)| !after.contains_key(*uid)).map(|(_, name)| name).collect();
        ensure!(!gone.is_empty(), "helm {} replaced no pod", command[0]);
        ensure!(gone.iter().all(|name| name.contains(CHANGED)), "helm {} replaced {gone:?}", command[0]);
        ensure!(before.len() == after.len(), "{before:?} became {after:?}");
    }
    ensure!(harness.worker(TEAM, "chat").await?.uid() == worker, "the worker was replaced");
    Ok(())
}

/// The chart of each program installs by itself, with images that the node pulls from a registry; together they serve a
/// graph: first those of an install for the whole cluster, then those of an install for one namespace.
pub(super) async fn charts_alone(harness: &Harness) -> Result<()> {
    let registry = Server::registry().await?;
    let repository = format!("{}/dynamo", registry.address);
    let lease_scope = RESTRICTED_PROGRAMS.into_iter().filter(|program| !PROGRAMS.contains(program));
    for program in PROGRAMS.into_iter().chain(lease_scope) {
        push(harness, program, &format!("{repository}/{program}:{TAG}"))?;
    }
    harness.namespace(ALONE, "restricted").await?;
    harness.namespace(TEAM, "privileged").await?;
    serve(harness, &Releases { programs: &PROGRAMS, namespace: ALONE, repository: &repository, values: &[] }, TEAM)
        .await?;
    // The pods of its graph are there, too, and those do not keep to the standard.
    harness.namespace(ALONE_RESTRICTED, "privileged").await?;
    let restricted = Releases {
        programs: &RESTRICTED_PROGRAMS,
        namespace: ALONE_RESTRICTED,
        repository: &repository,
        values: &["--set", "namespaceRestriction.enabled=true"],
    };
    serve(harness, &restricted, ALONE_RESTRICTED).await
}

/// Releases of one program each that are one install.
struct Releases<'a> {
    programs: &'a [&'a str],
    namespace: &'a str,
    repository: &'a str,
    /// Arguments of helm beside those of all releases.
    values: &'a [&'a str],
}

/// Installs the programs one after the other, runs a graph in a namespace, and uninstalls them.
async fn serve(harness: &Harness, releases: &Releases<'_>, team: &str) -> Result<()> {
    for program in releases.programs {
        install(harness, program, releases).await?;
    }
    harness.apply(team, &graph("alone", "1")).await?;
    harness.ready(team, "alone").await?;
    harness.delete(team, "alone").await?;
    for program in releases.programs.iter().rev() {
        harness.uninstall(program, releases.namespace).await?;
    }
    Ok(())
}

/// Installs the chart of one program as a release of that name.
async fn install(harness: &Harness, program: &str, releases: &Releases<'_>) -> Result<()> {
    let Releases { namespace, repository, values, .. } = releases;
    let path = chart(&format!("dynamo-platform/charts/dynamo-operator/charts/{program}"));
    let (image, tag) = ("controllerManager.manager.image.repository", "controllerManager.manager.image.tag");
    let (image, tag) = (format!("{image}={repository}"), format!("{tag}={TAG}"));
    let args = ["install", program, &path, "--namespace", namespace, "--wait", HELM_TIMEOUT];
    let common = ["--set", "fullnameOverride=dynamo", "--set", &image, "--set", &tag];
    harness.helm(&[&args as &[&str], &common, values].concat()).await?;
    let list = harness.pods(namespace).list(&ListParams::default()).await?;
    let of_program: Vec<_> = list.iter().filter(|pod| pod.name_any().contains(program)).collect();
    let pulled = |image: &str| image.starts_with(repository);
    let runs = of_program.iter().flat_map(|pod| containers(pod)).all(|it| it.ready && pulled(&it.image));
    ensure!(!of_program.is_empty() && runs, "{program} does not run from {repository}");
    Ok(())
}

/// Pushes an image of the node to a registry.
fn push(harness: &Harness, program: &str, reference: &str) -> Result<()> {
    let mut crane = Command::new(Assets::from_env()?.find(Tool::Crane)?);
    crane.arg("push").arg(harness.images.join(format!("{program}.tar"))).arg(reference);
    let output = crane.output().context("cannot run crane")?;
    ensure!(output.status.success(), "cannot push {reference}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Names of the pods of a namespace that are not ending, by uid.
async fn pods(harness: &Harness, namespace: &str) -> Result<BTreeMap<String, String>> {
    let list = harness.pods(namespace).list(&ListParams::default()).await?;
    let stay = list.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(stay.map(|pod| (pod.uid().unwrap_or_default(), pod.name_any())).collect())
}

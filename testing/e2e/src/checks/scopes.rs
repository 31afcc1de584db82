//! Installs that serve one namespace: beside the cluster-wide one, and alone.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease, core::v1::Secret, rbac::v1::ClusterRole};
use kube::{
    ResourceExt,
    api::{Api, DeleteParams, ListParams},
};
use repository::chart::KUBE_VERSION;
use serde_json::json;
use test_cluster::wait;

use super::{OPERATOR, RELEASE, TEAM};
use crate::harness::{Harness, PATIENCE, chart, containers, graph};

/// The namespace of the restricted install, and its release.
pub(super) const OWN: &str = "team-of-its-own";
pub(super) const OWN_RELEASE: &str = "own";
pub(super) const RESTRICTED: [&str; 1] = ["dynamo-operator.namespaceRestriction.enabled=true"];
const MARKER: &str = "dynamo-operator-namespace-scope";
/// A user with rights in that namespace only.
const INSTALLER: &str = "installer";

/// A second release takes one namespace over: its own controllers serve the graphs there, the others skip them.
pub(super) async fn hybrid(harness: &Harness) -> Result<()> {
    harness.namespace(OWN, "privileged").await?;
    harness.install(OWN_RELEASE, OWN, &RESTRICTED).await?;
    let leases: Api<Lease> = Api::all(harness.client.clone());
    let of_name = ListParams::default().fields(&format!("metadata.name={MARKER}"));
    let marked = wait::until("the namespace to be marked", PATIENCE, async || {
        let found = leases.list(&of_name).await.map_err(|error| error.to_string())?;
        found.items.into_iter().next().ok_or_else(|| "no Lease".to_owned())
    });
    let marker = marked.await?;
    let holder = marker.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
    ensure!(holder.starts_with("namespace-restricted-operator-"), "the holder is {holder:?}");
    harness.apply(OWN, &graph("ours", "1")).await?;
    harness.ready(OWN, "ours").await?;
    // The other namespaces go on as they were.
    harness.apply(TEAM, &graph("chat", "3")).await?;
    harness.ready(TEAM, "chat").await?;
    let writers = writers(harness, OWN)?;
    let own = format!("system:serviceaccount:{OWN}:");
    ensure!(!writers.is_empty() && writers.iter().all(|user| user.starts_with(&own)), "written by {writers:?}");
    Ok(())
}

/// The restricted install goes; the cluster-wide one takes its graphs over, and no pod of them changes. Helm takes the
/// rights away before the pods have ended, so the marker may have to expire first.
pub(super) async fn hand_over(harness: &Harness) -> Result<()> {
    let before = harness.worker(OWN, "ours").await?.uid();
    harness.uninstall(OWN_RELEASE, OWN).await?;
    ensure!(harness.worker(OWN, "ours").await?.uid() == before, "the worker was replaced");
    harness.apply(OWN, &graph("ours", "2")).await?;
    harness.ready(OWN, "ours").await?;
    harness.delete(OWN, "ours").await
}

/// Objects of users remain after the operator is uninstalled: graphs, their pods, the CRDs, the certificate.
pub(super) async fn uninstall(harness: &Harness) -> Result<()> {
    let before = harness.worker(TEAM, "chat").await?.uid();
    harness.uninstall(RELEASE, OPERATOR).await?;
    let deployments: Api<Deployment> = Api::namespaced(harness.client.clone(), OPERATOR);
    let left: Vec<String> = deployments.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
    ensure!(left.is_empty(), "{left:?} are left of the operator");
    harness.graphs(TEAM).get("chat").await.context("the graph is gone")?;
    let worker = harness.worker(TEAM, "chat").await?;
    ensure!(worker.uid() == before && containers(&worker).iter().all(|c| c.ready), "the worker was replaced");
    let secrets: Api<Secret> = Api::namespaced(harness.client.clone(), OPERATOR);
    secrets.get("webhook-server-cert").await.context("the certificate is gone")?;
    Ok(())
}

/// A restricted install alone, in a cluster that has the CRDs, by a user with rights in its namespace only.
pub(super) async fn restricted(harness: &Harness) -> Result<()> {
    harness.namespace(OWN, "privileged").await?;
    let (crds, role) = (chart("dynamo-crds"), "templates/namespace-installer.yaml");
    let role = harness.helm(&["template", "crds", &crds, KUBE_VERSION, "--show-only", role]).await?;
    let binding = |role: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": role, "namespace": OWN},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": INSTALLER}],
        })
    };
    let role = serde_saphyr::from_str(&role).context("the role of installers is no YAML")?;
    harness.cluster.apply(&[role, binding("admin"), binding("dynamo-namespace-installer")]).await?;
    let user = format!("--kube-as-user={INSTALLER}");
    harness.install_with(OWN_RELEASE, OWN, &["--set", RESTRICTED[0], &user]).await?;
    harness.apply(OWN, &graph("alone", "1")).await?;
    harness.ready(OWN, "alone").await?;
    harness.delete(OWN, "alone").await?;
    harness.uninstall_with(OWN_RELEASE, OWN, &[&user]).await?;
    let roles: Api<ClusterRole> = Api::all(harness.client.clone());
    roles.delete("dynamo-namespace-installer", &DeleteParams::default()).await?;
    Ok(())
}

/// ServiceAccounts of operators that wrote in a namespace since it was marked.
fn writers(harness: &Harness, namespace: &str) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(harness.cluster.audit_log()?)?;
    let events = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let writes = events.filter(|event| {
        let verb = event["verb"].as_str().unwrap_or_default();
        let read = ["get", "list", "watch"].contains(&verb);
        !read && event["objectRef"]["namespace"] == namespace && event["objectRef"]["apiGroup"] != "coordination.k8s.io"
    });
    let users = writes.filter_map(|event| event["user"]["username"].as_str().map(str::to_owned));
    let operators = users.filter(|user| user.starts_with("system:serviceaccount:") && user.contains("dynamo-operator"));
    let mut users: Vec<String> = operators.collect();
    users.sort();
    users.dedup();
    Ok(users)
}

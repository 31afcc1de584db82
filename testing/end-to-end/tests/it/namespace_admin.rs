//! A release for one namespace, installed by a user who has rights there only.

use std::{process::Command, time::Duration};

use end_to_end::{BoxError, Harness, harness, program_of};
use k8s_openapi::api::{
    apps::v1::Deployment,
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};
use test_cluster::{
    assets::{Assets, Tool},
    wait,
};

use crate::graphs::disaggregated;

const CHARTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/helm");
const INSTALLER: &str = "installer";
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn an_install_for_one_namespace_takes_no_right_outside_of_it() -> Result<(), BoxError> {
    let harness = harness("own").await?;
    prepare(&harness).await?;
    let restricted = "dynamo-operator.namespaceRestriction.enabled=true";
    helm(&harness, &["install", "own", &format!("{CHARTS}/dynamo-platform"), "--set", restricted])?;
    for deployment in harness.api::<Deployment>().list(&ListParams::default()).await? {
        harness.cluster.run(&program_of(harness.cluster, &deployment).await?).await?;
    }

    harness.apply(&disaggregated("graph", "1", 1, 1)).await?;
    harness.ready("graph").await?;
    assert_eq!(refused(&harness)?, Vec::<String>::new());
    Ok(())
}

/// Prepares the namespace, once, as a cluster administrator: the ClusterRole of the chart of the definitions, and two
/// bindings in the namespace.
async fn prepare(harness: &Harness) -> Result<(), BoxError> {
    let role = "templates/namespace-installer.yaml";
    let chart = format!("{CHARTS}/dynamo-crds");
    let role = helm(harness, &["template", "dynamo-crds", &chart, "--kube-version=1.36.0", "--show-only", role])?;
    let binding = |role: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": { "name": role, "namespace": harness.ns() },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": INSTALLER }],
        })
    };
    let objects = [serde_saphyr::from_str(&role)?, binding("admin"), binding("dynamo-namespace-installer")];
    harness.cluster.apply(&objects).await?;
    for (group, resource) in [("", "secrets"), ("nvidia.com", "dynamographdeployments")] {
        let allowed = async || allowed(harness, group, resource).await.unwrap_or_default().then_some(());
        wait::until(format!("the installer to have rights to {resource}"), PATIENCE, allowed).await?;
    }
    assert!(!allowed(harness, "admissionregistration.k8s.io", "validatingwebhookconfigurations").await?);
    Ok(())
}

/// Whether the installer may create objects of a resource.
async fn allowed(harness: &Harness, group: &str, resource: &str) -> Result<bool, BoxError> {
    let attributes = ResourceAttributes {
        namespace: Some(harness.ns().to_owned()),
        verb: Some("create".to_owned()),
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        ..ResourceAttributes::default()
    };
    let user = Some(INSTALLER.to_owned());
    let spec = SubjectAccessReviewSpec { user, resource_attributes: Some(attributes), ..Default::default() };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let answer = Api::all(harness.client.clone()).create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// Runs helm as the installer.
fn helm(harness: &Harness, args: &[&str]) -> Result<String, BoxError> {
    let mut helm = Command::new(Assets::from_env()?.find(Tool::Helm)?);
    helm.args(args).args(["--namespace", harness.ns(), "--kube-as-user", INSTALLER]);
    let output = helm.arg("--kubeconfig").arg(harness.cluster.kubeconfig()).output()?;
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Requests of the programs that were rejected for lack of a right.
fn refused(harness: &Harness) -> Result<Vec<String>, BoxError> {
    let accounts = format!("system:serviceaccount:{}:own-dynamo-operator-", harness.ns());
    let log = std::fs::read_to_string(harness.cluster.audit_log()?)?;
    let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let refused = events.filter(|event| {
        let user = event["user"]["username"].as_str().unwrap_or_default();
        user.starts_with(&accounts) && event["responseStatus"]["code"] == 403
    });
    let mut requests: Vec<String> = refused
        .map(|event| format!("{} {} {}", event["user"]["username"], event["verb"], event["requestURI"]))
        .collect();
    requests.sort();
    requests.dedup();
    Ok(requests)
}

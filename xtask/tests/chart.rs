//! What the chart asks the cluster while it is rendered, on a real API server.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use std::path::Path;
use std::process::{Command, Output};

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Api, DeleteParams};
use serde_json::Value;
use test_cluster::assets::{Assets, Tool};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/helm/dynamo-platform");

/// Renders the chart, with the answers of a cluster if one is given.
fn rendered(release: &str, kubeconfig: Option<&Path>) -> Output {
    let mut helm = Command::new(Assets::from_env().unwrap().find(Tool::Helm).unwrap());
    helm.args(["template", release, CHART, "--namespace", "dynamo-system", "--kube-version", "1.36.0"]);
    if let Some(path) = kubeconfig {
        helm.arg("--dry-run=server").arg("--kubeconfig").arg(path);
    }
    helm.output().unwrap()
}

/// In the reference, a release whose name holds that of the operator is mistaken for another one when it is upgraded.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_install_for_the_whole_cluster_is_refused_and_an_upgrade_is_not() {
    let access = test_cluster::shared(&[]).await.unwrap();
    let release = "our-dynamo-operator";
    let text = String::from_utf8(rendered(release, None).stdout).unwrap();
    let objects = text.split("\n---\n").map(|document| serde_saphyr::from_str::<Value>(document).unwrap());
    let of_the_controller = |object: &Value| {
        object["kind"] == "ClusterRole"
            && object["metadata"]["labels"]["app.kubernetes.io/component"] == "graph-controller"
    };
    let installed: Vec<Value> = objects.filter(of_the_controller).take(1).collect();
    let name = installed[0]["metadata"]["name"].as_str().unwrap().to_owned();
    access.apply(&installed).await.unwrap();

    let (upgrade, second) =
        (rendered(release, Some(access.kubeconfig())), rendered("another", Some(access.kubeconfig())));
    let roles: Api<ClusterRole> = Api::all(access.client().unwrap());
    roles.delete(&name, &DeleteParams::default()).await.unwrap();

    assert!(upgrade.status.success(), "{}", String::from_utf8_lossy(&upgrade.stderr));
    let refusal = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        !second.status.success() && refusal.contains("has installed the operator for the whole cluster"),
        "{refusal}"
    );
    assert!(refusal.contains(release), "{refusal}");
}

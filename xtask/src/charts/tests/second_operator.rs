//! Two operators for one cluster.

use std::{fs, path::Path, process::Command};

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams};
use repository::chart::platform;
use serde_json::{Value, json};
use test_cluster::{
    Cluster, Controllers, Options,
    assets::{Assets, Tool},
};

use super::RESTRICTED;

/// Returns the error of the chart in a cluster: empty if it installs.
fn rejection(cluster: &Cluster, values: &[&str]) -> String {
    let values: Vec<&str> = values.iter().flat_map(|value| ["--set", value]).collect();
    helm(cluster, "install", &platform(), &[&["--dry-run=server"], &values[..]].concat())
}

/// Installs or upgrades the release `rel`; returns what helm says to it: nothing if it is done.
fn helm(cluster: &Cluster, verb: &str, chart: &Path, args: &[&str]) -> String {
    let mut helm = Command::new(Assets::from_env().unwrap().find(Tool::Helm).unwrap());
    helm.args([verb, "rel"]).arg(chart).args(["--namespace=dyn", "--kubeconfig"]).arg(cluster.kubeconfig()).args(args);
    let output = helm.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), said.is_empty(), "{said}");
    said
}

fn role(name: &str, labels: &Value, annotations: &Value) -> Value {
    let metadata = json!({ "name": name, "labels": labels, "annotations": annotations });
    json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": [] })
}

/// The cluster roles of a release, as the chart makes them.
fn roles_of(release: &str, values: &[&str]) -> Vec<Value> {
    let objects = repository::chart::render(release, "theirs", values).unwrap();
    let roles: Vec<_> = objects.into_iter().filter(|object| object["kind"] == "ClusterRole").collect();
    assert!(!roles.is_empty(), "{release}: {values:?}");
    roles
}

#[tokio::test]
async fn an_operator_for_the_whole_cluster_is_found() {
    let cluster = Cluster::start(Options { controllers: Controllers::Off, ..Options::default() }).await.unwrap();
    let ours = |namespace: &str| {
        let labels = json!({
            "app.kubernetes.io/component": "graph-controller", "app.kubernetes.io/part-of": "dynamo-operator",
            "app.kubernetes.io/instance": "rel",
        });
        role("x-graph-controller", &labels, &json!({ "meta.helm.sh/release-namespace": namespace }))
    };
    let go = |name: &str| {
        let labels = json!({ "app.kubernetes.io/name": "dynamo-operator", "app.kubernetes.io/instance": "theirs" });
        role(name, &labels, &json!({}))
    };
    // Roles of others, and those of the release itself, are in no conflict.
    cluster.apply(&[role("cert-manager-role", &json!({}), &json!({})), ours("theirs")]).await.unwrap();
    let said = rejection(&cluster, &[]);
    assert!(said.contains("release \"rel\" in namespace \"theirs\" has installed the operator"), "{said}");
    cluster.apply(&[ours("dyn")]).await.unwrap();
    assert_eq!(rejection(&cluster, &[]), "");
    // Neither are those with which an install for one namespace reads what belongs to the cluster.
    let reads = ["dynamo-operator.gpuDiscovery.enabled=true", "dynamo-operator.namespaceRestriction.clusterReads=true"];
    cluster.apply(&roles_of("team", &[&RESTRICTED[..], &reads].concat())).await.unwrap();
    assert_eq!(rejection(&cluster, &[]), "");
    cluster.apply(&[go("theirs-dynamo-operator-manager-role")]).await.unwrap();
    let said = rejection(&cluster, &[]);
    assert!(said.contains("release \"theirs\" has installed the Go operator"), "{said}");
    assert!(said.contains("docs/upgrade.md") && said.contains("allowSecondOperator=true"), "{said}");
    assert_eq!(rejection(&cluster, &["dynamo-operator.allowSecondOperator=true"]), "");
    assert_eq!(rejection(&cluster, &RESTRICTED), "", "one namespace beside it is served");
    cluster.apply(&roles_of("other", &[])).await.unwrap();
    let said = rejection(&cluster, &[]);
    assert!(said.contains("release \"other\" has installed the operator"), "{said}");
}

/// A chart with the ClusterRole and the Deployment of the Go operator.
fn go_chart(dir: &Path) {
    let labels = json!({ "control-plane": "controller-manager", "app.kubernetes.io/instance": "rel" });
    let role = role("rel-dynamo-operator-manager-role", &json!({ "app.kubernetes.io/instance": "rel" }), &json!({}));
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "manager", "labels": labels },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "manager", "image": "manager" }] },
            },
        },
    });
    fs::create_dir_all(dir.join("templates")).unwrap();
    fs::write(dir.join("Chart.yaml"), "apiVersion: v2\nname: dynamo-platform\nversion: 1.5.0\n").unwrap();
    for (name, object) in [("role", role), ("deployment", deployment)] {
        fs::write(dir.join(format!("templates/{name}.yaml")), object.to_string()).unwrap();
    }
}

#[tokio::test]
async fn the_go_operator_is_replaced_in_its_release_when_it_is_stopped() {
    let cluster = Cluster::start(Options { controllers: Controllers::Off, ..Options::default() }).await.unwrap();
    let chart = cluster.dir().join("go-operator");
    go_chart(&chart);
    assert_eq!(helm(&cluster, "install", &chart, &["--create-namespace"]), "");
    let upgrade = || helm(&cluster, "upgrade", &platform(), &["--dry-run=server"]);
    let said = upgrade();
    assert!(said.contains("release \"rel\" runs the Go operator; stop it first"), "{said}");
    let scale = said.split("kubectl ").nth(1).unwrap();
    assert!(
        scale.starts_with("scale deployment --namespace dyn --selector control-plane=controller-manager"),
        "{said}"
    );
    let deployments: Api<Deployment> = Api::namespaced(cluster.client().unwrap(), "dyn");
    let stopped = Patch::Merge(json!({ "spec": { "replicas": 0 } }));
    deployments.patch("manager", &PatchParams::default(), &stopped).await.unwrap();
    assert_eq!(upgrade(), "");
}

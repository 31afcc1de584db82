//! Two operators for one cluster.

use std::process::Command;

use repository::chart::platform;
use serde_json::{Value, json};
use test_cluster::{
    Cluster, Controllers, Options,
    assets::{Assets, Tool},
};

use super::RESTRICTED;

/// What the chart says in a cluster: nothing if it installs.
fn refusal(cluster: &Cluster, values: &[&str]) -> String {
    let mut helm = Command::new(Assets::from_env().unwrap().find(Tool::Helm).unwrap());
    helm.args(["install", "rel"]).arg(platform()).args(["--namespace=dyn", "--dry-run=server", "--kubeconfig"]);
    helm.arg(cluster.kubeconfig()).args(values.iter().flat_map(|value| ["--set", value]));
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
    // Roles of others, and those of the release itself, are in nobody's way.
    cluster.apply(&[role("cert-manager-role", &json!({}), &json!({})), ours("theirs")]).await.unwrap();
    let said = refusal(&cluster, &[]);
    assert!(said.contains("release \"rel\" in namespace \"theirs\" has installed the operator"), "{said}");
    cluster.apply(&[ours("dyn")]).await.unwrap();
    assert_eq!(refusal(&cluster, &[]), "");
    // Neither are those with which an install for one namespace reads what belongs to the cluster.
    let reads = ["dynamo-operator.gpuDiscovery.enabled=true", "dynamo-operator.namespaceRestriction.clusterReads=true"];
    cluster.apply(&roles_of("team", &[&RESTRICTED[..], &reads].concat())).await.unwrap();
    assert_eq!(refusal(&cluster, &[]), "");
    cluster.apply(&[go("theirs-dynamo-operator-manager-role")]).await.unwrap();
    let said = refusal(&cluster, &[]);
    assert!(said.contains("release \"theirs\" has installed the Go operator"), "{said}");
    assert!(said.contains("docs/upgrade.md") && said.contains("allowSecondOperator=true"), "{said}");
    assert_eq!(refusal(&cluster, &["dynamo-operator.allowSecondOperator=true"]), "");
    assert_eq!(refusal(&cluster, &RESTRICTED), "", "one namespace beside it is served");
    cluster.apply(&roles_of("other", &[])).await.unwrap();
    let said = refusal(&cluster, &[]);
    assert!(said.contains("release \"other\" has installed the operator"), "{said}");
}

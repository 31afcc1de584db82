//! `cargo xtask up` beside a cluster that runs already.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::process::Command;

use k8s_openapi::{
    api::{admissionregistration::v1::ValidatingWebhookConfiguration, apps::v1::Deployment},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};
use test_cluster::{Cluster, Options};

/// Two fake nodes are enough for the example.
const NODES: u16 = 2;

fn up(cluster: &Cluster) -> std::process::Output {
    let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig().display());
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(["up", "--once", &kubeconfig]).output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_cluster_is_used_and_keeps_no_webhook() {
    let cluster = Cluster::start(Options::with_nodes(NODES)).await.unwrap();
    let output = up(&cluster);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(!text.contains("starting the control plane"), "{text}");
    let client = cluster.client().unwrap();
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let left = configurations.list(&ListParams::default()).await.unwrap();
    assert!(left.items.is_empty(), "{left:?}");
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crds = crds.list(&ListParams::default()).await.unwrap();
    assert!(!crds.items.is_empty());
    for crd in crds {
        assert!(crd.spec.conversion.is_none_or(|conversion| conversion.strategy == "None"), "{:?}", crd.metadata.name);
    }

    let installed = deployment(json!({"app.kubernetes.io/part-of": "dynamo-operator"}));
    let deployments: Api<Deployment> = Api::namespaced(client, "default");
    deployments.create(&PostParams::default(), &installed).await.unwrap();
    let output = up(&cluster);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("an operator is installed in this cluster: Deployment default/operator"), "{text}");
    cluster.stop().await.unwrap();
}

fn deployment(labels: Value) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "operator", "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
        },
    }))
    .unwrap()
}

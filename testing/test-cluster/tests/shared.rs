//! Foundation of tests in other crates: one cluster, a namespace each, Pods that become Ready, users with few rights.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, Secret},
};
use kube::{
    Client,
    api::{Api, ListParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use test_cluster::{Access, TestNamespace, shared, wait};

const LIMIT: Duration = Duration::from_secs(60);

async fn cluster() -> &'static Access {
    shared(&[]).await.unwrap()
}

#[tokio::test]
async fn a_deployment_becomes_available_on_fake_nodes() {
    let cluster = cluster().await;
    let namespace = TestNamespace::new(cluster, "deployment").await.unwrap();
    let labels = json!({"app": "web"});
    let container = json!({"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "2"}}});
    let manifest = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace.name()},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    });
    cluster.apply(&[manifest]).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(namespace.client(), namespace.name());
    wait::until("3 available replicas", LIMIT, async || {
        let status = deployments.get("web").await.map_err(|error| error.to_string())?.status.unwrap_or_default();
        if status.available_replicas == Some(3) { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_namespace_is_deleted_when_its_test_ends() {
    let cluster = cluster().await;
    let namespace = TestNamespace::new(cluster, "short-lived").await.unwrap();
    let name = namespace.name().to_owned();
    drop(namespace);
    let namespaces: Api<Namespace> = Api::all(cluster.client().unwrap());
    let left = namespaces.get_opt(&name).await.unwrap();
    assert!(left.is_none_or(|namespace| namespace.metadata.deletion_timestamp.is_some()));
}

#[tokio::test]
async fn a_service_account_has_the_rights_it_was_given_and_no_more() {
    let cluster = cluster().await;
    let namespace = TestNamespace::new(cluster, "rights").await.unwrap();
    let meta = json!({"name": "reader", "namespace": namespace.name()});
    let rules = [
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": meta,
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace.name()}],
        }),
    ];
    let path = cluster.service_account_kubeconfig(namespace.name(), "reader", &rules).await.unwrap();
    let kubeconfig = Kubeconfig::read_from(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();

    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace.name());
    // The authoriser learns of a new binding by its own watch.
    wait::until("the reader to read", LIMIT, async || maps.list(&ListParams::default()).await).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(client, namespace.name());
    let refused = secrets.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{refused}");
}

//! What tests of other crates build on: one cluster, a namespace each, Pods that become Ready, users with few rights.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use test_cluster::{Access, TestNamespace, shared, wait};

const LIMIT: Duration = Duration::from_secs(60);

async fn cluster() -> &'static Access {
    shared(&[crd()]).await.unwrap()
}

fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "parents.test-cluster.example"},
        "spec": {
            "group": "test-cluster.example",
            "scope": "Namespaced",
            "names": {"kind": "Parent", "plural": "parents", "singular": "parent"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    })
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

/// The garbage collector looks for new kinds only every 30 s; that of a CRD which was there before is known to it.
#[tokio::test]
async fn children_of_custom_resources_are_collected_from_the_start() {
    let cluster = cluster().await;
    let namespace = TestNamespace::new(cluster, "collected").await.unwrap();
    let meta = |name: &str| json!({"name": name, "namespace": namespace.name()});
    let parent = json!({"apiVersion": "test-cluster.example/v1", "kind": "Parent", "metadata": meta("parent")});
    cluster.apply(&[parent]).await.unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("test-cluster.example", "v1", "Parent"));
    let parents: Api<DynamicObject> = Api::namespaced_with(namespace.client(), namespace.name(), &resource);
    let uid = parents.get("parent").await.unwrap().metadata.uid;
    let mut child = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("child")});
    let owner = json!({"apiVersion": "test-cluster.example/v1", "kind": "Parent", "name": "parent", "uid": uid});
    child["metadata"]["ownerReferences"] = json!([owner]);
    cluster.apply(&[child]).await.unwrap();

    parents.delete("parent", &DeleteParams::background()).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(namespace.client(), namespace.name());
    wait::until("the child to be collected", Duration::from_secs(15), async || match maps.get_opt("child").await {
        Ok(None) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
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

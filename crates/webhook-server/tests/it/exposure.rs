//! Users that may create graphs, and neither Ingresses nor VirtualServices.

use kube::{
    Client,
    api::{Api, DynamicObject, PostParams},
};
use serde_json::{Value, json};
use test_cluster::{TestNamespace, account, wait};

use crate::{
    common::{LIMIT, resource},
    harness, namespace,
};

/// The client of an account that may write custom resources in the namespace, and `more`.
async fn tenant(namespace: &TestNamespace, name: &str, more: &[Value]) -> Client {
    let metadata = json!({ "name": name, "namespace": namespace.name() });
    let mut rules = vec![json!({ "apiGroups": ["nvidia.com"], "resources": ["*"], "verbs": ["*"] })];
    rules.extend(more.iter().cloned());
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": rules,
    });
    let cluster = harness().await.install.cluster;
    cluster.apply(&account(name, namespace.name(), role)).await.unwrap();
    cluster.client_for_token(&cluster.token(namespace.name(), name).await.unwrap()).unwrap()
}

fn ingress(gateway: &str, host: &str) -> Value {
    json!({
        "enabled": true, "useVirtualService": true, "host": host, "hostSuffix": "cluster.local",
        "virtualServiceGateway": gateway,
    })
}

/// The answer to a new object with this exposure; the object is not stored.
async fn admission(namespace: &TestNamespace, client: &Client, kind: &str, ingress: &Value) -> Result<(), String> {
    let service = json!({
        "componentType": "frontend", "ingress": ingress,
        "extraPodSpec": { "mainContainer": { "image": "nvcr.io/vllm-runtime:1.5.0" } },
    });
    let resource = resource(kind, "v1alpha1");
    let spec = match kind {
        "DynamoGraphDeployment" => json!({ "services": { "Frontend": service } }),
        _ => service,
    };
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": kind, "metadata": { "name": "grab" }, "spec": spec,
    }))
    .unwrap();
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace.name(), &resource);
    let params = PostParams { dry_run: true, ..PostParams::default() };
    api.create(&params, &object).await.map(drop).map_err(|error| error.to_string())
}

/// The operator writes VirtualServices and Ingresses with rights that the user does not have.
#[tokio::test]
async fn a_user_exposes_a_frontend_only_as_configured_or_as_the_user_may_do_directly() {
    let namespace = namespace("exposure").await;
    let without = tenant(&namespace, "without", &[]).await;
    let routes = json!({ "apiGroups": ["networking.istio.io"], "resources": ["virtualservices"], "verbs": ["create"] });
    let with = tenant(&namespace, "with", &[routes]).await;
    let ours = ingress("istio-system/public", "api.victim.svc");
    // Roles reach the API server's authorizer after they are written.
    wait::until("the rights of the account", LIMIT, async || {
        let plain = admission(&namespace, &with, "DynamoGraphDeployment", &json!(null)).await;
        plain.and(admission(&namespace, &with, "DynamoGraphDeployment", &ours).await)
    })
    .await
    .unwrap();
    for kind in ["DynamoGraphDeployment", "DynamoComponentDeployment"] {
        let answer = admission(&namespace, &without, kind, &ours).await.unwrap_err();
        assert!(answer.contains("ingress") && answer.contains("virtualservices"), "{answer}");
        let private = json!({ "enabled": true, "host": "api", "ingressControllerClassName": "nginx" });
        let answer = admission(&namespace, &without, kind, &private).await.unwrap_err();
        assert!(answer.contains("ingresses"), "{answer}");
        for client in [&without, &with] {
            let answer = admission(&namespace, client, kind, &ingress("mesh", "api.victim.svc")).await.unwrap_err();
            assert!(answer.contains("mesh"), "{answer}");
        }
        assert_eq!(admission(&namespace, &with, kind, &ours).await, Ok(()));
        assert_eq!(admission(&namespace, &without, kind, &json!({ "enabled": false, "host": "x" })).await, Ok(()));
    }
}

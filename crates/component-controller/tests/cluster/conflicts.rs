//! Names that are taken, and children that a deleted component left behind.

use api_types::v1beta1::DynamoComponentDeployment;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::api::{DeleteParams, PropagationPolicy};
use serde_json::{Value, json};

use crate::harness::{Harness, NAME_OF_COMPONENT, component, condition, uid};

fn foreign_deployment(labels: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": NAME_OF_COMPONENT, "labels": labels },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": { "app": "theirs" } },
            "template": {
                "metadata": { "labels": { "app": "theirs" } },
                "spec": { "containers": [{ "name": "c", "image": "registry.example.com/theirs:1" }] },
            },
        },
    })
}

async fn stays_untouched_until_it_goes(harness: &Harness, foreign: &Value) {
    harness.apply::<Deployment>(foreign).await;
    let theirs = harness.until("seen", |d: &Deployment| {
        d.status.as_ref().and_then(|s| s.observed_generation) == Some(1)
            && d.status.as_ref().unwrap().conditions.as_ref().is_some_and(|all| all.len() >= 2)
    });
    let theirs = theirs.await;
    harness.apply::<DynamoComponentDeployment>(&component()).await;
    let stalled = harness.until_condition("Stalled", "True", "NameTaken").await;
    for type_ in ["Ready", "Available", "DynamoComponentReady", "Reconciling"] {
        assert_eq!(condition(&stalled, type_).unwrap().0, "False", "{type_}");
    }
    assert_eq!(condition(&stalled, "Available").unwrap().1, "DeploymentNotReady");
    let message = condition(&stalled, "Stalled").unwrap().2;
    assert!(message.contains(&format!("Deployment {}/{NAME_OF_COMPONENT}", harness.namespace)), "{message}");
    assert!(message.contains("has no controller") && message.contains("delete or rename"), "{message}");
    assert_eq!(stalled.status.unwrap().component, None);
    assert_eq!(harness.deployment().await.metadata.resource_version, theirs.metadata.resource_version);

    harness.api::<Deployment>().delete(NAME_OF_COMPONENT, &DeleteParams::background()).await.unwrap();
    harness.until_ready().await;
}

#[tokio::test]
async fn a_foreign_deployment_is_not_changed() {
    let harness = Harness::new("foreign").await;
    stays_untouched_until_it_goes(&harness, &foreign_deployment(&json!({}))).await;
}

#[tokio::test]
async fn a_foreign_deployment_with_our_labels_is_not_changed() {
    let harness = Harness::new("labelled").await;
    let labels = json!({
        "nvidia.com/dynamo-component": "Worker",
        "nvidia.com/dynamo-namespace": format!("{}-{NAME_OF_COMPONENT}", harness.namespace),
    });
    stays_untouched_until_it_goes(&harness, &foreign_deployment(&labels)).await;
}

#[tokio::test]
async fn a_foreign_service_is_not_changed() {
    let harness = Harness::new("service").await;
    let foreign = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": NAME_OF_COMPONENT },
        "spec": { "selector": { "app": "theirs" }, "ports": [{ "port": 80 }] },
    });
    let theirs = harness.apply::<Service>(&foreign).await;
    harness.apply::<DynamoComponentDeployment>(&component()).await;
    let stalled = harness.until_condition("Stalled", "True", "NameTaken").await;
    let message = condition(&stalled, "Stalled").unwrap().2;
    assert!(message.contains(&format!("Service {}/{NAME_OF_COMPONENT}", harness.namespace)), "{message}");
    assert_eq!(harness.service().await.metadata.resource_version, theirs.metadata.resource_version);
    harness.api::<Service>().delete(NAME_OF_COMPONENT, &DeleteParams::default()).await.unwrap();
    harness.until_ready().await;
}

fn revision(deployment: &Deployment) -> &str {
    &deployment.metadata.annotations.as_ref().unwrap()["deployment.kubernetes.io/revision"]
}

#[tokio::test]
async fn children_that_were_left_behind_are_taken_over_and_do_not_roll() {
    let harness = Harness::new("orphan").await;
    harness.apply::<DynamoComponentDeployment>(&component()).await;
    let first = harness.until_ready().await;
    let (deployment, service) = (harness.deployment().await, harness.service().await);
    harness.delete(PropagationPolicy::Orphan).await;
    let orphan = harness.deployment().await;
    assert_eq!(uid(&orphan), uid(&deployment));
    assert_eq!(orphan.metadata.owner_references.unwrap_or_default(), []);

    harness.apply::<DynamoComponentDeployment>(&component()).await;
    let second = harness.until_ready().await;
    assert_ne!(uid(&first), uid(&second));
    let (adopted, adopted_service) = (harness.deployment().await, harness.service().await);
    assert_eq!((uid(&adopted), uid(&adopted_service)), (uid(&deployment), uid(&service)));
    // Each new template would be a revision; annotations alone raise the generation, too.
    assert_eq!(revision(&adopted), revision(&deployment));
    for metadata in [adopted.metadata, adopted_service.metadata] {
        let owners = metadata.owner_references.unwrap();
        assert_eq!((owners.len(), &owners[0].uid), (1, &uid(&second)));
    }
}

//! A workload of the Go operator: taken over without a new pod, its bookkeeping kept.

use api_types::{annotations, v1beta1::DynamoComponentDeployment};
use k8s_openapi::api::{apps::v1::Deployment, networking::v1::Ingress};
use kube::{
    Resource,
    api::{DeleteParams, ObjectMeta, PostParams},
};
use serde_json::{Value, json};

use crate::harness::{Harness, NAME_OF_COMPONENT, component, uid};

/// Replaces the Deployment by one with the same spec as the Go operator makes it: by an update, with its own marks and
/// none of ours.
async fn remake_as_the_go_operator(harness: &Harness) -> Deployment {
    let ours = harness.deployment().await;
    harness.api::<Deployment>().delete(NAME_OF_COMPONENT, &DeleteParams::background()).await.unwrap();
    harness.gone::<Deployment>().await;
    let marks = [(annotations::LAST_APPLIED_HASH, "0123"), (annotations::LAST_APPLIED_GENERATION, "1")];
    let theirs = Deployment {
        metadata: ObjectMeta {
            name: ours.metadata.name,
            labels: ours.metadata.labels,
            annotations: Some(marks.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            owner_references: ours.metadata.owner_references,
            ..ObjectMeta::default()
        },
        spec: ours.spec,
        status: None,
    };
    let params = PostParams { field_manager: Some("manager".to_owned()), ..PostParams::default() };
    harness.api().create(&params, &theirs).await.unwrap();
    harness
        .until("rolled out", |d: &Deployment| d.status.as_ref().and_then(|status| status.available_replicas) == Some(1))
        .await
}

#[tokio::test]
async fn nothing_rolls_and_the_bookkeeping_stays() {
    let mut harness = Harness::new("takeover").await;
    harness.apply::<DynamoComponentDeployment>(&component()).await;
    harness.until_ready().await;
    harness.stop().await;
    let theirs = remake_as_the_go_operator(&harness).await;
    harness.start();
    let ours = harness
        .until("marked as ours", |d: &Deployment| {
            d.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(annotations::TEMPLATE_DIGEST))
        })
        .await;
    assert_eq!(uid(&ours), uid(&theirs));
    assert_eq!(ours.spec, theirs.spec);
    let kept = ours.metadata.annotations.as_ref().unwrap();
    assert_eq!(kept[annotations::LAST_APPLIED_HASH], "0123");
    assert_eq!(kept["deployment.kubernetes.io/revision"], "1");
}

/// A component with the finalizer that the upstream operator gives every component.
fn of_upstream() -> Value {
    let mut component = component();
    component["metadata"]["finalizers"] = json!(["nvidia.com/finalizer"]);
    component
}

/// Found defect: an Ingress that was no longer desired when this operator took over stayed for ever, because no cache
/// holds it.
#[tokio::test]
async fn an_ingress_of_the_upstream_operator_goes_when_it_is_not_desired() {
    let mut harness = Harness::without_controller("exposed").await;
    let component = harness.apply::<DynamoComponentDeployment>(&of_upstream()).await;
    let backend = json!({ "service": { "name": NAME_OF_COMPONENT, "port": { "number": 8000 } } });
    let ingress = json!({
        "metadata": { "name": NAME_OF_COMPONENT, "ownerReferences": [component.controller_owner_ref(&()).unwrap()] },
        "spec": { "defaultBackend": backend },
    });
    let params = PostParams { field_manager: Some("manager".to_owned()), ..PostParams::default() };
    harness.api::<Ingress>().create(&params, &serde_json::from_value(ingress).unwrap()).await.unwrap();
    harness.start();
    harness.gone::<Ingress>().await;
    harness.until_ready().await;
}

/// One of the same name that belongs to nothing stays.
#[tokio::test]
async fn an_ingress_of_the_same_name_that_is_not_owned_stays() {
    let mut harness = Harness::without_controller("not-exposed").await;
    let backend = json!({ "service": { "name": "other", "port": { "number": 80 } } });
    let ingress = json!({ "metadata": { "name": NAME_OF_COMPONENT }, "spec": { "defaultBackend": backend } });
    harness.api::<Ingress>().create(&PostParams::default(), &serde_json::from_value(ingress).unwrap()).await.unwrap();
    harness.apply::<DynamoComponentDeployment>(&of_upstream()).await;
    harness.start();
    harness.until_ready().await;
    let ingress = harness.api::<Ingress>().get(NAME_OF_COMPONENT).await.unwrap();
    assert_eq!(ingress.metadata.deletion_timestamp, None);
}

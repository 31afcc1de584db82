//! Deletion with every propagation policy: nothing is made again, and nothing holds it up.

use api_types::{LEGACY_FINALIZER, v1beta1::DynamoComponentDeployment};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::api::PropagationPolicy;
use serde_json::json;

use crate::harness::{Harness, component};

/// An adopted component: with the finalizer that no other client removes.
async fn adopted(prefix: &str) -> Harness {
    let harness = Harness::new(prefix).await;
    let mut with_finalizer = component();
    with_finalizer["metadata"]["finalizers"] = json!([LEGACY_FINALIZER]);
    harness.apply::<DynamoComponentDeployment>(&with_finalizer).await;
    harness.until_ready().await;
    harness
}

async fn children_go_and_stay_away(harness: &Harness) {
    harness.gone::<Deployment>().await;
    harness.gone::<Service>().await;
    assert_eq!((harness.writes_of("Deployment"), harness.writes_of("Service")), (1, 1), "nothing was made again");
}

#[tokio::test]
async fn in_the_background() {
    let harness = adopted("background").await;
    harness.delete(PropagationPolicy::Background).await;
    children_go_and_stay_away(&harness).await;
}

#[tokio::test]
async fn in_the_foreground() {
    let harness = adopted("foreground").await;
    harness.delete(PropagationPolicy::Foreground).await;
    children_go_and_stay_away(&harness).await;
}

#[tokio::test]
async fn children_may_be_kept() {
    let harness = adopted("keep").await;
    harness.delete(PropagationPolicy::Orphan).await;
    let (deployment, service) = (harness.deployment().await, harness.service().await);
    assert_eq!(deployment.metadata.deletion_timestamp, None);
    assert_eq!(service.metadata.deletion_timestamp, None);
    assert_eq!((harness.writes_of("Deployment"), harness.writes_of("Service")), (1, 1));
}

#[tokio::test]
async fn a_component_deleted_before_the_first_reconcile_leaves_nothing() {
    let mut harness = Harness::without_controller("unseen").await;
    let mut with_finalizer = component();
    with_finalizer["metadata"]["finalizers"] = json!([LEGACY_FINALIZER]);
    harness.apply::<DynamoComponentDeployment>(&with_finalizer).await;
    let components = harness.api::<DynamoComponentDeployment>();
    components.delete(crate::harness::NAME_OF_COMPONENT, &Default::default()).await.unwrap();
    harness.start();
    harness.gone::<DynamoComponentDeployment>().await;
    assert_eq!((harness.writes_of("Deployment"), harness.writes_of("Service")), (0, 0));
}

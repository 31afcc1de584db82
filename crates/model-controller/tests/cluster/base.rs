//! Base models: nothing is loaded, and all they say is true.

use api_types::v1alpha1::DynamoModel;
use serde_json::{Value, json};

use crate::harness::{BASE, Harness, condition};

fn base() -> Value {
    json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoModel", "metadata": { "name": "m" },
        "spec": { "modelName": BASE, "baseModelName": BASE },
    })
}

/// Upstream, endpoints of base models were never ready, and neither were their columns and metrics.
#[tokio::test]
async fn a_base_model_is_ready_where_its_pods_are() {
    let mut harness = Harness::new("base").await;
    let engines = harness.engines(2).await;
    harness.set_ready(1, false).await;
    harness.apply::<DynamoModel>(&base()).await;
    let model = harness.until_condition("m", "EndpointsReady", "False", "NotReady").await;
    let status = model.status.as_ref().unwrap();
    assert_eq!((status.ready_endpoints, status.total_endpoints), (1, 2));
    harness.set_ready(1, true).await;
    let model = harness.until_served("m", 2).await;
    assert_eq!(condition(&model, "EndpointsReady").unwrap().1, "EndpointsDiscovered");
    assert_eq!(condition(&model, "Stalled").unwrap().0, "False");
    assert_eq!(model.metadata.finalizers, None, "there is nothing to clean up");
    assert!(engines.iter().all(|engine| engine.requests().is_empty()));
    harness.until_counted_ready().await;
}

#[tokio::test]
async fn a_model_without_workers_says_what_is_missing() {
    let harness = Harness::new("lonely").await;
    harness.apply::<DynamoModel>(&base()).await;
    let model = harness.until_condition("m", "ServicesFound", "False", "NoServicesFound").await;
    assert_eq!(condition(&model, "EndpointsReady").unwrap().1, "NoEndpoints");
    assert_eq!(condition(&model, "Reconciling").unwrap().0, "True");
    harness.until_reported("NoEndpointsFound").await;
}

//! Specs that cannot be used. Most violations the API server rejects by itself; a name of blanks is one that it lets
//! in.

use api_types::v1alpha1::DynamoModel;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::harness::{Harness, adapter_model, condition};

/// Upstream, a violation made the endpoints disappear from the status.
#[tokio::test]
async fn a_violation_is_reported_and_hides_no_endpoints() {
    let mut harness = Harness::new("violation").await;
    let engines = harness.engines(2).await;
    harness.apply::<DynamoModel>(&adapter_model("m", " ", "s3://1")).await;
    let model = harness.until_condition("m", "Stalled", "True", "InvalidSpec").await;
    let (.., message) = condition(&model, "Stalled").unwrap();
    assert!(message.starts_with("spec.modelName: name the model"), "{message}");
    assert_eq!(model.status.unwrap().total_endpoints, 2);
    assert!(engines.iter().all(|engine| engine.requests().is_empty()));
    harness.adapter("m", "a", "s3://1").await;
    harness.until_served("m", 2).await;
}

#[tokio::test]
async fn what_is_loaded_stays_while_the_spec_is_wrong() {
    let mut harness = Harness::new("keep").await;
    let engines = harness.engines(1).await;
    harness.adapter("m", "a", "s3://1").await;
    harness.until_served("m", 1).await;
    let patch = json!({ "spec": { "modelName": " " } });
    harness.api::<DynamoModel>().patch("m", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    harness.until_condition("m", "Stalled", "True", "InvalidSpec").await;
    harness.until_reconciled("m").await;
    assert_eq!(engines[0].times("unload"), 0);
    harness.delete("m").await;
    harness.gone("m").await;
    assert!(engines[0].holds().is_empty(), "it is remembered all the same");
}

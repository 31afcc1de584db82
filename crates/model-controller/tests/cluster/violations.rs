//! Specs that cannot be used. Most violations the API server refuses by itself; a name of blanks is one that it lets
//! in.

use api_types::v1alpha1::DynamoModel;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::bed::{Bed, adapter_model, condition};

/// Upstream, a violation made the endpoints disappear from the status.
#[tokio::test]
async fn a_mistake_is_named_and_hides_no_endpoints() {
    let mut bed = Bed::new("violation").await;
    let engines = bed.engines(2).await;
    bed.apply::<DynamoModel>(&adapter_model("m", " ", "s3://1")).await;
    let model = bed.until_condition("m", "Stalled", "True", "InvalidSpec").await;
    let (.., message) = condition(&model, "Stalled").unwrap();
    assert!(message.starts_with("spec.modelName: name the model"), "{message}");
    assert_eq!(model.status.unwrap().total_endpoints, 2);
    assert!(engines.iter().all(|engine| engine.requests().is_empty()));
    bed.adapter("m", "a", "s3://1").await;
    bed.until_served("m", 2).await;
}

#[tokio::test]
async fn what_is_loaded_stays_while_the_spec_is_wrong() {
    let mut bed = Bed::new("keep").await;
    let engines = bed.engines(1).await;
    bed.adapter("m", "a", "s3://1").await;
    bed.until_served("m", 1).await;
    let patch = json!({ "spec": { "modelName": " " } });
    bed.api::<DynamoModel>().patch("m", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    bed.until_condition("m", "Stalled", "True", "InvalidSpec").await;
    bed.until_reconciled("m").await;
    assert_eq!(engines[0].times("unload"), 0);
    bed.delete("m").await;
    bed.gone("m").await;
    assert!(engines[0].holds().is_empty(), "it is remembered all the same");
}

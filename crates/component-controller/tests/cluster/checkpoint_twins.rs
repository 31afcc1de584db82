//! Two checkpoints with one identifier.

use api_types::v1alpha1::{CheckpointPhase, DynamoCheckpoint};
use kube::{ResourceExt, api::DeleteParams};
use serde_json::{Value, json};

use crate::{
    checkpoints::{PLAIN, checkpoint, phase, until},
    harness::Harness,
};

fn named(name: &str) -> Value {
    let mut expected = checkpoint();
    expected["metadata"] =
        json!({ "name": name, "labels": { "nvidia.com/snapshot-checkpoint-id": "0123456789abcdef" } });
    expected
}

#[tokio::test]
async fn the_younger_of_two_begins_when_the_elder_is_gone() {
    let mut harness = Harness::without_controller("twins").await;
    harness.settings().checkpoint = serde_saphyr::from_str(PLAIN).unwrap();
    // Within one second, the name determines which is older.
    for name in ["a-first", "b-second"] {
        harness.apply::<DynamoCheckpoint>(&named(name)).await;
    }
    harness.start();
    let is =
        |expected: CheckpointPhase| move |found: Option<&DynamoCheckpoint>| phase(found.unwrap()) == Some(expected);
    until::<DynamoCheckpoint>(&harness, "a-first", "begun", is(CheckpointPhase::Creating)).await;
    let given_up =
        until::<DynamoCheckpoint>(&harness, "b-second", "given up", is(CheckpointPhase::Failed)).await.unwrap();
    let message = given_up.status.unwrap().message.unwrap();
    assert_eq!(message, "checkpoint ID 0123456789abcdef is already owned by a-first");
    harness.api::<DynamoCheckpoint>().delete("a-first", &DeleteParams::default()).await.unwrap();
    let begun = until::<DynamoCheckpoint>(&harness, "b-second", "begun", is(CheckpointPhase::Creating)).await.unwrap();
    assert_eq!(begun.name_any(), "b-second");
}

//! A model that goes takes its adapter with it, and waits for no engine for ever.

use std::time::Duration;

use api_types::{LEGACY_FINALIZER, v1alpha1::DynamoModel};
use serde_json::json;

use crate::{
    engine::Mode,
    harness::{Harness, LIMIT, adapter_model, condition, until_engine},
};

#[tokio::test]
async fn the_adapter_is_unloaded_everywhere() {
    let mut harness = Harness::new("deleted").await;
    let engines = harness.engines(2).await;
    harness.adapter("m", "org/a", "s3://1").await;
    harness.until_served("m", 2).await;
    harness.delete("m").await;
    harness.gone("m").await;
    assert!(engines.iter().all(|engine| engine.holds().is_empty() && engine.times("unload org/a") == 1));
    assert_eq!(harness.until_reported("LoRAUnloaded").await, "no endpoint holds the adapter any more");
}

#[tokio::test]
async fn engines_that_do_not_let_go_do_not_hold_it_up_for_ever() {
    let mut harness = Harness::new("stuck").await;
    let mut engines = harness.engines(3).await;
    harness.adapter("m", "a", "s3://1").await;
    harness.until_served("m", 3).await;
    engines[0].set(Mode::Mute);
    engines[1].stop().await;
    harness.delete("m").await;
    harness.gone("m").await;
    assert!(engines[2].holds().is_empty());
    let note = harness.until_reported("LoRAUnloadFailed").await;
    assert!(note.ends_with("2 (w-000, w-001)"), "{note}");
}

/// The load was given up, the engine did not list the adapter yet, and so the model went without it.
#[tokio::test]
async fn a_load_that_ends_after_it_was_given_up_is_waited_for_and_undone() {
    let mut harness = Harness::without_controller("late").await;
    harness.options.pace.first_load_timeout = Duration::from_millis(500);
    harness.options.pace.unload_timeout = 2 * LIMIT;
    harness.start();
    let engines = harness.engines(1).await;
    engines[0].set(Mode::Hanging);
    harness.adapter("m", "a", "s3://1").await;
    until_engine(&engines[0], "get a list request after the load", |engine| engine.times("list") >= 2).await;
    harness.delete("m").await;
    // The model stays, and the engine gets more requests, although it lists nothing.
    engines[0].forget_requests();
    until_engine(&engines[0], "get another list request", |engine| engine.times("list") >= 2).await;
    engines[0].load_by_hand("a", "s3://1");
    harness.gone("m").await;
    assert!(engines[0].holds().is_empty());
    assert_eq!(harness.until_reported("LoRAUnloaded").await, "no endpoint holds the adapter any more");
}

#[tokio::test]
async fn what_another_model_desires_as_well_stays() {
    let mut harness = Harness::new("shared").await;
    let engines = harness.engines(1).await;
    harness.adapter("one", "a", "s3://1").await;
    harness.adapter("two", "a", "s3://1").await;
    harness.until_served("one", 1).await;
    harness.until_served("two", 1).await;
    harness.delete("one").await;
    harness.gone("one").await;
    assert_eq!((engines[0].times("load"), engines[0].times("unload")), (1, 0));
    harness.delete("two").await;
    harness.gone("two").await;
    assert!(engines[0].holds().is_empty());
}

#[tokio::test]
async fn a_name_is_free_when_its_owner_goes() {
    let mut harness = Harness::new("heir").await;
    let engines = harness.engines(1).await;
    harness.adapter("one", "a", "s3://1").await;
    harness.until_served("one", 1).await;
    harness.adapter("two", "a", "s3://2").await;
    let model = harness.until_condition("two", "Stalled", "True", "NameTaken").await;
    let (.., message) = condition(&model, "Ready").unwrap();
    assert!(message.starts_with("DynamoModel one "), "{message}");
    assert_eq!(engines[0].holds()["a"], "s3://1");
    harness.delete("one").await;
    harness.until_served("two", 1).await;
    assert_eq!(engines[0].holds()["a"], "s3://2");
    harness.gone("one").await;
}

/// The Go operator leaves its finalizer on every model, base models included, and no memory of what it loaded.
#[tokio::test]
async fn models_of_the_go_operator_go_as_well() {
    let mut harness = Harness::without_controller("takeover").await;
    let engines = harness.engines(1).await;
    engines[0].load_by_hand("a", "s3://1");
    let mut adapter = adapter_model("adapter", "a", "s3://1");
    adapter["metadata"]["finalizers"] = json!([LEGACY_FINALIZER]);
    harness.apply::<DynamoModel>(&adapter).await;
    let mut base = adapter.clone();
    base["metadata"]["name"] = json!("base");
    base["spec"]["modelType"] = json!("base");
    harness.apply::<DynamoModel>(&base).await;
    harness.delete("adapter").await;
    harness.delete("base").await;
    harness.start();
    harness.gone("adapter").await;
    harness.gone("base").await;
    assert!(engines[0].holds().is_empty());
    assert_eq!(engines[0].times("load"), 0);
}

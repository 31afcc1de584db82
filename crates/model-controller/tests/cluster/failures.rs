//! Engines that are slow, flaky, lying, full, mute or gone.

use std::time::Duration;

use crate::{
    engine::Mode,
    harness::{Harness, condition, until_engine},
};

/// Upstream, one bad endpoint held up all others.
#[tokio::test]
async fn bad_engines_hold_up_no_others_and_are_named() {
    let mut harness = Harness::new("bad").await;
    let mut engines = harness.engines(4).await;
    engines[0].set(Mode::Full);
    engines[1].set(Mode::Mute);
    engines[2].stop().await;
    harness.adapter("m", "a", "s3://1").await;
    let model = harness.until("m", "served by the good one", |model| {
        model.status.as_ref().unwrap().endpoints.iter().any(|endpoint| endpoint.ready)
    });
    let endpoints = model.await.status.unwrap().endpoints;
    let ready: Vec<bool> = endpoints.iter().map(|endpoint| endpoint.ready).collect();
    assert_eq!(ready, [false, false, false, true]);
    let model = harness.until_condition("m", "Stalled", "True", "LoadFailed").await;
    let (.., message) = condition(&model, "Ready").unwrap();
    assert!(message.contains("w-000: rejects with HTTP 500: LoRA capacity exceeded: at most 4"), "{message}");
    harness.until_reported("PartialEndpointFailure").await;
    // They recover, and the model needs no change.
    engines[0].set(Mode::Good);
    engines[1].set(Mode::Good);
    engines[2].listen_again().await;
    harness.until_served("m", 4).await;
}

/// Upstream, an adapter counted as loaded although the engine did not have it.
#[tokio::test]
async fn an_engine_that_says_yes_and_does_nothing_is_not_believed() {
    let mut harness = Harness::new("lie").await;
    let engines = harness.engines(1).await;
    engines[0].set(Mode::Lying);
    harness.adapter("m", "a", "s3://1").await;
    let model = harness.until_condition("m", "Stalled", "True", "LoadFailed").await;
    let (.., message) = condition(&model, "Ready").unwrap();
    assert!(message.ends_with("w-000: accepted the adapter, and does not list it"), "{message}");
    assert_eq!(model.status.unwrap().ready_endpoints, 0);
    engines[0].set(Mode::Good);
    harness.until_served("m", 1).await;
}

#[tokio::test]
async fn a_flaky_engine_and_one_that_redirects_get_there_in_the_end() {
    let mut harness = Harness::new("flaky").await;
    let engines = harness.engines(2).await;
    engines[0].set(Mode::Flaky);
    engines[1].set(Mode::Redirecting);
    harness.adapter("m", "a", "s3://1").await;
    until_engine(&engines[0], "hold it", |engine| !engine.holds().is_empty()).await;
    let model = harness.until_condition("m", "Stalled", "True", "LoadFailed").await;
    let (.., message) = condition(&model, "Ready").unwrap();
    assert!(message.contains("w-001: rejects with HTTP 307"), "{message}");
    engines[1].set(Mode::Good);
    harness.until_served("m", 2).await;
}

#[tokio::test]
async fn a_load_that_takes_its_time_is_given_more_patience() {
    let mut harness = Harness::without_controller("slow").await;
    harness.options.pace.first_load_timeout = Duration::from_millis(200);
    harness.start();
    let engines = harness.engines(1).await;
    engines[0].set(Mode::Slow(Duration::from_millis(500)));
    harness.adapter("m", "a", "s3://1").await;
    harness.until_served("m", 1).await;
    // 200 ms, 400 ms, 800 ms and perhaps, on a busy machine, more; the engine stops when its caller goes.
    assert!(engines[0].times("load") >= 3, "{:?}", engines[0].requests());
}

#[tokio::test]
async fn a_pod_that_is_not_ready_gets_no_request() {
    let mut harness = Harness::new("unready").await;
    let mut engines = harness.engines(1).await;
    harness.set_ready(0, false).await;
    engines[0].stop().await;
    harness.adapter("m", "a", "s3://1").await;
    let model = harness.until_condition("m", "EndpointsReady", "False", "NotReady").await;
    let (.., message) = condition(&model, "Ready").unwrap();
    assert_eq!(message, "served by 0 of 1 endpoints; pods that are not ready: 1");
    harness.until_reconciled("m").await;
    assert_eq!(harness.counter("model_engine_requests_total", &[]), 0);
    engines[0].listen_again().await;
    harness.set_ready(0, true).await;
    harness.until_served("m", 1).await;
}

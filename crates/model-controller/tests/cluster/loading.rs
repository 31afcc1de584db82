//! Adapters are loaded, once, on every worker, and the status says so.

use std::time::Duration;

use crate::{
    engine::{Engine, Mode},
    harness::{Harness, condition, until_engine},
};

/// Upstream, every adapter was posted again at each reconcile.
#[tokio::test]
async fn an_adapter_is_loaded_once_on_every_worker() {
    let mut harness = Harness::new("once").await;
    let engines = harness.engines(3).await;
    harness.adapter("m", "org/adapter", "s3://bucket/adapter").await;
    let model = harness.until_served("m", 3).await;
    for engine in &engines {
        assert_eq!(engine.requests(), ["list", "load org/adapter s3://bucket/adapter", "list"]);
    }
    let status = model.status.as_ref().unwrap();
    assert_eq!(status.observed_generation, model.metadata.generation);
    assert!(status.adapter.is_some() && model.metadata.annotations.is_none(), "the status remembers");
    let endpoints: Vec<String> = status
        .endpoints
        .iter()
        .map(|e| format!("{} {} {}", e.pod_name.as_deref().unwrap(), e.address, e.ready))
        .collect();
    assert_eq!(
        endpoints,
        ["w-000 http://10.200.0.1:9090 true", "w-001 http://10.200.0.2:9090 true", "w-002 http://10.200.0.3:9090 true"]
    );
    for (type_, expected) in [
        ("EndpointsReady", ("True", "AllEndpointsReady")),
        ("ServicesFound", ("True", "ServicesFound")),
        ("Reconciling", ("False", "UpToDate")),
        ("Stalled", ("False", "UpToDate")),
    ] {
        let (status, reason, _) = condition(&model, type_).unwrap();
        assert_eq!((status.as_str(), reason.as_str()), expected, "{type_}");
    }
    assert_eq!(harness.until_reported("EndpointsReady").await, "served by 3 of 3 endpoints");
    harness.until_counted_ready().await;
    // Nothing changes, so no request is sent and nothing is written.
    engines.iter().for_each(Engine::forget_requests);
    let writes = harness.status_writes();
    harness.until_reconciled("m").await;
    assert!(engines.iter().all(|engine| engine.requests().is_empty()));
    assert_eq!(harness.status_writes(), writes);
}

#[tokio::test]
async fn workers_that_come_later_and_workers_that_restart_get_it_and_no_other_gets_a_request() {
    let mut harness = Harness::new("later").await;
    let mut engines = harness.engines(2).await;
    harness.adapter("m", "a", "s3://1").await;
    harness.until_served("m", 2).await;
    engines.iter().for_each(Engine::forget_requests);
    engines.extend(harness.engines(1).await);
    harness.until_served("m", 3).await;
    assert_eq!(engines[2].requests(), ["list", "load a s3://1", "list"]);
    engines[2].forget_requests();
    // A container restarts.
    harness.set_ready(1, false).await;
    harness.until("m", "not ready", |model| condition(model, "Ready").unwrap().0 == "False").await;
    engines[1].lose_everything();
    harness.set_ready(1, true).await;
    harness.until_served("m", 3).await;
    assert_eq!(engines[1].requests(), ["list", "load a s3://1", "list"]);
    // A pod is replaced by one of its name.
    engines[0].lose_everything();
    harness.replace_pod(0).await;
    until_engine(&engines[0], "get a list request", |engine| engine.times("list") == 2).await;
    harness.until_served("m", 3).await;
    assert_eq!(engines[0].requests(), ["list", "load a s3://1", "list"]);
    assert!(engines[2].requests().is_empty(), "{:?}", engines[2].requests());
    // A pod that is not ready for a moment, and holds what it held.
    engines[1].forget_requests();
    harness.set_ready(1, false).await;
    harness.until("m", "not ready", |model| condition(model, "Ready").unwrap().0 == "False").await;
    harness.set_ready(1, true).await;
    harness.until_served("m", 3).await;
    assert_eq!(engines[1].requests(), ["list"]);
    harness.remove_last().await;
    harness.until_served("m", 2).await;
}

#[tokio::test]
async fn a_restart_that_readiness_did_not_show_is_found_by_the_audit() {
    let mut harness = Harness::without_controller("audit").await;
    harness.options.pace.audit = Duration::from_millis(500);
    harness.start();
    let engines = harness.engines(1).await;
    harness.adapter("m", "a", "s3://1").await;
    harness.until_served("m", 1).await;
    engines[0].lose_everything();
    until_engine(&engines[0], "be given it again", |engine| engine.times("load") == 2).await;
    harness.until_served("m", 1).await;
}

#[tokio::test]
async fn workers_are_reached_over_ipv6() {
    let mut harness = Harness::new("six").await;
    let engine = Engine::start("::1").await;
    harness.add(&engine, None);
    harness.publish().await;
    harness.adapter("m", "a", "s3://1").await;
    let model = harness.until_served("m", 1).await;
    assert_eq!(model.status.unwrap().endpoints[0].address, "http://[fd00::]:9090");
    assert_eq!(engine.host(), "[fd00::]:9090");
}

#[tokio::test]
async fn an_engine_without_a_list_is_taken_at_its_word() {
    let mut harness = Harness::new("listless").await;
    let engines = harness.engines(1).await;
    engines[0].set(Mode::Listless);
    harness.adapter("m", "a", "s3://1").await;
    harness.until_served("m", 1).await;
    harness.until_reconciled("m").await;
    assert_eq!(engines[0].times("load"), 1);
}

#[tokio::test]
async fn what_was_loaded_by_hand_is_not_loaded_again_and_stays() {
    let mut harness = Harness::new("hand").await;
    let engines = harness.engines(1).await;
    engines[0].load_by_hand("a", "s3://1");
    engines[0].load_by_hand("other", "s3://2");
    harness.adapter("m", "a", "s3://1").await;
    harness.until_served("m", 1).await;
    assert_eq!(engines[0].requests(), ["list"]);
    harness.delete("m").await;
    harness.gone("m").await;
    assert_eq!(engines[0].holds().into_keys().collect::<Vec<_>>(), ["other"]);
}

//! Tests of `metrics`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use clap::ValueEnum;
use k8s_openapi::api::apps::v1::Deployment;
use kube::runtime::watcher::Event;
use serde_json::json;

use super::{Metrics, ReconcileResult, WriteVerb};
use crate::{
    failure::ErrorType,
    scope::Fence,
    store::{Packed, Store},
};

/// Found defect: they stayed until the process was restarted.
#[test]
fn series_of_a_namespace_go_with_its_last_object() {
    let metrics = Metrics::new();
    for namespace in ["gone", "stays"] {
        for result in [ReconcileResult::Success, ReconcileResult::Requeue] {
            metrics.reconciled("DynamoGraphDeployment", namespace, result, Duration::from_millis(7));
        }
        for error_type in ErrorType::value_variants() {
            metrics.failed("DynamoGraphDeployment", namespace, *error_type, Duration::from_secs(2));
        }
    }
    metrics.reconciled("DynamoModel", "gone", ReconcileResult::Success, Duration::from_millis(7));
    metrics.forget("DynamoGraphDeployment", "gone");
    let text = metrics.text();
    let of = |kind, namespace| format!("resource_type=\"{kind}\",namespace=\"{namespace}\"");
    assert!(!text.contains(&of("DynamoGraphDeployment", "gone")), "{text}");
    assert!(text.contains(&of("DynamoGraphDeployment", "stays")) && text.contains(&of("DynamoModel", "gone")));
}

#[test]
fn names_and_labels_are_those_of_the_dashboards() {
    let metrics = Metrics::new();
    metrics.reconciled("DynamoGraphDeployment", "ns", ReconcileResult::Success, Duration::from_millis(7));
    metrics.failed("DynamoGraphDeployment", "ns", ErrorType::RateLimited, Duration::from_secs(2));
    metrics.write(WriteVerb::Create, "Deployment", true);
    metrics.write_skipped("Service");
    let text = metrics.text();
    let graph = "resource_type=\"DynamoGraphDeployment\",namespace=\"ns\"";
    for line in [
        format!("dynamo_operator_reconcile_total{{{graph},result=\"success\"}} 1"),
        format!("dynamo_operator_reconcile_total{{{graph},result=\"error\"}} 1"),
        format!("dynamo_operator_reconcile_errors_total{{{graph},error_type=\"rate_limited\"}} 1"),
        format!("dynamo_operator_reconcile_duration_seconds_bucket{{le=\"0.01\",{graph},result=\"success\"}} 1"),
        "dynamo_operator_api_writes_total{verb=\"create\",kind=\"Deployment\",accepted=\"true\"} 1".to_owned(),
        "dynamo_operator_api_writes_skipped_total{kind=\"Service\"} 1".to_owned(),
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\nnot in\n{text}");
    }
}

#[test]
fn what_is_gone_is_not_counted() {
    let store = Store::<Packed<Deployment>>::new();
    let metrics = Metrics::new();
    assert!(!metrics.text().contains("resources_total"));
    let state = |d: &Packed<Deployment>| if d.status()["readyReplicas"] == 1 { "ready" } else { "not_ready" };
    metrics.count_resources(&store, &Fence::unfenced(), state);
    let object = |name: &str, ready: u8| {
        let metadata = json!({ "namespace": "n", "name": name });
        Packed::from_value(json!({ "metadata": metadata, "status": { "readyReplicas": ready } })).unwrap()
    };
    let line = |status: &str, count: u8| {
        format!(
            "dynamo_operator_resources_total{{resource_type=\"Deployment\",namespace=\"n\",status=\"{status}\"}} {count}\n"
        )
    };
    store.handle(Event::Apply(object("a", 1)));
    store.handle(Event::Apply(object("b", 0)));
    let text = metrics.text();
    assert!(text.contains(&line("ready", 1)) && text.contains(&line("not_ready", 1)), "{text}");
    store.handle(Event::Delete(object("b", 0)));
    let text = metrics.text();
    assert!(text.contains(&line("ready", 1)) && !text.contains("not_ready"), "{text}");
}

/// Each scrape parsed the status of every object.
#[test]
fn the_state_of_an_object_is_computed_once() {
    let (store, metrics) = (Store::<Packed<Deployment>>::new(), Metrics::new());
    let computed = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&computed);
    metrics.count_resources(&store, &Fence::unfenced(), move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        "ready"
    });
    let object = |name: &str, version: u32| {
        let metadata = json!({ "namespace": "n", "name": name, "resourceVersion": version.to_string() });
        Packed::from_value(json!({ "metadata": metadata })).unwrap()
    };
    for number in 0..100 {
        store.handle(Event::Apply(object(&number.to_string(), number)));
    }
    assert_eq!(metrics.text(), metrics.text());
    assert_eq!(computed.load(Ordering::Relaxed), 100);
    store.handle(Event::Apply(object("7", 100)));
    store.handle(Event::Delete(object("8", 101)));
    assert!(metrics.text().contains("status=\"ready\"} 99\n"));
    assert_eq!(computed.load(Ordering::Relaxed), 101, "one object has changed");
}

//! Namespaces that another install has marked.

use serde_json::{Value, json};
use webhook_server::admission::{AdmissionPath, Answer, Facts, Request, review_for_another_install};

use crate::support::*;

fn judged(request: &Request, facts: &Facts) -> Answer {
    review_for_another_install(validates(&request.kind.kind).unwrap(), request, facts)
}

fn worker_with(field: &str, value: Value) -> Value {
    edited(&graph(), |g| g["spec"]["components"][1][field] = value)
}

/// Whatever the settings of an install are, it refuses these.
#[test]
fn rules_that_hold_for_all_installs_hold_in_marked_namespaces() {
    let unnamed_version = edited(&graph(), |g| {
        g["spec"]["components"][1]["podTemplate"]["spec"]["containers"][1]["image"] = json!("vllm-runtime:latest");
    });
    for (object, violation) in [
        (unnamed_version, "Required spec.components[1].runtimeVersionOverride"),
        (worker_with("sharedMemorySize", json!("-1")), "Invalid spec.components[1].sharedMemorySize"),
        (worker_with("minAvailable", json!(1)), "Forbidden spec.components[1].minAvailable"),
    ] {
        for facts in [facts(), grove()] {
            assert_eq!(violations(&judged(&creation(object.clone()), &facts)), [violation]);
        }
    }
    let moved = edited(&graph(), |g| g["metadata"]["annotations"]["nvidia.com/workload-provider"] = json!("grove"));
    let change = judged(&change(graph(), moved), &facts());
    assert_eq!(violations(&change), ["Invalid metadata.annotations[nvidia.com/workload-provider]"]);
}

/// Violations that depend on the settings or the accounts of an install are rejected only by its own webhooks.
#[test]
fn settings_of_this_install_do_not_count_in_marked_namespaces() {
    let captured = worker_with("experimental", json!({ "checkpoint": { "enabled": true } }));
    let unset = edited(&worker_with("minAvailable", json!(1)), |g| g["metadata"]["annotations"] = json!({}));
    for object in [captured, unset] {
        assert_ne!(violations(&create(&object, &facts())), Vec::<String>::new());
        assert_eq!(judged(&creation(object), &facts()), Answer::admitted());
    }
    let adapted = worker_with("scalingAdapter", json!({}));
    let scaled = edited(&adapted, |g| g["spec"]["components"][1]["replicas"] = json!(7));
    assert_ne!(violations(&update(&adapted, &scaled, &facts())), Vec::<String>::new());
    assert_eq!(judged(&change(adapted, scaled), &facts()), Answer::admitted(), "its operator may do so");
}

#[test]
fn nothing_is_filled_in_in_marked_namespaces() {
    let plain =
        edited(&graph(), |g| g["spec"]["components"][1].as_object_mut().unwrap().retain(|key, _| key != "replicas"));
    let answer = review_for_another_install(AdmissionPath::DefaultGraph, &creation(plain), &facts());
    assert_eq!(answer, Answer::admitted());
}

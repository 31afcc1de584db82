//! Tests of owners of names, and of what is unloaded.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::engine::Endpoint;

/// A model whose status has the memory of its requested adapter.
fn remembered(name: &str, age: i64, adapter: &str, uri: &str) -> Value {
    let created = Timestamp::from_second(1_000_000 - age).unwrap().to_string();
    json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoModel",
        "metadata": { "namespace": "n", "name": name, "creationTimestamp": created, "finalizers": [FINALIZER] },
        "spec": { "modelName": adapter, "baseModelName": "base", "modelType": "lora", "source": { "uri": uri } },
        "status": { "readyEndpoints": 0, "totalEndpoints": 0,
            "adapter": { "modelName": adapter, "sourceDigest": AdapterSource::from(uri).digest() } },
    })
}

fn claim(model: &Value) -> ModelClaim {
    ModelClaim::of(&serde_json::from_value(model.clone()).unwrap())
}

fn settled(models: &[Value]) -> Ownership {
    let claims: Vec<ModelClaim> = models.iter().map(claim).collect();
    let ownership = resolve_ownership(claims.iter());
    assert_eq!(resolve_ownership(claims.iter().rev()), ownership, "the order in which models come does not matter");
    ownership
}

fn loaded(ownership: &Ownership) -> Vec<&str> {
    ownership.desired.load.keys().map(AdapterName::as_str).collect()
}

fn unloaded(ownership: &Ownership) -> Vec<&str> {
    ownership.desired.unload.keys().map(AdapterName::as_str).collect()
}

#[test]
fn nothing_is_loaded_that_no_status_records() {
    let model = remembered("m", 0, "a", "s3://1");
    assert_eq!(loaded(&settled(std::slice::from_ref(&model))), ["a"]);
    for (pointer, field, value) in [
        ("/metadata", "finalizers", json!([])),
        ("/status", "adapter", json!(null)),
        ("/status/adapter", "modelName", json!("other")),
        ("/status/adapter", "sourceDigest", json!("other")),
    ] {
        let mut other = model.clone();
        other.pointer_mut(pointer).unwrap()[field] = value;
        let ownership = settled(&[other]);
        assert!(loaded(&ownership).is_empty() && ownership.desired.pending, "{pointer}/{field}");
    }
}

/// Upstream, a renamed adapter stayed loaded under its old name for ever.
#[test]
fn earlier_names_are_unloaded() {
    let mut model = remembered("m", 0, "new", "s3://1");
    model["status"]["adapter"]["superseded"] = json!(["old", "older"]);
    let ownership = settled(std::slice::from_ref(&model));
    assert_eq!((loaded(&ownership), unloaded(&ownership)), (vec!["new"], vec!["old", "older"]));
    // The status does not have the new name yet.
    model["spec"]["modelName"] = json!("newest");
    let ownership = settled(&[model]);
    assert_eq!((loaded(&ownership), unloaded(&ownership)), (vec![], vec!["new", "old", "older"]));
}

#[test]
fn a_deleted_model_leaves_nothing_but_what_others_desire() {
    let mut leaving = remembered("m", 0, "a", "s3://1");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    leaving["status"]["adapter"]["superseded"] = json!(["b"]);
    assert_eq!(unloaded(&settled(std::slice::from_ref(&leaving))), ["a", "b"]);
    let ownership = settled(&[leaving.clone(), remembered("other", 0, "b", "s3://2")]);
    assert_eq!((loaded(&ownership), unloaded(&ownership)), (vec!["b"], vec!["a"]));
    // The upstream operator leaves a finalizer and no memory.
    leaving["status"]["adapter"] = json!(null);
    assert_eq!(unloaded(&settled(std::slice::from_ref(&leaving))), ["a"]);
    leaving["metadata"]["finalizers"] = json!([]);
    assert!(unloaded(&settled(&[leaving])).is_empty());
}

#[test]
fn the_oldest_model_has_the_name() {
    let (old, young) = (remembered("z", 60, "a", "s3://1"), remembered("b", 0, "a", "s3://2"));
    let ownership = settled(&[young, old]);
    assert_eq!(ownership.desired.load[&"a".into()].source, "s3://1".into());
    assert_eq!(ownership.taken, BTreeMap::from([(Key::new("n", "b"), Key::new("n", "z"))]));
    assert!(unloaded(&ownership).is_empty(), "a model without the name must not unload it either");
}

#[test]
fn models_that_desire_the_same_share_it() {
    let ownership = settled(&[remembered("x", 1, "a", "s3://1"), remembered("y", 0, "a", "s3://1")]);
    assert!(ownership.taken.is_empty());
    assert_eq!(ownership.desired.load[&"a".into()].models.len(), 2);
}

#[test]
fn nonsense_keeps_what_is_loaded() {
    let mut model = remembered("m", 0, "a", "s3://1");
    model["spec"]["source"] = json!(null);
    let ownership = settled(&[model]);
    assert!(ownership.desired.is_empty(), "{ownership:?}");
}

#[test]
fn after_a_change_of_source_only_ready_endpoints_are_trusted() {
    let mut model = remembered("m", 0, "a", "s3://1");
    model["status"]["endpoints"] = json!([
        { "address": "http://10.0.0.1:9090", "ready": true }, { "address": "http://10.0.0.2:9090", "ready": false }
    ]);
    assert_eq!(claim(&model).trust, CopyTrust::Everywhere);
    model["status"]["adapter"]["reloading"] = json!(true);
    let trust = claim(&model).trust;
    let endpoint = |address: &str| Endpoint {
        pod_name: "p".into(),
        pod: "u".into(),
        address: address.parse().unwrap(),
        ready: true,
    };
    assert!(trust.holds_for(&endpoint("10.0.0.1")) && !trust.holds_for(&endpoint("10.0.0.2")));
}

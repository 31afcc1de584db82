//! Tests of the claims: who gets a name, and what is unloaded.

use serde_json::{Value, json};

use super::*;
use crate::engine::Endpoint;

/// A model whose status remembers what its spec asks for.
fn remembered(name: &str, age: i64, adapter: &str, uri: &str) -> Value {
    let created = Timestamp::from_second(1_000_000 - age).unwrap().to_string();
    json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoModel",
        "metadata": { "namespace": "n", "name": name, "creationTimestamp": created, "finalizers": [FINALIZER] },
        "spec": { "modelName": adapter, "baseModelName": "base", "modelType": "lora", "source": { "uri": uri } },
        "status": { "readyEndpoints": 0, "totalEndpoints": 0,
            "adapter": { "modelName": adapter, "sourceDigest": Source::from(uri).digest() } },
    })
}

fn claim(model: &Value) -> Claim {
    Claim::of(&serde_json::from_value(model.clone()).unwrap())
}

fn settled(models: &[Value]) -> Settlement {
    let claims: Vec<Claim> = models.iter().map(claim).collect();
    let settlement = settle(claims.iter());
    assert_eq!(settle(claims.iter().rev()), settlement, "the order in which models come does not matter");
    settlement
}

fn loaded(settlement: &Settlement) -> Vec<&str> {
    settlement.wishes.load.keys().map(AdapterName::as_str).collect()
}

fn unloaded(settlement: &Settlement) -> Vec<&str> {
    settlement.wishes.unload.keys().map(AdapterName::as_str).collect()
}

#[test]
fn nothing_is_loaded_that_nobody_would_remember() {
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
        let settlement = settled(&[other]);
        assert!(loaded(&settlement).is_empty() && settlement.wishes.pending, "{pointer}/{field}");
    }
}

/// Upstream, a renamed adapter stayed loaded under its old name for ever.
#[test]
fn earlier_names_are_unloaded() {
    let mut model = remembered("m", 0, "new", "s3://1");
    model["status"]["adapter"]["superseded"] = json!(["old", "older"]);
    let settlement = settled(std::slice::from_ref(&model));
    assert_eq!((loaded(&settlement), unloaded(&settlement)), (vec!["new"], vec!["old", "older"]));
    // The status does not know of the new name yet.
    model["spec"]["modelName"] = json!("newest");
    let settlement = settled(&[model]);
    assert_eq!((loaded(&settlement), unloaded(&settlement)), (vec![], vec!["new", "old", "older"]));
}

#[test]
fn a_deleted_model_leaves_nothing_but_what_others_want() {
    let mut leaving = remembered("m", 0, "a", "s3://1");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    leaving["status"]["adapter"]["superseded"] = json!(["b"]);
    assert_eq!(unloaded(&settled(std::slice::from_ref(&leaving))), ["a", "b"]);
    let settlement = settled(&[leaving.clone(), remembered("other", 0, "b", "s3://2")]);
    assert_eq!((loaded(&settlement), unloaded(&settlement)), (vec!["b"], vec!["a"]));
    // The Go operator leaves a finalizer and no memory.
    leaving["status"]["adapter"] = json!(null);
    assert_eq!(unloaded(&settled(std::slice::from_ref(&leaving))), ["a"]);
    leaving["metadata"]["finalizers"] = json!([]);
    assert!(unloaded(&settled(&[leaving])).is_empty());
}

#[test]
fn the_oldest_model_has_the_name() {
    let (old, young) = (remembered("z", 60, "a", "s3://1"), remembered("b", 0, "a", "s3://2"));
    let settlement = settled(&[young, old]);
    assert_eq!(settlement.wishes.load[&"a".into()].source, "s3://1".into());
    assert_eq!(settlement.taken, BTreeMap::from([(Key::new("n", "b"), Key::new("n", "z"))]));
    assert!(unloaded(&settlement).is_empty(), "whoever has not got the name must not unload it either");
}

#[test]
fn models_that_want_the_same_share_it() {
    let settlement = settled(&[remembered("x", 1, "a", "s3://1"), remembered("y", 0, "a", "s3://1")]);
    assert!(settlement.taken.is_empty());
    assert_eq!(settlement.wishes.load[&"a".into()].models.len(), 2);
}

#[test]
fn nonsense_keeps_what_is_loaded() {
    let mut model = remembered("m", 0, "a", "s3://1");
    model["spec"]["source"] = json!(null);
    let settlement = settled(&[model]);
    assert!(settlement.wishes.is_empty(), "{settlement:?}");
}

#[test]
fn after_a_change_of_source_only_ready_endpoints_are_trusted() {
    let mut model = remembered("m", 0, "a", "s3://1");
    model["status"]["endpoints"] = json!([
        { "address": "http://10.0.0.1:9090", "ready": true }, { "address": "http://10.0.0.2:9090", "ready": false }
    ]);
    assert_eq!(claim(&model).trust, Trust::Everywhere);
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

//! Tests of `typed`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;

use super::*;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sample {
    a: u8,
    #[serde(default)]
    b: Option<Kind>,
    #[serde(default)]
    c: Vec<i64>,
    #[serde(default)]
    d: BTreeMap<Wrapped, f64>,
    #[serde(default)]
    e: Option<(u8, String)>,
    #[serde(default)]
    f: Option<Box<Sample>>,
    #[serde(default)]
    g: Value,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Wrapped(String);

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Kind {
    A,
    B(u8),
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Structured {
    A(u8, bool),
    B { a: Option<u8> },
}

/// JSON that fits now and then.
fn samples() -> impl Strategy<Value = Value> {
    let name = || prop::sample::select(vec!["a", "b", "c", "d", "e", "f", "g"]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..300).prop_map(Value::from),
        Just(json!(1.5)),
        Just(json!(u64::MAX)),
        name().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let fields = prop::collection::vec((name(), inner.clone()), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            fields.prop_map(|fields| Value::Object(fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
        ]
    })
}

/// `serde_json` reads a struct from a list.
fn has_list_for_a_struct(sample: &Value) -> bool {
    sample.is_array() || sample.get("f").is_some_and(has_list_for_a_struct)
}

proptest! {
    /// `serde_json` determines what fits, and what is said about the rest.
    #[test]
    fn the_result_is_that_of_serde_json(json in samples()) {
        let read = typed::<Sample>(json.clone()).map_err(|error| error.problem().to_string());
        if has_list_for_a_struct(&json) {
            prop_assert!(read.is_err());
        } else {
            prop_assert_eq!(read, serde_json::from_value(json.clone()).map_err(|error| error.to_string()));
        }
        // It has other words for these.
        prop_assert_eq!(typed::<Structured>(json.clone()).ok(), serde_json::from_value(json).ok());
    }
}

#[test]
fn a_variant_with_fields_is_not_read_from_a_list() {
    assert!(typed::<Structured>(json!({ "b": [5] })).is_err());
    assert_eq!(typed::<Structured>(json!({ "b": { "a": 5 } })).unwrap(), Structured::B { a: Some(5) });
}

#[test]
fn a_struct_is_not_read_from_a_list() {
    let error = typed::<Sample>(json!({ "a": 1, "f": [2] })).unwrap_err();
    assert_eq!(error.to_string(), "f: invalid type: sequence, expected struct Sample");
}

#[test]
fn an_error_has_the_path_of_the_field() {
    let pod = |container: Value| json!({ "spec": { "containers": [{ "name": "a" }, container] } });
    for (template, path) in [
        (pod(json!({ "name": "b", "ports": [3] })), "spec.containers[1].ports[0]"),
        (pod(json!({ "name": "b", "env": [{ "name": 1 }] })), "spec.containers[1].env[0].name"),
        (pod(json!(null)), "spec.containers[1]"),
        (json!({ "metadata": { "labels": { "a/b": 1 } } }), "metadata.labels.a/b"),
        (json!(3), ""),
    ] {
        let error = typed::<PodTemplateSpec>(template.clone()).err().map(|error| error.path());
        assert_eq!(error.as_deref(), Some(path), "{template}");
    }
    let error = typed::<Sample>(json!({ "a": 1, "b": { "b": "x" } })).unwrap_err();
    assert_eq!(error.to_string(), "b.b: invalid type: string \"x\", expected u8");
    assert_eq!(typed::<Sample>(json!({})).unwrap_err().to_string(), "missing field `a`");
    let error = typed::<Kind>(json!([])).unwrap_err();
    assert_eq!(error.to_string(), "invalid type: sequence, expected string or map");
}

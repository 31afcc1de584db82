//! Differences between a recorded object and ours, after removal of what an implementation is free in.

use serde_json::{Map, Value};

/// Annotations that only the upstream operator keeps, or that only we keep.
const FREE: [&str; 5] = [
    "nvidia.com/last-applied-",
    "nvidia.com/current-worker-hash",
    "nvidia.com/dynamo-operator-origin-version",
    "deployment.kubernetes.io/revision",
    "operator.dynamo/",
];
/// Maps whose keys are the user's, so that an empty value is a value.
const FREE_FORM: [&str; 5] = ["labels", "annotations", "matchLabels", "selector", "nodeSelector"];
/// Maps of quantities, which the server writes in its own notation.
const QUANTITIES: [&str; 3] = ["limits", "requests", "sizeLimit"];

/// One line for each field that differs.
pub fn objects(expected: Option<Value>, ours: Option<Value>) -> Vec<String> {
    let mut found = Vec::new();
    match (expected, ours) {
        (Some(expected), Some(ours)) => {
            let name = format!("{}/{}", expected["kind"].as_str().unwrap(), expected["metadata"]["name"]);
            differ(&cleaned(expected), &cleaned(ours), &name, &mut found);
        }
        (None, Some(ours)) => found.push(format!("{} {}: unexpected", ours["kind"], ours["metadata"]["name"])),
        (Some(gone), None) => found.push(format!("{} {}: not rendered", gone["kind"], gone["metadata"]["name"])),
        (None, None) => {}
    }
    found
}

/// The upstream operator's Services of components without a type select an empty one, which no pod has. Ours select
/// none.
pub fn without_empty_type(mut service: Value) -> Value {
    let selector = service["spec"]["selector"].as_object_mut();
    selector.unwrap().retain(|key, value| key != "nvidia.com/dynamo-component-type" || value != "");
    service
}

fn cleaned(mut object: Value) -> Value {
    if let Some(all) = object.as_object_mut() {
        all.remove("status");
    }
    for owner in object["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
        owner.as_object_mut().unwrap().remove("uid");
    }
    clean("", &mut object);
    object
}

fn clean(key: &str, value: &mut Value) {
    match value {
        Value::Object(all) => {
            if key == "annotations" {
                all.retain(|key, _| !FREE.iter().any(|free| key.starts_with(free)));
            }
            for (key, value) in all.iter_mut() {
                clean(key, value);
            }
            for name in ["args", "command"] {
                mask_programs(all.get_mut(name));
            }
            if QUANTITIES.contains(&key) {
                all.values_mut().for_each(quantity);
            }
            if !FREE_FORM.contains(&key) {
                all.retain(|key, value| !is_nothing(key, value));
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|value| clean("", value)),
        Value::String(_) if QUANTITIES.contains(&key) => quantity(value),
        _ => {}
    }
}

/// The text of a program that starts MPI on all nodes differs between the implementations.
fn mask_programs(words: Option<&mut Value>) {
    for word in words.and_then(Value::as_array_mut).into_iter().flatten() {
        if word.as_str().is_some_and(|word| word.contains("/ssh-pk/") || word == "<mpi-launch>") {
            *word = Value::String("<mpi-launch>".to_owned());
        }
    }
}

fn quantity(value: &mut Value) {
    let nanos = value.as_str().and_then(api_types::quantity::nanos).unwrap();
    *value = Value::String(format!("{nanos}n"));
}

fn is_nothing(key: &str, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty() && FREE_FORM.contains(&key),
        _ => false,
    }
}

fn differ(expected: &Value, ours: &Value, path: &str, found: &mut Vec<String>) {
    match (expected, ours) {
        (Value::Object(expected), Value::Object(ours)) => {
            let keys: std::collections::BTreeSet<_> = expected.keys().chain(ours.keys()).collect();
            for key in keys {
                differ(of(expected, key), of(ours, key), &format!("{path}.{key}"), found);
            }
        }
        (Value::Array(all), Value::Array(other)) if all.len() == other.len() => {
            for (index, (expected, ours)) in all.iter().zip(other).enumerate() {
                differ(expected, ours, &format!("{path}[{index}]"), found);
            }
        }
        _ if expected != ours => found.push(format!("{path}: expected {expected}, got {ours}")),
        _ => {}
    }
}

fn of<'a>(map: &'a Map<String, Value>, key: &str) -> &'a Value {
    map.get(key).unwrap_or(&Value::Null)
}

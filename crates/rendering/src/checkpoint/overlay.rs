//! What a user writes about a pod, laid over the pod that it is about.
//!
//! Only what the user says counts: a missing field, an empty text and an empty list say nothing. Containers, volumes
//! and variables are matched by name, a probe is replaced as a whole, maps unite, and every other list is replaced.

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Map, Value, json};

/// The pod with the user's part laid over it. `own` has the form of a pod's spec.
pub(super) fn lay_over(pod: PodSpec, own: &Value) -> PodSpec {
    let mut merged = json!(pod);
    merge(&mut merged, own);
    // Both have the form of a pod's spec, so the result has.
    serde_json::from_value(merged).unwrap_or(pod)
}

fn merge(base: &mut Value, own: &Value) {
    let (Value::Object(base), Value::Object(own)) = (base, own) else { return };
    for (key, own) in own.iter().filter(|(_, own)| !is_silent(own)) {
        match base.get_mut(key) {
            None => drop(base.insert(key.clone(), own.clone())),
            Some(base) => merge_field(key, base, own),
        }
    }
}

fn merge_field(key: &str, base: &mut Value, own: &Value) {
    match key {
        "containers" => by_name(base, own, merge),
        "initContainers" | "volumes" => by_name(base, own, Value::clone_from),
        "env" => {
            by_name(base, own, Value::clone_from);
            sort_by_name(base);
        }
        "livenessProbe" | "readinessProbe" | "startupProbe" => base.clone_from(own),
        _ if base.is_object() && own.is_object() => merge(base, own),
        _ => base.clone_from(own),
    }
}

/// Items of both lists; where both have one of that name, `unite` lays the user's over the other.
fn by_name(base: &mut Value, own: &Value, unite: impl Fn(&mut Value, &Value)) {
    let (Value::Array(base), Value::Array(own)) = (base, own) else { return };
    for own in own {
        match base.iter_mut().find(|base| base["name"] == own["name"]) {
            Some(base) => unite(base, own),
            None => base.push(own.clone()),
        }
    }
}

fn sort_by_name(list: &mut Value) {
    if let Value::Array(items) = list {
        items.sort_by(|one, other| one["name"].as_str().cmp(&other["name"].as_str()));
    }
}

fn is_silent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => Map::is_empty(fields),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(base: Value, own: Value) -> Value {
        json!(lay_over(serde_json::from_value(base).unwrap(), &own))
    }

    #[test]
    fn what_is_not_said_stays() {
        let base = json!({ "restartPolicy": "Never", "nodeSelector": { "a": "1" }, "hostNetwork": true,
            "containers": [{ "name": "main", "image": "i", "args": ["x"], "resources": { "limits": { "cpu": "1" } } }] });
        let own = json!({ "restartPolicy": "", "nodeSelector": { "b": "2" }, "hostNetwork": false,
            "containers": [{ "name": "main", "args": [], "resources": { "limits": { "memory": "1Gi" } } }] });
        let expected = json!({ "restartPolicy": "Never", "nodeSelector": { "a": "1", "b": "2" }, "hostNetwork": false,
            "containers": [{ "name": "main", "image": "i", "args": ["x"],
                "resources": { "limits": { "cpu": "1", "memory": "1Gi" } } }] });
        assert_eq!(over(base, own), expected);
    }

    #[test]
    fn names_tell_what_is_laid_over_what() {
        let base = json!({
            "volumes": [{ "name": "v", "emptyDir": {} }],
            "initContainers": [{ "name": "init", "image": "old", "args": ["x"] }],
            "containers": [{ "name": "main", "image": "i", "env": [{ "name": "B", "value": "1" }],
                "livenessProbe": { "periodSeconds": 5, "exec": { "command": ["a"] } } }],
        });
        let own = json!({
            "volumes": [{ "name": "v", "hostPath": { "path": "/" } }, { "name": "w", "emptyDir": {} }],
            "initContainers": [{ "name": "init", "image": "new" }],
            "containers": [
                { "name": "main", "env": [{ "name": "B", "value": "2" }, { "name": "A", "value": "0" }],
                  "livenessProbe": { "exec": { "command": ["b"] } } },
                { "name": "side", "image": "s" },
            ],
        });
        let expected = json!({
            "volumes": [{ "name": "v", "hostPath": { "path": "/" } }, { "name": "w", "emptyDir": {} }],
            "initContainers": [{ "name": "init", "image": "new" }],
            "containers": [
                { "name": "main", "image": "i", "env": [{ "name": "A", "value": "0" }, { "name": "B", "value": "2" }],
                  "livenessProbe": { "exec": { "command": ["b"] } } },
                { "name": "side", "image": "s" },
            ],
        });
        assert_eq!(over(base, own), expected);
    }
}

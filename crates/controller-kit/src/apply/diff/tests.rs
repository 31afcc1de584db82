//! The comparison, by table and by property.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{includes, semantic_diff};
use crate::apply::plan::{Write, first_step, plan_write, stamp};

#[test]
fn what_the_api_server_adds_or_rewrites_is_no_difference() {
    for (case, live, desired) in [
        ("a default", json!({ "a": 1, "default": "x" }), json!({ "a": 1 })),
        ("an empty string", json!({}), json!({ "a": "" })),
        ("null", json!({}), json!({ "a": null })),
        ("false", json!({}), json!({ "a": false })),
        ("zero", json!({}), json!({ "a": 0 })),
        ("an empty list", json!({}), json!({ "a": [] })),
        ("an empty block", json!({}), json!({ "a": {} })),
        ("blocks of nothing", json!({}), json!({ "a": { "b": {}, "c": [] } })),
        ("an empty env value", json!({ "env": [{ "name": "A" }] }), json!({ "env": [{ "name": "A", "value": "" }] })),
        ("a quantity", json!({ "limits": { "cpu": "1" } }), json!({ "limits": { "cpu": "1000m" } })),
        ("a fraction", json!({ "requests": { "x/y": "512Mi" } }), json!({ "requests": { "x/y": "0.5Gi" } })),
        ("a number as quantity", json!({ "limits": { "gpu": "8" } }), json!({ "limits": { "gpu": 8 } })),
        (
            "a size limit",
            json!({ "emptyDir": { "sizeLimit": "1Gi" } }),
            json!({ "emptyDir": { "sizeLimit": "1024Mi" } }),
        ),
        ("int or string", json!({ "targetPort": 8080 }), json!({ "targetPort": "8080" })),
        ("a whole float", json!({ "ratio": 1 }), json!({ "ratio": 1.0 })),
        (
            "an injected sidecar in front",
            json!({ "containers": [{ "name": "proxy" }, { "name": "main", "image": "i" }] }),
            json!({ "containers": [{ "name": "main", "image": "i" }] }),
        ),
        (
            "an injected mount of a volume that is mounted twice",
            json!({ "volumeMounts": [
                { "name": "v", "mountPath": "/b" }, { "name": "v", "mountPath": "/a" }, { "name": "t", "mountPath": "/t" },
            ] }),
            json!({ "volumeMounts": [{ "name": "v", "mountPath": "/a" }, { "name": "v", "mountPath": "/b" }] }),
        ),
        (
            "ports that differ by protocol",
            json!({ "ports": [
                { "port": 53, "protocol": "UDP", "targetPort": 1 }, { "port": 53, "protocol": "TCP", "targetPort": 2 },
            ] }),
            json!({ "ports": [{ "port": 53, "targetPort": 2 }] }),
        ),
        (
            "a second owner of the same name",
            json!({ "ownerReferences": [{ "name": "g", "uid": "2" }, { "name": "g", "uid": "1" }] }),
            json!({ "ownerReferences": [{ "name": "g", "uid": "1" }] }),
        ),
        ("another finalizer", json!({ "finalizers": ["x", "ours"] }), json!({ "finalizers": ["ours"] })),
        ("a list without identity of equal length", json!({ "l": [{ "a": 1, "b": 2 }] }), json!({ "l": [{ "a": 1 }] })),
    ] {
        assert_eq!(semantic_diff(&live, &desired), [], "{case}");
    }
}

#[test]
fn real_differences_are_seen_where_they_are() {
    for (path, live, desired) in [
        ("a", json!({ "a": 1 }), json!({ "a": 2 })),
        ("a", json!({}), json!({ "a": 2 })),
        ("a", json!({ "a": true }), json!({ "a": false })),
        ("a", json!({ "a": "x" }), json!({ "a": "" })),
        ("replicas", json!({ "replicas": 3 }), json!({ "replicas": 0 })),
        ("a.b", json!({ "a": {} }), json!({ "a": { "b": "x" } })),
        ("s", json!({}), json!({ "s": { "runAsUser": 0 } })),
        ("limits.cpu", json!({ "limits": { "cpu": "1" } }), json!({ "limits": { "cpu": "1001m" } })),
        (
            "env[0].value",
            json!({ "env": [{ "name": "A", "value": "1" }] }),
            json!({ "env": [{ "name": "A", "value": "1000m" }] }),
        ),
        ("args[1]", json!({ "args": ["a", "b"] }), json!({ "args": ["a", "c"] })),
        ("args[0]", json!({ "args": ["b", "a", "c"] }), json!({ "args": ["a"] })),
        ("args", json!({ "args": ["a"] }), json!({ "args": [] })),
        (
            "containers[0]",
            json!({ "containers": [{ "name": "a" }, { "name": "b" }] }),
            json!({ "containers": [{ "name": "main" }] }),
        ),
        (
            "containers[0].image",
            json!({ "containers": [{ "name": "x" }, { "name": "main", "image": "old" }] }),
            json!({ "containers": [{ "name": "main", "image": "new" }] }),
        ),
        ("finalizers[0]", json!({ "finalizers": ["x"] }), json!({ "finalizers": ["ours"] })),
        ("a", json!({ "a": "text" }), json!({ "a": { "b": 1 } })),
        ("a", json!({ "a": null }), json!({ "a": 1 })),
        // Absent means true.
        (
            "securityContext.allowPrivilegeEscalation",
            json!({ "securityContext": {} }),
            json!({ "securityContext": { "allowPrivilegeEscalation": false } }),
        ),
        (
            "automountServiceAccountToken",
            json!({ "automountServiceAccountToken": null }),
            json!({ "automountServiceAccountToken": false }),
        ),
        ("enableServiceLinks", json!({}), json!({ "enableServiceLinks": false })),
    ] {
        let found: Vec<String> = semantic_diff(&live, &desired).into_iter().map(|d| d.path).collect();
        assert_eq!(found, [path], "{live} against {desired}");
    }
}

/// Objects as Kubernetes has them: nested blocks, named lists, plain lists.
fn object() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..100).prop_map(Value::from),
        "[a-c]{0,3}".prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(3, 24, 4, |inner| {
        let fields = prop::collection::btree_map("[d-k]{1,2}", inner.clone(), 0..4);
        let block = fields.prop_map(|fields| Value::Object(fields.into_iter().collect()));
        let named = prop::collection::vec(block.clone(), 0..4).prop_map(|items| {
            let name = |(index, mut item): (usize, Value)| {
                item["name"] = json!(format!("element-{index}"));
                item
            };
            Value::Array(items.into_iter().enumerate().map(name).collect())
        });
        let plain = prop::collection::vec("[a-c]{1,2}".prop_map(Value::from), 0..3).prop_map(Value::Array);
        prop_oneof![block, named, plain]
    });
    prop::collection::btree_map("[d-k]{1,2}", value, 1..5)
        .prop_map(|fields| Value::Object(fields.into_iter().collect()))
}

/// Adds what others may add: fields in every block, an element in front of every named list.
fn with_extras(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut all: Map<String, Value> = fields.iter().map(|(k, v)| (k.clone(), with_extras(v))).collect();
            all.insert("zz-added".to_owned(), json!({ "by": "others" }));
            Value::Object(all)
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            let added = json!({ "name": "added-by-others" });
            Value::Array(std::iter::once(added).chain(items.iter().map(with_extras)).collect())
        }
        other => other.clone(),
    }
}

/// Every leaf that says something, as a JSON pointer.
fn leaves(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, below)| leaves(below, &format!("{at}/{key}"), found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, below)| leaves(below, &format!("{at}/{index}"), found));
        }
        leaf if crate::apply::diff::is_empty(leaf) => {}
        _ => found.push(at.to_owned()),
    }
}

proptest! {
    #[test]
    fn an_object_has_no_difference_from_itself(object in object()) {
        prop_assert_eq!(semantic_diff(&object, &object), vec![]);
    }

    #[test]
    fn what_others_add_does_not_matter(object in object()) {
        prop_assert_eq!(semantic_diff(&with_extras(&object), &object), vec![]);
    }

    #[test]
    fn a_changed_leaf_is_seen_under_any_additions(object in object(), pick in any::<prop::sample::Index>()) {
        let mut all = Vec::new();
        leaves(&object, "", &mut all);
        prop_assume!(!all.is_empty());
        let mut desired = object.clone();
        *desired.pointer_mut(&all[pick.index(all.len())]).unwrap() = json!("another value");
        prop_assert!(!includes(&object, &desired));
        prop_assert!(!includes(&with_extras(&object), &desired));
    }

    #[test]
    fn a_removed_leaf_is_seen(object in object(), pick in any::<prop::sample::Index>()) {
        let mut all = Vec::new();
        leaves(&object, "", &mut all);
        prop_assume!(!all.is_empty());
        let mut live = object.clone();
        *live.pointer_mut(&all[pick.index(all.len())]).unwrap() = Value::Null;
        prop_assert!(!includes(&live, &object));
    }
}

#[test]
fn only_objects_that_have_fields_live_are_removed_with_the_parents_that_they_leave_empty() {
    for (desired, live, rest) in [
        (json!({ "a": {} }), json!({ "a": { "b": 1 } }), Some(json!({}))),
        (json!({ "a": { "b": {} }, "c": 1 }), json!({ "a": { "b": { "x": 1 } } }), Some(json!({ "c": 1 }))),
        (
            json!({ "c": [{ "name": "m", "limits": {} }, { "name": "n", "limits": {} }] }),
            json!({ "c": [{ "name": "n", "limits": { "cpu": "1" } }, { "name": "m" }] }),
            Some(json!({ "c": [{ "name": "m", "limits": {} }, { "name": "n" }] })),
        ),
        (json!({ "a": {} }), json!({ "a": {} }), None),
        (json!({ "a": {} }), json!({ "b": { "x": 1 } }), None),
        (json!({ "a": [{}] }), json!({ "a": [{ "x": 1 }] }), None),
        (json!({ "a": [] }), json!({ "a": [1] }), None),
    ] {
        assert_eq!(first_step(&desired, &live), rest, "{desired} {live}");
    }
}

#[test]
fn what_only_the_first_step_reached_is_written_again() {
    let owner = json!([{ "apiVersion": "v1", "kind": "Parent", "name": "p", "uid": "u", "controller": true }]);
    let object = |spec: Value| stamp(json!({ "metadata": { "name": "o", "ownerReferences": owner }, "spec": spec }));
    let desired = object(json!({ "limits": {}, "size": 1 }));
    let mut live = first_step(&desired, &object(json!({ "limits": { "cpu": "1" }, "size": 1 }))).unwrap();
    assert_eq!(live["spec"], json!({ "size": 1 }));
    live["metadata"]["uid"] = json!("live");
    assert!(matches!(plan_write(&desired, &live, "u", false), Write::Update { .. }));
}

//! Objects inside an object that lose all their fields.
//!
//! By the schema of a CustomResourceDefinition, the API server rejects a server-side apply of `{}` in place of fields
//! that the same manager applied before: it removes the fields first, and what is left counts as null. Kinds of
//! Kubernetes do not have that. The way around it is to remove the object as a whole, and to apply it again.

use serde_json::{Map, Value, json};

use super::plan::APPLIED_ANNOTATION;

/// Whether a rejection is one of an object that lost all its fields.
pub(super) fn counts_as_null(answer: &str) -> bool {
    answer.contains(r#"must be of type object: "null""#)
}

/// What is applied first: the desired object without the empty objects that have fields live; `None` if there are none.
/// It has no fingerprint, so that a reconcile after a failure between the two steps finds a difference.
pub(super) fn first_step(desired: &Value, live: &Value) -> Option<Value> {
    let mut first = desired.clone();
    if !remove(&mut first, live) {
        return None;
    }
    if let Some(fingerprint) =
        first.pointer_mut("/metadata/annotations").and_then(|all| all.get_mut(APPLIED_ANNOTATION))
    {
        *fingerprint = json!("");
    }
    Some(first)
}

/// Removes them; returns whether there were any.
fn remove(desired: &mut Value, live: &Value) -> bool {
    match (desired, live) {
        (Value::Object(desired), Value::Object(live)) => {
            let mut removed = false;
            for (name, live) in live {
                let Some(value) = desired.get_mut(name) else { continue };
                removed |= remove(value, live);
                if is_empty(value) && live.as_object().is_some_and(|live| !live.is_empty()) {
                    desired.remove(name);
                    removed = true;
                }
            }
            removed
        }
        (Value::Array(desired), Value::Array(live)) => {
            let mut removed = false;
            for item in desired {
                let name = item.get("name").cloned();
                let same = live.iter().find(|live| name.is_some() && live.get("name") == name.as_ref());
                removed |= same.is_some_and(|live| remove(item, live));
            }
            removed
        }
        _ => false,
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

#[cfg(test)]
mod tests {
    use super::{
        super::plan::{Write, plan_write, stamp},
        *,
    };

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
        let object =
            |spec: Value| stamp(json!({ "metadata": { "name": "o", "ownerReferences": owner }, "spec": spec }));
        let desired = object(json!({ "limits": {}, "size": 1 }));
        let mut live = first_step(&desired, &object(json!({ "limits": { "cpu": "1" }, "size": 1 }))).unwrap();
        assert_eq!(live["spec"], json!({ "size": 1 }));
        live["metadata"]["uid"] = json!("live");
        assert!(matches!(plan_write(&desired, Some(&live), "u", false), Write::Update { .. }));
    }
}

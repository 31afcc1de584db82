//! Objects inside an object that lose all their fields.
//!
//! By the schema of a CustomResourceDefinition, the API server rejects a server-side apply of `{}` in place of fields that
//! the same manager applied before: it removes the fields first, and what is left counts as null. Kinds of Kubernetes do
//! not have that. The way around it is to remove the object as a whole, and to apply it again.

use serde_json::{Map, Value};

/// What is applied, without the empty objects that have fields live; `None` if there are none.
pub(super) fn without_emptied(desired: &Value, live: &Value) -> Option<Value> {
    let mut rest = desired.clone();
    remove(&mut rest, live).then_some(rest)
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
    use serde_json::json;

    use super::*;

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
            assert_eq!(without_emptied(&desired, &live), rest, "{desired} {live}");
        }
    }
}

//! Reading and changing JSON objects by path, and quantities in JSON, where a number is one too.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::quantity::exact_nanos;
pub(super) use crate::quantity::is_quantity;

/// A JSON object.
pub(super) type Object = Map<String, Value>;

/// The annotations of a Kubernetes object.
pub(super) fn annotations(object: &Value) -> Option<&Object> {
    object.get("metadata")?.get("annotations")?.as_object()
}

/// The same, to change them.
pub(super) fn annotations_mut(object: &mut Value) -> Option<&mut Object> {
    object.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()
}

/// The object at `key`.
pub(super) fn object<'a>(from: &'a Object, key: &str) -> Option<&'a Object> {
    from.get(key).and_then(Value::as_object)
}

/// The list at `key`; empty if there is none.
pub(super) fn list<'a>(from: &'a Object, key: &str) -> &'a [Value] {
    from.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The text at `key`, if it is not empty.
pub(super) fn text<'a>(from: &'a Object, key: &str) -> Option<&'a str> {
    from.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Whether `key` is the boolean `true`.
pub(super) fn is_true(from: &Object, key: &str) -> bool {
    from.get(key) == Some(&Value::Bool(true))
}

/// Whether a value is null, zero, or empty, as the zero values are that Go writes into payloads.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// The value at `path`.
pub(super) fn at<'a, S: AsRef<str>>(from: &'a Object, path: &[S]) -> Option<&'a Value> {
    let (last, parents) = path.split_last()?;
    let parent = parents.iter().try_fold(from, |parent, key| object(parent, key.as_ref()))?;
    parent.get(last.as_ref())
}

/// Sets the value at `path`, with the objects on the way to it; removes it if there is no value. A parent that is not
/// an object is left as it is.
pub(super) fn put<S: AsRef<str>>(into: &mut Object, path: &[S], value: Option<Value>) {
    match (path, value) {
        ([], _) => {}
        ([key], Some(value)) => {
            into.insert(key.as_ref().to_owned(), value);
        }
        ([key], None) => {
            into.remove(key.as_ref());
        }
        ([key, rest @ ..], value) => {
            if value.is_some() && !into.contains_key(key.as_ref()) {
                into.insert(key.as_ref().to_owned(), Value::Object(Object::new()));
            }
            if let Some(Value::Object(parent)) = into.get_mut(key.as_ref()) {
                put(parent, rest, value);
            }
        }
    }
}

/// Copies the named fields that are there and not null.
pub(super) fn copy(from: &Object, into: &mut Object, keys: &[&str]) {
    for key in keys {
        copy_as(from, key, into, key);
    }
}

/// Copies the field `key`, if it is there and not null, to the field `name`.
pub(super) fn copy_as(from: &Object, key: &str, into: &mut Object, name: &str) {
    if let Some(value) = from.get(key).filter(|value| !value.is_null()) {
        into.insert(name.to_owned(), value.clone());
    }
}

/// The value, unless it is empty.
pub(super) fn filled(value: impl Into<Value>) -> Option<Value> {
    Some(value.into()).filter(|value| !is_empty(value))
}

/// Sets `key` to `value` unless that is empty.
pub(super) fn insert_filled(into: &mut Object, key: &str, value: impl Into<Value>) {
    if let Some(value) = filled(value) {
        into.insert(key.to_owned(), value);
    }
}

/// Sets the value at `path`, unless the part of the object that `path` is in is missing.
pub(super) fn put_in_part(body: &mut Object, path: &[&str], value: &Value) {
    if path.first().is_some_and(|part| body.get(*part).is_some_and(Value::is_object)) {
        put(body, path, Some(value.clone()));
    }
}

/// An object of the changed spec and the changed status of another, as far as that has them.
pub(super) fn each_part(
    body: &Object,
    spec: impl FnOnce(&Object) -> Object,
    status: impl FnOnce(&Object) -> Object,
) -> Object {
    let mut changed = Object::new();
    put(&mut changed, &["spec"], object(body, "spec").map(spec).map(Value::Object));
    put(&mut changed, &["status"], object(body, "status").map(status).map(Value::Object));
    changed
}

/// Adds the fields that are missing.
pub(super) fn fill(into: &mut Object, fields: &Object) {
    for (key, value) in fields {
        into.entry(key).or_insert_with(|| value.clone());
    }
}

/// The name of a list entry.
pub(super) fn name_of(entry: &Value) -> Option<&str> {
    entry.get("name").and_then(Value::as_str)
}

/// First index of each name in a list. Lists have any length: the work for each
/// entry must not go through all of them.
pub(super) fn places(entries: &[Value]) -> HashMap<&str, usize> {
    // From the last to the first, so that the first stays.
    entries.iter().enumerate().rev().filter_map(|(place, entry)| Some((name_of(entry)?, place))).collect()
}

/// The entry with that name.
pub(super) fn named<'a>(entries: &'a [Value], name: &str) -> Option<&'a Object> {
    entries.iter().find(|entry| name_of(entry) == Some(name)).and_then(Value::as_object)
}

/// The value in billionths; none if it is not a quantity or too large to say.
pub(super) fn nanos(quantity: &Value) -> Option<i128> {
    match quantity {
        Value::String(text) => exact_nanos(text),
        Value::Number(number) => exact_nanos(&number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values() {
        for (given, nanos_expected) in [
            (json!("1"), Some(1_000_000_000)),
            (json!(1), Some(1_000_000_000)),
            (json!("1000m"), Some(1_000_000_000)),
            (json!("0.5"), Some(500_000_000)),
            (json!(".5"), Some(500_000_000)),
            (json!("1e3"), Some(1_000_000_000_000)),
            (json!("1Ki"), Some(1_024_000_000_000)),
            (json!("-1"), Some(-1_000_000_000)),
            (json!("0Gi"), Some(0)),
            (json!("1.50"), Some(1_500_000_000)),
            (json!(""), None),
            (json!("."), None),
            (json!("1.2.3"), None),
            (json!("ten"), None),
            (json!("1Gb"), None),
            (json!("99999999999999999999999999999999999999999999"), None),
            (json!("1e999999999"), None),
            (json!("1e-2147483648"), None),
            (json!("0e999999999"), Some(0)),
            (json!(null), None),
            (json!("１"), None),
        ] {
            assert_eq!(nanos(&given), nanos_expected, "{given}");
        }
    }
}

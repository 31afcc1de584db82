//! Fields in which two objects differ.

use std::collections::{BTreeMap, BTreeSet};

use api_types::annotations;
use serde::Serialize;
use serde_json::{Map, Value};

use super::edit::LAST_APPLIED;

/// One field.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldChange {
    /// Path of the field, for example `spec.template.spec.containers[main].image`.
    pub path: String,
    /// As it is; `None` if there is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// As it will be; `None` if it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// Fields of an element by which it is named in a path.
const NAMES: [&str; 3] = ["name", "mountPath", "uid"];

/// Metadata that the API server sets, or that only keeps account of what was applied.
const METADATA: [&str; 6] =
    ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "deletionTimestamp"];

/// Returns the fields in which two objects differ, without their status and the metadata that the API server sets. An
/// empty value counts as absent.
pub fn field_changes(before: &Value, after: &Value) -> Vec<FieldChange> {
    let mut found = Vec::new();
    compare(String::new(), [Some(&content(before)), Some(&content(after))], is_empty, &mut found);
    found
}

/// Returns the field changes of an edit, where empty fields count: `scalingAdapter: {}` has a meaning.
pub fn edits(before: &Value, after: &Value) -> Vec<FieldChange> {
    let mut found = Vec::new();
    compare(String::new(), [Some(&content(before)), Some(&content(after))], is_absent, &mut found);
    found
}

/// Returns the content of an object.
pub fn content(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        METADATA.iter().for_each(|field| drop(metadata.remove(*field)));
        if let Some(all) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            all.remove(annotations::APPLIED);
            all.remove(LAST_APPLIED);
            if all.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    object
}

fn compare(
    path: String,
    [before, after]: [Option<&Value>; 2],
    is_nothing: fn(Option<&Value>) -> bool,
    found: &mut Vec<FieldChange>,
) {
    if before == after || (is_nothing(before) && is_nothing(after)) {
        return;
    }
    let (is_object, both) = match (before, after) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => (true, Some((fields(before), fields(after)))),
        (Some(Value::Array(before)), Some(Value::Array(after))) => (false, named(before).zip(named(after))),
        _ => (false, None),
    };
    let Some((old, new)) = both else {
        return found.push(FieldChange { path, before: before.cloned(), after: after.cloned() });
    };
    for name in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
        let path = if is_object { join(&path, name) } else { format!("{path}[{name}]") };
        compare(path, [old.get(name).copied(), new.get(name).copied()], is_nothing, found);
    }
}

fn fields(object: &Map<String, Value>) -> BTreeMap<&str, &Value> {
    object.iter().map(|(name, value)| (name.as_str(), value)).collect()
}

fn is_absent(value: Option<&Value>) -> bool {
    value.is_none_or(Value::is_null)
}

fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

fn join(path: &str, name: &str) -> String {
    match (path.is_empty(), name.contains(['.', '/'])) {
        (true, _) => name.to_owned(),
        (false, true) => format!("{path}[{name}]"),
        (false, false) => format!("{path}.{name}"),
    }
}

/// Elements by name; `None` if they have none, or not each its own.
fn named(items: &[Value]) -> Option<BTreeMap<&str, &Value>> {
    let key = NAMES.into_iter().find(|key| items.iter().all(|item| item.get(key).is_some_and(Value::is_string)))?;
    let named: BTreeMap<&str, &Value> = items.iter().filter_map(|item| Some((item[key].as_str()?, item))).collect();
    (named.len() == items.len()).then_some(named)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_named_by_their_path() {
        let object = |image: &str, label: Value, args: Value| {
            json!({ "metadata": { "uid": "u", "generation": image.len(), "labels": { "a.b/c": label } },
                "spec": { "containers": [{ "name": "main", "image": image, "args": args }] },
                "status": { "x": image } })
        };
        let table = [
            (object("a", json!("1"), json!(["x"])), object("a", json!("1"), json!(["x"])), vec![]),
            (
                object("a", json!("1"), json!([])),
                object("bb", json!("1"), Value::Null),
                vec!["spec.containers[main].image"],
            ),
            (
                object("a", json!("1"), json!(["x"])),
                object("a", json!("2"), json!(["y"])),
                vec!["metadata.labels[a.b/c]", "spec.containers[main].args"],
            ),
        ];
        for (before, after, expected) in table {
            let found = field_changes(&before, &after);
            assert_eq!(found.iter().map(|change| change.path.as_str()).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn what_is_empty_counts_in_edits_only() {
        let (without, with) = (json!({ "spec": {} }), json!({ "spec": { "scalingAdapter": {} } }));
        assert_eq!(field_changes(&without, &with), []);
        let change = FieldChange { path: "spec.scalingAdapter".to_owned(), before: None, after: Some(json!({})) };
        assert_eq!(edits(&without, &with), [change]);
        assert_eq!(edits(&without, &json!({ "spec": { "scalingAdapter": null } })), []);
    }

    #[test]
    fn elements_come_and_go_by_name() {
        let env =
            |names: &[&str]| json!({ "env": names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>() });
        let found = field_changes(&env(&["A", "B"]), &env(&["C", "B"]));
        let expected = [
            FieldChange { path: "env[A]".to_owned(), before: Some(json!({ "name": "A" })), after: None },
            FieldChange { path: "env[C]".to_owned(), before: None, after: Some(json!({ "name": "C" })) },
        ];
        assert_eq!(found, expected);
    }
}

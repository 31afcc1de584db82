//! Plan of the necessary write, without any I/O.
//!
//! An object inside an object that loses all its fields takes two writes. By the schema of a CustomResourceDefinition,
//! the API server rejects a server-side apply of `{}` in place of fields that the same manager applied before: it
//! removes the fields first, and what is left counts as null. Kinds of Kubernetes do not have that. The way around it
//! is to remove the object as a whole, and to apply it again.

#[cfg(test)]
mod tests;

use api_types::{annotations, names::sha256_hex};
use serde_json::{Value, json};

use super::diff::{Difference, semantic_diff};

/// Annotation with the fingerprint of what we applied last. Removing a field from the desired object changes it, which
/// comparing leaves alone would not show.
pub const APPLIED_ANNOTATION: &str = annotations::APPLIED;

/// Write that makes the live object the desired one.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Owned or adoptable, and different.
    Update {
        /// The live object's uid: a precondition, so that an update never creates.
        uid: String,
        /// The version that was compared.
        resource_version: String,
        /// Differences. Empty if only fields that are no longer desired are left.
        differences: Vec<Difference>,
    },
    /// The object is as desired.
    Skip,
    /// It is being deleted, or is left over from a parent that was: nothing can be done until it is gone.
    Wait {
        /// Reason for the wait.
        reason: String,
    },
    /// The object has another owner.
    Conflict {
        /// Owner of the object.
        reason: String,
    },
}

/// Plans the write.
///
/// - `desired`: the object as [`stamp`] made it.
/// - `live`: the object of that name.
/// - `parent_uid`: uid of the controller owner that makes a live object ours.
/// - `adoptable`: whether a live object without controller owner may be taken over.
pub fn plan_write(desired: &Value, live: &Value, parent_uid: &str, adoptable: bool) -> Write {
    if let Some(write) = owned_by_another(desired, live, parent_uid, adoptable) {
        return write;
    }
    if live.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null()) {
        return Write::Wait { reason: "it is being deleted".to_owned() };
    }
    let differences = semantic_diff(live, desired);
    if differences.is_empty() && fingerprint_of(live) == fingerprint_of(desired) {
        return Write::Skip;
    }
    Write::Update {
        uid: text(live, "/metadata/uid"),
        resource_version: text(live, "/metadata/resourceVersion"),
        differences,
    }
}

/// The write that follows from the owner of the live object; `None` if it is ours or may become ours.
fn owned_by_another(desired: &Value, live: &Value, parent_uid: &str, adoptable: bool) -> Option<Write> {
    let Some(owner) = controller_of(live) else {
        return (!adoptable).then(|| Write::Conflict { reason: "it has no controller".to_owned() });
    };
    if text(owner, "/uid") == parent_uid {
        return None;
    }
    let name = format!("{} {}", text(owner, "/kind"), text(owner, "/name"));
    Some(match controller_of(desired) {
        // Same parent by name, other uid: the parent was deleted and made again before its children were collected.
        Some(parent) if same_name(owner, parent) => {
            Write::Wait { reason: format!("it belongs to a deleted {name} and is being collected") }
        }
        _ => Write::Conflict { reason: format!("its controller is {name}") },
    })
}

fn same_name(a: &Value, b: &Value) -> bool {
    let group = |owner: &Value| text(owner, "/apiVersion").rsplit_once('/').map(|(group, _)| group.to_owned());
    group(a) == group(b) && ["/kind", "/name"].iter().all(|field| a.pointer(field) == b.pointer(field))
}

/// The controller entry of the object's owner references.
pub(super) fn controller_of(object: &Value) -> Option<&Value> {
    object["metadata"]["ownerReferences"].as_array()?.iter().find(|owner| owner["controller"] == true)
}

/// Prepares an object for server-side apply: drops what is not ours to say (`status`, server-set metadata, nulls) and
/// adds [`APPLIED_ANNOTATION`]. Stamping twice changes nothing.
#[must_use]
pub fn stamp(mut object: Value) -> Value {
    drop_nulls(&mut object);
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"] {
            metadata.remove(field);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(APPLIED_ANNOTATION);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    let fingerprint = fingerprint(&object);
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(APPLIED_ANNOTATION.to_owned(), Value::String(fingerprint));
        }
    }
    object
}

/// The fingerprint an object carries.
pub(super) fn fingerprint_of(object: &Value) -> Option<&str> {
    object.get("metadata")?.get("annotations")?.get(APPLIED_ANNOTATION)?.as_str()
}

/// 16 hex digits of the SHA-256 over a canonical text of `value`: keys sorted, no white space.
pub fn fingerprint(value: &Value) -> String {
    let mut text = String::new();
    canonical(value, &mut text);
    sha256_hex(text.as_bytes(), 16)
}

/// Does not rely on how `serde_json` orders a map, which is a feature flag of the whole build.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| key.as_str());
            out.push('{');
            for (key, value) in sorted {
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        leaf => out.push_str(&leaf.to_string()),
    }
}

/// A null in a server-side apply is a field that we own without a value, which is never desired here.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

pub(super) fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Whether a rejection is one of an object that lost all its fields.
pub(super) fn counts_as_null(answer: &str) -> bool {
    answer.contains(r#"must be of type object: "null""#)
}

/// Returns the object to apply first: the desired object without the empty objects that have fields live; `None` if
/// there are none. It has no fingerprint, so that a reconcile after a failure between the two steps finds a difference.
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
                if *value == json!({}) && live.as_object().is_some_and(|live| !live.is_empty()) {
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

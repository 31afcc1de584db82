//! Conversion for server-side apply.
//!
//! To find out what an apply removes, the API server takes the fields away that the manager applied before and does not
//! apply now, converts the object as it was and as it is then to every other version that has a manager, takes from the
//! first what the second lacks, and converts the rest back. It compares field paths, never values, and every key of an
//! annotation is a path. So an object on this way has the values of the first object, saved data included, and the
//! paths of the second. Saved data alone would put back all that only the other version can say, and would no longer
//! fit the rest.
//!
//! Objects on this way therefore carry notes: the source as it was, and one annotation for each of its fields. The API
//! server removes the annotation with the field; and what is converted back is the source without the fields that lack
//! theirs, unless something that is still there says the same: that belongs to a manager in the other version.
//!
//! No note is stored: the API server removes the resource version of objects before it stores them, and adds it after
//! reading them. An object that is stored has a uid, which the parts of a merge may lack.

mod fields;

use std::collections::HashSet;

use fields::{contains, fields, retain};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    ApiVersion, ConversionError, Extent, convert_within, kind, payload,
    payload::{ANNOTATION_BYTES, bytes},
    value::{Object, annotations, annotations_mut},
};

/// The annotation with the source; with a suffix, the annotation for one of its fields.
const NOTE: &str = "nvidia.com/merge";
/// Bytes that are converted to find out which fields belong to another manager.
const EFFORT: usize = 1 << 20;
/// Maximum number of those conversions.
const MOST: usize = 32;

/// An object before its conversion: what is converted, and the saved data that was kept with it.
#[derive(Serialize, Deserialize)]
struct FieldRecord {
    /// Spec and status.
    body: Value,
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    annotations: Object,
}

/// The source of a converted object, and the fields that it still has.
struct Notes {
    record: FieldRecord,
    kept: HashSet<String>,
    bytes: usize,
}

/// Converts an object for the API server: as [`super::convert`] does, and with notes where the object is on its way
/// through a merge.
///
/// # Errors
/// As [`super::convert`].
pub fn convert_for_merge(mut object: Value, to: ApiVersion) -> Result<Value, ConversionError> {
    let notes = take(&mut object);
    let in_request = is_in_request(&object["metadata"]);
    let extent = if in_request { Extent::Part } else { Extent::Whole };
    let same_version = object["apiVersion"] == to.api_version();
    // On the way back there is no need of notes, and the version that is stored would keep them.
    let new = (in_request && !same_version && notes.is_none()).then(|| note(&object)).flatten();
    let restored = notes.filter(|_| in_request && !same_version).and_then(|notes| notes.restore(&object, to));
    let mut target = restored.map_or_else(|| convert_within(object, to, extent), Ok)?;
    if !same_version {
        payload::fit(&mut target, to)?;
    }
    if let Some(new) = new {
        attach(&mut target, new);
    }
    Ok(target)
}

/// Whether an object is converted within a request, where it may be merged. One that was read from storage has a uid
/// and no resource version yet, one that is about to be stored has it no more. A merge takes both off, and managed
/// fields, if its manager owns labels or annotations; new objects have managed fields before they have a uid.
fn is_in_request(metadata: &Value) -> bool {
    let has = |key: &str| metadata[key].as_str().is_some_and(|text| !text.is_empty());
    has("resourceVersion") || (!has("uid") && metadata.get("managedFields").is_none())
}

/// The suffix of a note.
fn suffix(key: &str) -> Option<&str> {
    key.strip_prefix(NOTE).filter(|suffix| suffix.is_empty() || suffix.starts_with('.'))
}

/// Takes the notes off an object.
fn take(object: &mut Value) -> Option<Notes> {
    let annotations = annotations_mut(object)?;
    if !annotations.keys().any(|key| suffix(key).is_some()) {
        return None;
    }
    let source = annotations.remove(NOTE);
    let kept = annotations.keys().filter_map(|key| suffix(key)).map(ToOwned::to_owned).collect();
    annotations.retain(|key, _| suffix(key).is_none());
    if annotations.is_empty()
        && let Some(Value::Object(metadata)) = object.get_mut("metadata")
    {
        metadata.remove("annotations");
    }
    let text = source.as_ref().and_then(Value::as_str)?;
    Some(Notes { record: serde_json::from_str(text).ok()?, kept, bytes: text.len() })
}

/// The notes for an object, if it is of a kind that has two versions.
fn note(object: &Value) -> Option<Object> {
    let kind = kind(object["kind"].as_str()?)?;
    let saved = annotations(object).into_iter().flatten();
    let saved = saved.filter(|(key, _)| [kind.spec, kind.status].contains(&key.as_str()));
    let record = FieldRecord {
        body: body(object),
        annotations: saved.map(|(key, value)| (key.clone(), value.clone())).collect(),
    };
    let text = serde_json::to_string(&record).ok()?;
    let version = object["apiVersion"].as_str()?.parse().ok()?;
    let mut notes: Object =
        fields(version, &record.body).into_iter().map(|field| (format!("{NOTE}{field}"), json!(""))).collect();
    notes.insert(NOTE.to_owned(), Value::String(text));
    Some(notes)
}

/// Adds notes to an object, unless the API server would refuse as many annotations.
fn attach(object: &mut Value, notes: Object) {
    let Value::Object(metadata) = &mut object["metadata"] else { return };
    let Value::Object(annotations) = metadata.entry("annotations").or_insert_with(|| json!({})) else { return };
    if bytes(annotations) + bytes(&notes) <= ANNOTATION_BYTES {
        annotations.extend(notes);
    } else if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// Returns the converted parts of an object.
fn body(object: &Value) -> Value {
    ["spec", "status"].into_iter().filter_map(|part| Some((part, object.get(part)?.clone()))).collect()
}

impl Notes {
    /// The source of `live`, without what a merge removed; none if something else was done to `live`.
    fn restore(&self, live: &Value, to: ApiVersion) -> Option<Value> {
        let from: ApiVersion = live["apiVersion"].as_str()?.parse().ok()?;
        let whole = self.object(live, to);
        let there = body(live);
        let whole_seen = body(&convert_within(whole.clone(), from, Extent::Part).ok()?);
        if !contains(from, &whole_seen, &there) {
            return None;
        }
        let all = fields(to, &body(&whole));
        let there = fields(from, &there);
        let removed = all.iter().filter(|field| !self.kept.contains(*field)).cloned().collect();
        let pruned = without(to, &whole, &removed);
        let pruned_seen = fields(from, &body(&convert_within(pruned.clone(), from, Extent::Part).ok()?));
        // Every field that the source still says is still there, or it was not a merge that removed it.
        if fields(from, &whole_seen).iter().any(|field| pruned_seen.contains(field) && !there.contains(field)) {
            return None;
        }
        let mut target = match there.is_subset(&pruned_seen) {
            true => pruned,
            false => self.with_others_fields(&whole, &removed, &there, (from, to)),
        };
        let mut metadata = live.get("metadata")?.as_object()?.clone();
        let kind = kind(live["kind"].as_str()?)?;
        if let Value::Object(annotations) = metadata.entry("annotations").or_insert_with(|| json!({})) {
            annotations.retain(|key, _| ![kind.spec, kind.status].contains(&key.as_str()));
            annotations.extend(self.record.annotations.clone());
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
        target["metadata"] = Value::Object(metadata);
        Some(target)
    }

    /// The source as it was.
    fn object(&self, live: &Value, version: ApiVersion) -> Value {
        let mut object = json!({
            "apiVersion": version.api_version(), "kind": live["kind"],
            "metadata": { "name": live["metadata"]["name"], "annotations": self.record.annotations },
        });
        let parts = self.record.body.as_object().into_iter().flatten();
        for (part, value) in parts.filter(|(part, _)| ["spec", "status"].contains(&part.as_str())) {
            object[part] = value.clone();
        }
        object
    }

    /// The source without those of the removed fields of which nothing is left in `there`.
    fn with_others_fields(
        &self,
        whole: &Value,
        removed: &HashSet<String>,
        there: &HashSet<String>,
        (from, to): (ApiVersion, ApiVersion),
    ) -> Value {
        let says_all = |candidate: &Value| {
            convert_within(candidate.clone(), from, Extent::Part)
                .is_ok_and(|seen| there.is_subset(&fields(from, &body(&seen))))
        };
        let mut tries = (EFFORT / self.bytes.max(1)).clamp(1, MOST);
        let mut dropped = HashSet::new();
        let mut current = whole.clone();
        // Halves first, then whole subtrees, then their parts.
        let mut left = vec![fields::groups(to, &body(whole), removed)];
        while let Some(mut groups) = left.pop()
            && tries > 0
        {
            tries -= 1;
            let more = groups.iter().flat_map(|group| group.fields.iter().cloned());
            let candidate_dropped: HashSet<String> = dropped.iter().cloned().chain(more).collect();
            let candidate = without(to, whole, &candidate_dropped);
            if says_all(&candidate) {
                (dropped, current) = (candidate_dropped, candidate);
            } else if groups.len() > 1 {
                let half = groups.split_off(groups.len() / 2);
                left.extend([groups, half]);
            } else {
                left.extend(groups.pop().map(|group| group.parts).filter(|parts| !parts.is_empty()));
            }
        }
        current
    }
}

/// The object without these fields.
fn without(version: ApiVersion, object: &Value, removed: &HashSet<String>) -> Value {
    let mut rest = body(object);
    if !removed.is_empty() {
        retain(version, &mut rest, &|field| !removed.contains(field));
    }
    let mut object = json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": object["metadata"],
    });
    if let (Value::Object(object), Value::Object(rest)) = (&mut object, rest) {
        object.extend(rest);
    }
    object
}

#[cfg(test)]
mod tests;

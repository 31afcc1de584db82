//! The annotations that hold saved data, in the format of the upstream operator.
//!
//! The annotation for the spec holds `{"version":1,"spec":{…},"rawJSON":[…],"exact":[…],"seals":{…}}`. `spec` is a
//! sparse spec of the version that the object is *not* in. `rawJSON` holds a marker for a `serviceName` that was not
//! given. `exact` and `seals` are ours; the upstream operator does not read them. The annotation for the status holds a
//! sparse status. What cannot be read is ignored.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    lens::Saved,
    residue::{Entry, Residue},
    value::{Object, list, object},
};

/// Keys of the annotations of one kind.
pub(super) struct Keys {
    /// Saved data of the spec.
    pub spec: &'static str,
    /// Saved data of the status.
    pub status: &'static str,
    /// Annotations of earlier versions, which are removed and never read.
    pub retired: &'static [&'static str],
}

/// The marker of the upstream operator for a `serviceName` that was not given.
const NO_SERVICE_NAME: &str = "serviceName";

/// Takes the saved data out of the annotations in `metadata`.
pub(super) fn take(metadata: &mut Object, keys: &Keys) -> Option<Saved> {
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else { return None };
    let before = annotations.len();
    let spec = annotations.remove(keys.spec);
    let status = annotations.remove(keys.status);
    for key in keys.retired {
        annotations.remove(*key);
    }
    if annotations.is_empty() && before > 0 {
        metadata.remove("annotations");
    }
    let mut saved = spec.as_ref().and_then(Value::as_str).and_then(read_spec);
    if let Some(status) = status.as_ref().and_then(Value::as_str).and_then(read_object) {
        saved.get_or_insert_default().sparse.insert("status".to_owned(), Value::Object(status));
    }
    saved
}

fn read_object(text: &str) -> Option<Object> {
    serde_json::from_str(text).ok()
}

pub(super) fn read_spec(text: &str) -> Option<Saved> {
    let mut envelope = read_object(text)?;
    // The first payloads of the upstream operator were the spec alone.
    let spec = envelope.remove("spec").unwrap_or_else(|| Value::Object(envelope.clone()));
    let Value::Object(mut spec) = spec else { return None };
    let marker = |raw: &Value| raw["path"] == NO_SERVICE_NAME && raw["nil"] == true;
    if list(&envelope, "rawJSON").iter().any(marker) {
        spec.insert(NO_SERVICE_NAME.to_owned(), Value::Null);
    }
    let exact = list(&envelope, "exact").iter().filter_map(Residue::from_json).collect();
    let sparse = Object::from_iter([("spec".to_owned(), Value::Object(spec))]);
    let seals = object(&envelope, "seals").into_iter().flatten();
    let seals = seals.filter_map(|(part, seal)| Some((part.clone(), seal.as_str()?.to_owned()))).collect();
    Some(Saved { sparse, exact, seals })
}

/// Writes saved data into the annotations in `metadata`.
pub(super) fn put(metadata: &mut Object, keys: &Keys, mut saved: Saved) {
    let status = saved.sparse.remove("status").filter(|status| status.as_object().is_some_and(|s| !s.is_empty()));
    let spec = saved.sparse.remove("spec").filter(Value::is_object);
    let ours = !saved.exact.is_empty() || !saved.seals.is_empty();
    if spec.is_none() && status.is_none() && !ours {
        return;
    }
    let entry = metadata.entry("annotations").or_insert_with(|| json!({}));
    if !entry.is_object() {
        *entry = json!({});
    }
    if let Value::Object(annotations) = entry {
        if let Some(status) = status {
            annotations.insert(keys.status.to_owned(), Value::String(status.to_string()));
        }
        if spec.is_some() || ours {
            let text = spec_text(spec.unwrap_or_else(|| json!({})), &saved);
            annotations.insert(keys.spec.to_owned(), Value::String(text));
        }
    }
}

/// The annotation for the spec; fields are in the order of their names.
#[derive(Serialize)]
struct Envelope<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    exact: Vec<Entry<'a>>,
    #[serde(rename = "rawJSON", skip_serializing_if = "Option::is_none")]
    raw: Option<Value>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    seals: &'a BTreeMap<String, String>,
    spec: &'a Value,
    version: u8,
}

fn spec_text(mut spec: Value, saved: &Saved) -> String {
    let unnamed = spec.get(NO_SERVICE_NAME) == Some(&Value::Null);
    if let (true, Value::Object(spec)) = (unnamed, &mut spec) {
        spec.remove(NO_SERVICE_NAME);
    }
    let envelope = Envelope {
        exact: saved.exact.iter().map(Residue::entry).collect(),
        raw: unnamed.then(|| json!([{ "path": NO_SERVICE_NAME, "nil": true }])),
        seals: &saved.seals,
        spec: &spec,
        version: 1,
    };
    // Maps with texts for keys always have a form in JSON.
    serde_json::to_string(&envelope).unwrap_or_default()
}

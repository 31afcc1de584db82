//! Data that neither the other version nor the upstream operator's payload can express, as a list of exact places.

use serde_json::Value;

use super::value::{Object, put};
use crate::names;

/// One place in an object and its value; without a value, the place is empty.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Residue {
    /// Keys of the objects on the way to the place.
    pub path: Vec<String>,
    /// Value of the place.
    pub value: Option<Value>,
}

impl Residue {
    /// Sets the place to the value.
    pub fn apply(&self, object: &mut Object) {
        put(object, &self.path, self.value.clone());
    }

    /// The form in a payload: a JSON pointer, and the value if there is one.
    pub fn into_json(self) -> Value {
        let escape = |key: &String| format!("/{}", key.replace('~', "~0").replace('/', "~1"));
        let path: String = self.path.iter().map(escape).collect();
        let value = self.value.map(|value| ("value".to_owned(), value));
        [("path".to_owned(), Value::String(path))].into_iter().chain(value).collect()
    }

    /// Reads the form in a payload; none if it is malformed.
    pub fn from_json(value: &Value) -> Option<Self> {
        let keys = value.get("path")?.as_str()?.strip_prefix('/')?;
        let path = keys.split('/').map(|key| key.replace("~1", "/").replace("~0", "~")).collect();
        Some(Self { path, value: value.get("value").cloned() })
    }
}

/// Hash of exactly this object.
pub(super) fn seal(object: &Object) -> String {
    // Maps with texts for keys always have a form in JSON.
    names::sha256_hex(&serde_json::to_vec(object).unwrap_or_default(), 16)
}

/// The places that have to change to make `from` equal to `to`. Lists are compared as a whole.
pub(super) fn difference(from: &Object, to: &Object) -> Vec<Residue> {
    let mut found = Vec::new();
    compare(from, to, &mut Vec::new(), &mut found);
    found
}

fn compare(from: &Object, to: &Object, path: &mut Vec<String>, found: &mut Vec<Residue>) {
    let gone = from.keys().filter(|key| !to.contains_key(*key)).map(|key| (key, None));
    let there = to.iter().map(|(key, value)| (key, Some(value)));
    for (key, value) in there.chain(gone) {
        path.push(key.clone());
        match (from.get(key), value) {
            (Some(before), Some(value)) if before == value => {}
            (Some(Value::Object(before)), Some(Value::Object(value))) => compare(before, value, path, found),
            (_, value) => found.push(Residue { path: path.clone(), value: value.cloned() }),
        }
        path.pop();
    }
}

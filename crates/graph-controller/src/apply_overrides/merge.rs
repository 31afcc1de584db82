//! Lays a part of an object over the whole.

use serde_json::Value;

use super::lists::{List, below, is_atomic, list};

/// What a port has unless it says otherwise.
const PROTOCOL: (&str, &str) = ("protocol", "TCP");

/// Merges `part` into `whole`, which is at `path`.
pub(super) fn merge(whole: &mut Value, part: &Value, path: &str) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) if !is_atomic(path) => {
            for (key, value) in part {
                match whole.get_mut(key) {
                    Some(known) => merge(known, value, &below(path, key)),
                    None => drop(whole.insert(key.clone(), value.clone())),
                }
            }
        }
        (Value::Array(whole), Value::Array(part)) => match list(path) {
            List::Keyed(keys) => {
                for item in part {
                    match whole.iter_mut().find(|known| same(known, item, keys)) {
                        Some(known) => merge(known, item, &format!("{path}[]")),
                        None => whole.push(item.clone()),
                    }
                }
            }
            List::Set => part.iter().for_each(|item| {
                if !whole.contains(item) {
                    whole.push(item.clone());
                }
            }),
            List::Atomic => whole.clone_from(part),
        },
        (whole, part) => whole.clone_from(part),
    }
}

fn same(one: &Value, other: &Value, keys: &[&str]) -> bool {
    let (protocol, default) = (PROTOCOL.0, Value::from(PROTOCOL.1));
    keys.iter().all(|key| {
        let of = |item: &Value| item.get(*key).cloned().or_else(|| (*key == protocol).then(|| default.clone()));
        of(one) == of(other)
    })
}

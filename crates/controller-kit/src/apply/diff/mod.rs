//! Compares the desired with the live object, leaf by leaf, as the API server would.
//!
//! Fields that only the live object has are not ours and do not count. The API server fills in defaults and rewrites
//! some values to a canonical form; both must not look like a difference, or every reconcile would write.

#[cfg(test)]
mod tests;

use api_types::quantity::nanos;
use serde_json::{Map, Value};

/// Object fields that identify a list element, in the order they are tried; the first one that an element has counts.
///
/// `mountPath` and `uid` come before `name`: one volume can be mounted twice, and owners of different kinds share
/// names.
const ELEMENT_KEYS: &[&str] = &[
    "mountPath",
    "devicePath",
    "containerPort",
    "port",
    "uid",
    "name",
    "key",
    "topologyKey",
    "ip",
    "type",
    "conditionType",
];

/// Fields whose values are quantities, wherever they are.
const QUANTITY_FIELDS: &[&str] =
    &["sizeLimit", "storage", "capacity", "cpu", "memory", "ephemeral-storage", "divisor", "averageValue"];

/// Fields whose members are all quantities.
const QUANTITY_MAPS: &[&str] = &["limits", "requests"];

/// Lists of plain values to which others may add.
const SETS: &[&str] = &["finalizers"];

/// Fields that mean `true` where they are absent, so that `false` is a choice.
const TRUE_IF_ABSENT: &[&str] = &["allowPrivilegeEscalation", "automountServiceAccountToken", "enableServiceLinks"];

/// True when every leaf of `desired` is present in `live` with an equal value.
///
/// `null`, `""`, `false`, `0`, `[]` and `{}` in `desired` equal an absent field, `false` only where absent means that.
/// Lists of equal length are compared by position, others by the element's identity. Quantities are compared by value,
/// and `8080` equals `"8080"`.
pub fn includes(live: &Value, desired: &Value) -> bool {
    semantic_diff(live, desired).is_empty()
}

/// One leaf of the desired object that the live one does not have, or has with another value.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Path of the field, for example `spec.template.spec.containers[0].image`.
    pub path: String,
    /// Live value of the field; `None` if there is none.
    pub live: Option<Value>,
}

/// All leaves of `desired` that `live` does not hold. See [`includes`].
pub fn semantic_diff(live: &Value, desired: &Value) -> Vec<Difference> {
    let mut walk = Walk { path: Vec::new(), found: Vec::new() };
    walk.value(Some(live), desired, false);
    walk.found
}

struct Walk {
    path: Vec<String>,
    found: Vec<Difference>,
}

impl Walk {
    /// `quantity` says that leaves found here are quantities.
    fn value(&mut self, live: Option<&Value>, desired: &Value, quantity: bool) {
        match (live, desired) {
            (None | Some(Value::Null), desired) if is_empty(desired) => {}
            (Some(Value::Object(live)), Value::Object(desired)) => self.object(live, desired, quantity),
            (Some(Value::Array(live)), Value::Array(desired)) => self.array(live, desired),
            (Some(live), desired) if same_leaf(live, desired, quantity) => {}
            (live, _) => self.add(live),
        }
    }

    fn object(&mut self, live: &Map<String, Value>, desired: &Map<String, Value>, quantity: bool) {
        for (field, element) in desired {
            let below = quantity || QUANTITY_FIELDS.contains(&field.as_str());
            let below = below || QUANTITY_MAPS.contains(&field.as_str());
            self.path.push(if self.path.is_empty() { field.clone() } else { format!(".{field}") });
            let found = live.get(field).filter(|found| !found.is_null());
            if found.is_none() && *element == Value::Bool(false) && TRUE_IF_ABSENT.contains(&field.as_str()) {
                self.add(None);
            } else {
                self.value(live.get(field), element, below);
            }
            self.path.pop();
        }
    }

    fn array(&mut self, live: &[Value], desired: &[Value]) {
        let by_position = live.len() == desired.len() && !self.in_set();
        for (index, element) in desired.iter().enumerate() {
            let found = if by_position { live.get(index) } else { self.counterpart(live, element) };
            self.path.push(format!("[{index}]"));
            match found {
                Some(found) => self.value(Some(found), element, false),
                None => self.add(None),
            }
            self.path.pop();
        }
        // A list that should be empty and is not: nothing of it is ours, unless its elements have no identity.
        if desired.is_empty() && live.iter().any(|item| !item.is_object()) && !self.in_set() {
            self.add(Some(&Value::Array(live.to_vec())));
        }
    }

    /// The live counterpart of `element` in a list of another length.
    fn counterpart<'a>(&self, live: &'a [Value], element: &Value) -> Option<&'a Value> {
        match element {
            Value::Object(fields) => {
                let key = ELEMENT_KEYS.iter().find(|key| fields.contains_key(**key))?;
                live.iter().find(|item| {
                    item.get(*key).is_some_and(|id| same_leaf(id, &fields[*key], false))
                        && protocol(item) == protocol(element)
                })
            }
            // Lists of plain values belong to one owner as a whole: another length is another list.
            plain if self.in_set() => live.iter().find(|item| *item == plain),
            _ => None,
        }
    }

    fn in_set(&self) -> bool {
        self.path.last().is_some_and(|last| SETS.contains(&last.trim_start_matches('.')))
    }

    fn add(&mut self, live: Option<&Value>) {
        self.found.push(Difference { path: self.path.concat(), live: live.cloned() });
    }
}

/// Ports differ by protocol too, which defaults to TCP.
fn protocol(element: &Value) -> &str {
    element.get("protocol").and_then(Value::as_str).unwrap_or("TCP")
}

fn same_leaf(live: &Value, desired: &Value, quantity: bool) -> bool {
    if live == desired || (is_empty(live) && is_empty(desired)) {
        return true;
    }
    if let (Value::Number(live), Value::Number(desired)) = (live, desired) {
        // `1.0` comes back as `1`.
        return live.as_f64() == desired.as_f64() && (live.is_f64() || desired.is_f64());
    }
    let (Some(live), Some(desired)) = (leaf_text(live), leaf_text(desired)) else { return false };
    live == desired || quantity && nanos(live.trim()).is_some_and(|live| nanos(desired.trim()) == Some(live))
}

/// Numbers and strings as text, so that an int-or-string compares by what it says.
fn leaf_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// True for the values that mean the same as an absent field.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        // Blocks of nothing but empty blocks are dropped on the way, too; a zero or `false` inside one is a choice.
        Value::Object(fields) => fields.values().all(|v| !v.is_boolean() && !v.is_number() && is_empty(v)),
    }
}

//! A value together with its path, for violations.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{FieldPath, Segment};

static ABSENT: Value = Value::Null;

/// A place in an object and what stands there. Null and nothing are the same: the API server drops nulls, and people
/// write them for "not set".
#[derive(Debug, Clone)]
pub(in crate::admission) struct Node<'a> {
    path: FieldPath,
    value: &'a Value,
}

impl<'a> Node<'a> {
    /// The object itself.
    pub(in crate::admission) fn root(object: &'a Value) -> Self {
        Self { path: FieldPath::default(), value: object }
    }

    /// Where it is.
    pub(in crate::admission) fn path(&self) -> &FieldPath {
        &self.path
    }

    /// What stands there; null if nothing does.
    pub(in crate::admission) fn value(&self) -> &'a Value {
        self.value
    }

    /// The field of that name.
    pub(in crate::admission) fn field(&self, name: &str) -> Self {
        self.below(Segment::Field(name.to_owned()), self.value.get(name))
    }

    /// The field at the end of several names.
    pub(in crate::admission) fn fields(&self, names: &[&str]) -> Self {
        names.iter().fold(self.clone(), |node, name| node.field(name))
    }

    /// The entry of a map with that key.
    pub(in crate::admission) fn key(&self, key: &str) -> Self {
        self.below(Segment::Key(key.to_owned()), self.value.get(key))
    }

    /// The entries of a map, sorted by key.
    pub(in crate::admission) fn entries(&self) -> impl Iterator<Item = (&'a str, Self)> + '_ {
        let entries: BTreeMap<&str, &Value> =
            self.value.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value)).collect();
        entries.into_iter().map(|(key, value)| (key, self.below(Segment::Key(key.to_owned()), Some(value))))
    }

    /// The items of a list.
    pub(in crate::admission) fn items(&self) -> impl Iterator<Item = Self> + '_ {
        self.value.as_array().into_iter().flatten().enumerate().map(|(index, value)| {
            let name = value.get("name").and_then(Value::as_str).map(ToOwned::to_owned);
            self.below(Segment::Item { index, name }, Some(value))
        })
    }

    /// The item of a list that has this name.
    pub(in crate::admission) fn named(&self, name: &str) -> Option<Self> {
        self.items().find(|item| item.field("name").text() == name)
    }

    /// The node at the end of a path in which items stand by their names or positions: `a.b[name].c[key]`.
    pub(in crate::admission) fn at(&self, path: &str) -> Self {
        let (mut node, mut rest) = (self.clone(), path.trim_start_matches('.'));
        while !rest.is_empty() {
            if let Some((key, after)) = rest.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
                let item = || node.named(key).or_else(|| node.items().nth(key.parse().ok()?));
                node = if node.value.is_array() { item().unwrap_or(node) } else { node.key(key) };
                rest = after.trim_start_matches('.');
            } else {
                let end = rest.char_indices().skip(1).find(|(_, c)| matches!(c, '.' | '['));
                let end = end.map_or(rest.len(), |(at, _)| at);
                node = node.field(&rest[..end]);
                rest = rest[end..].trim_start_matches('.');
            }
        }
        node
    }

    /// Whether anything stands there.
    pub(in crate::admission) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// The text there; empty if there is none.
    pub(in crate::admission) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    /// The text there, if there is one.
    pub(in crate::admission) fn given(&self) -> Option<&'a str> {
        self.value.as_str()
    }

    /// The whole number there.
    pub(in crate::admission) fn number(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// Whether it is the boolean `true`.
    pub(in crate::admission) fn is_true(&self) -> bool {
        self.value == &Value::Bool(true)
    }

    /// Whether a list or map holds anything.
    pub(in crate::admission) fn has_entries(&self) -> bool {
        match self.value {
            Value::Array(items) => !items.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            _ => false,
        }
    }

    /// What stands there as a type of the API; `None` if it is no such thing.
    pub(in crate::admission) fn parse<T: DeserializeOwned>(&self) -> Option<T> {
        T::deserialize(self.value).ok()
    }

    /// The quantity there, which may also be written as a number.
    pub(in crate::admission) fn quantity(&self) -> Option<String> {
        match self.value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    fn below(&self, segment: Segment, value: Option<&'a Value>) -> Self {
        Self { path: self.path.join(segment), value: value.unwrap_or(&ABSENT) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn items_are_found_by_name_and_by_position_and_entries_by_key() {
        let object = json!({ "a": [{ "name": "x.y", "b": { "c.d/e": 1 } }, { "b": ["f", "g"] }] });
        for (path, at, value) in [
            ("a[x.y].b[c.d/e]", "a[0].b[c.d/e]", json!(1)),
            ("a[1].b[1]", "a[1].b[1]", json!("g")),
            ("a[1].z.y", "a[1].z.y", json!(null)),
            ("[", "[", json!(null)),
            ("", "", object.clone()),
        ] {
            let node = Node::root(&object).at(path);
            assert_eq!((node.path().to_string().as_str(), node.value()), (at, &value), "{path}");
        }
    }
}

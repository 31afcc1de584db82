//! A value together with its path, so that whoever finds a violation can say where.

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

//! Fields of an object: their paths, their values together with these paths, and the violations in them.

use std::fmt;

use api_types::{typed::typed, violations::Violation};
use rendering::rules::{Findings, Warning};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The most violations of one object that are reported.
pub(super) const MOST: usize = 200;

/// Findings of the rules in an object.
pub(super) type FieldFindings = Findings<FieldPath>;

/// Findings of the typed rules in an object.
pub(super) fn located(object: &Value, found: Findings) -> FieldFindings {
    let root = FieldNode::root(object);
    let violations = found.violations.into_iter().take(MOST).map(|violation| root.locate(violation)).collect();
    let warning = |Warning { path, text }: Warning| Warning { path: root.at(&path).path, text };
    FieldFindings { violations, warnings: found.warnings.into_iter().map(warning).collect() }
}

static ABSENT: Value = Value::Null;

/// A place in an object and its value. Null and nothing are the same: the API server drops nulls, and people
/// write them for "not set".
#[derive(Debug, Clone)]
pub(super) struct FieldNode<'a> {
    pub(super) path: FieldPath,
    /// Null if there is none.
    pub(super) value: &'a Value,
}

impl<'a> FieldNode<'a> {
    /// The object itself.
    pub(super) fn root(object: &'a Value) -> Self {
        Self { path: FieldPath::default(), value: object }
    }

    /// The field of that name.
    pub(super) fn field(&self, name: &str) -> Self {
        self.below(Segment::Field(name.to_owned()), self.value.get(name))
    }

    /// The field at the end of several names.
    pub(super) fn fields(&self, names: &[&str]) -> Self {
        names.iter().fold(self.clone(), |node, name| node.field(name))
    }

    /// The entry of a map with that key.
    pub(super) fn key(&self, key: &str) -> Self {
        self.below(Segment::Key(key.to_owned()), self.value.get(key))
    }

    /// The entries of a map, sorted by key.
    pub(super) fn entries(&self) -> impl Iterator<Item = Self> + '_ {
        self.value.as_object().into_iter().flatten().map(|(key, _)| self.key(key))
    }

    /// The items of a list.
    pub(super) fn items(&self) -> impl Iterator<Item = Self> + '_ {
        self.value.as_array().into_iter().flatten().enumerate().map(|(index, value)| {
            let name = value.get("name").and_then(Value::as_str).map(ToOwned::to_owned);
            self.below(Segment::Item { index, name }, Some(value))
        })
    }

    /// The item of a list that has this name.
    pub(super) fn named(&self, name: &str) -> Option<Self> {
        self.items().find(|item| item.field("name").text() == name)
    }

    /// The node at the end of a path in which items are given by their names or positions: `a.b[name].c[key]`.
    pub(super) fn at(&self, path: &str) -> Self {
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

    /// A violation that a typed rule has found below this node; its value is as the user wrote it.
    pub(super) fn locate(&self, violation: Violation) -> Violation<FieldPath> {
        let at = self.at(&violation.path);
        let value = if violation.value.is_null() { Value::Null } else { at.value.clone() };
        Violation { value, ..violation.at(|_| at.path) }
    }

    /// Whether it has a value.
    pub(super) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// The text there; empty if there is none.
    pub(super) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    /// Whether it is the boolean `true`.
    pub(super) fn is_true(&self) -> bool {
        self.value == &Value::Bool(true)
    }

    /// Parses the value as a type of the API; `None` if it is not of that type.
    pub(super) fn parse<T: DeserializeOwned>(&self) -> Option<T> {
        typed(self.value.clone()).ok()
    }

    fn below(&self, segment: Segment, value: Option<&'a Value>) -> Self {
        Self { path: self.path.join(segment), value: value.unwrap_or(&ABSENT) }
    }
}

impl From<&FieldNode<'_>> for FieldPath {
    fn from(node: &FieldNode<'_>) -> Self {
        node.path.clone()
    }
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Segment {
    /// A field that the API names: `.spec`.
    Field(String),
    /// An entry of a map, whose key the user chose: `[my-key]`.
    Key(String),
    /// An item of a list: `[0]`.
    Item {
        /// Position.
        index: usize,
        /// Its `name`, if it has one. Lists of the API may be sorted anew; the name identifies an item in every order.
        name: Option<String>,
    },
}

/// The path of a field within its object, written as the API server writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldPath(pub(super) Vec<Segment>);

impl FieldPath {
    /// A path of named fields.
    pub(super) fn fields(names: &[&str]) -> Self {
        Self(names.iter().map(|name| Segment::Field((*name).to_owned())).collect())
    }

    /// One step further.
    pub(super) fn join(&self, segment: Segment) -> Self {
        let mut segments = self.0.clone();
        segments.push(segment);
        Self(segments)
    }

    /// Whether the path begins with this field.
    pub(super) fn is_below(&self, field: &str) -> bool {
        matches!(self.0.first(), Some(Segment::Field(first)) if first == field)
    }

    /// Whether both lead to the same place, in whatever order lists are.
    pub(super) fn is_same_place(&self, other: &Self) -> bool {
        let same = |(one, other): (&Segment, &Segment)| match (one, other) {
            (Segment::Item { name: Some(one), .. }, Segment::Item { name: Some(other), .. }) => one == other,
            (one, other) => one == other,
        };
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(same)
    }

    /// The path without its last step, and that step, if it is a field.
    pub(super) fn split_last(&self) -> Option<(Self, &str)> {
        let (Segment::Field(name), parent) = self.0.split_last()? else { return None };
        Some((Self(parent.to_vec()), name))
    }

    /// Returns the value at this path in `object`, to be changed. Items are found by their position.
    pub(super) fn find_mut<'v>(&self, object: &'v mut Value) -> Option<&'v mut Value> {
        self.0.iter().try_fold(object, |value, segment| match segment {
            Segment::Field(key) | Segment::Key(key) => value.get_mut(key),
            Segment::Item { index, .. } => value.get_mut(index),
        })
    }

    /// Returns the value at this path in `object`.
    pub(super) fn find<'v>(&self, object: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(object, |value, segment| match segment {
            Segment::Field(key) | Segment::Key(key) => value.get(key),
            Segment::Item { name: Some(name), .. } => {
                value.as_array()?.iter().find(|item| item.get("name").and_then(Value::as_str) == Some(name))
            }
            Segment::Item { index, name: None } => value.get(index),
        })
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Field(name) if position == 0 => f.write_str(name)?,
                Segment::Field(name) => write!(f, ".{name}")?,
                Segment::Key(key) => write!(f, "[{key}]")?,
                Segment::Item { index, .. } => write!(f, "[{index}]")?,
            }
        }
        Ok(())
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
            let node = FieldNode::root(&object).at(path);
            assert_eq!((node.path.to_string().as_str(), node.value), (at, &value), "{path}");
        }
    }

    fn item(index: usize, name: &str) -> Segment {
        Segment::Item { index, name: Some(name.to_owned()) }
    }

    #[test]
    fn paths_read_as_those_of_the_api_server() {
        let path = FieldPath::fields(&["metadata", "annotations"]).join(Segment::Key("a.b/c".to_owned()));
        assert_eq!(path.to_string(), "metadata.annotations[a.b/c]");
        assert_eq!(FieldPath::fields(&["spec", "components"]).join(item(2, "a")).to_string(), "spec.components[2]");
    }

    #[test]
    fn named_items_are_found_in_every_order() {
        let path = FieldPath::fields(&["list"]).join(item(0, "b"));
        assert_eq!(path.find(&json!({ "list": [{ "name": "a" }, { "name": "b", "x": 1 }] })).unwrap()["x"], 1);
        assert_eq!(path.find(&json!({ "list": [{ "name": "a" }] })), None);
        assert!(path.is_same_place(&FieldPath::fields(&["list"]).join(item(1, "b"))));
        assert!(!path.is_same_place(&FieldPath::fields(&["list"]).join(item(0, "a"))));
    }
}

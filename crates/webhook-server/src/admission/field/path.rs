//! Where a field is.

use std::fmt;

use serde_json::Value;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::admission) enum Segment {
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
pub(in crate::admission) struct FieldPath(Vec<Segment>);

impl FieldPath {
    /// A path of these steps.
    pub(in crate::admission) fn of(segments: Vec<Segment>) -> Self {
        Self(segments)
    }

    /// A path of named fields.
    pub(in crate::admission) fn fields(names: &[&str]) -> Self {
        Self(names.iter().map(|name| Segment::Field((*name).to_owned())).collect())
    }

    /// The steps.
    pub(in crate::admission) fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// One step further.
    pub(in crate::admission) fn join(&self, segment: Segment) -> Self {
        let mut segments = self.0.clone();
        segments.push(segment);
        Self(segments)
    }

    /// Whether the path begins with this field.
    pub(in crate::admission) fn is_below(&self, field: &str) -> bool {
        matches!(self.0.first(), Some(Segment::Field(first)) if first == field)
    }

    /// Whether both lead to the same place, in whatever order lists are.
    pub(in crate::admission) fn is_same_place(&self, other: &Self) -> bool {
        let same = |(one, other): (&Segment, &Segment)| match (one, other) {
            (Segment::Item { name: Some(one), .. }, Segment::Item { name: Some(other), .. }) => one == other,
            (one, other) => one == other,
        };
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(same)
    }

    /// The path without its last step, and that step, if it is a field.
    pub(in crate::admission) fn split_last(&self) -> Option<(Self, &str)> {
        match self.0.split_last() {
            Some((Segment::Field(name), parent)) => Some((Self(parent.to_vec()), name)),
            _ => None,
        }
    }

    /// What stands there in `object`, to be changed. Items are found by their position.
    pub(in crate::admission) fn find_mut<'v>(&self, object: &'v mut Value) -> Option<&'v mut Value> {
        self.0.iter().try_fold(object, |value, segment| match segment {
            Segment::Field(key) | Segment::Key(key) => value.get_mut(key),
            Segment::Item { index, .. } => value.get_mut(index),
        })
    }

    /// What stands there in `object`.
    pub(in crate::admission) fn find<'v>(&self, object: &'v Value) -> Option<&'v Value> {
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

//! Defaults of a DynamoComponentDeployment.

use serde_json::Value;

use super::object_at;
use crate::admission::field::Node;

/// A component on its own has the name of its object.
pub(super) fn fill(object: &mut Value) {
    let root = Node::root(object);
    let name = root.fields(&["metadata", "name"]).text().to_owned();
    if name.is_empty() || !root.fields(&["spec", "name"]).text().is_empty() {
        return;
    }
    if let Some(spec) = object_at(object, &["spec"]) {
        spec.insert("name".to_owned(), Value::String(name));
    }
}

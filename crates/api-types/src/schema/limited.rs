//! Budgets of the schemas of specs: each list, map and text of our own types has a maximum, the one in [`limits`]
//! unless the type says another; each number must have one. Kubernetes' types keep the limits that Kubernetes gives
//! them, and the limit of the whole object covers what has no schema.

use serde_json::{Map, Value};

use super::SchemaError;
use crate::limits;

/// Adds the budgets to a schema as schemars writes it, in which Kubernetes' types are still references.
///
/// # Errors
/// [`SchemaError::Unlimited`] for a number without `maximum`.
pub(super) fn add_limits(schema: &mut Value, path: &str) -> Result<(), SchemaError> {
    let Value::Object(schema) = schema else { return Ok(()) };
    if is(schema, "array") {
        schema.entry("maxItems").or_insert(limits::ITEMS.into());
    }
    if schema.get("additionalProperties").is_some_and(Value::is_object) {
        schema.entry("maxProperties").or_insert(limits::ITEMS.into());
    }
    let is_free_text =
        is(schema, "string") && !["enum", "const", "format"].iter().any(|word| schema.contains_key(*word));
    if is_free_text {
        schema.entry("maxLength").or_insert(limits::TEXT.into());
    }
    if (is(schema, "integer") || is(schema, "number")) && !schema.contains_key("maximum") {
        return Err(SchemaError::Unlimited(path.to_owned()));
    }
    for (keyword, step) in [("items", "[]"), ("additionalProperties", "{}")] {
        schema.get_mut(keyword).map_or(Ok(()), |inner| add_limits(inner, &format!("{path}{step}")))?;
    }
    for (name, property) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        add_limits(property, &format!("{path}.{name}"))?;
    }
    let branches = schema.get_mut("anyOf").and_then(Value::as_array_mut);
    branches.into_iter().flatten().try_for_each(|branch| add_limits(branch, path))
}

fn is(schema: &Map<String, Value>, wanted: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == wanted,
        Some(Value::Array(several)) => several.iter().any(|one| one == wanted),
        _ => false,
    }
}

//! Edits of schemas: the budgets of specs, and where a kind differs from the types that it shares with others.
//!
//! Each list, map and text of our own types has a maximum, the one in [`limits`] unless the type says another; each
//! number must have one. Kubernetes' types keep the limits that Kubernetes gives them, and the limit of the whole
//! object covers what has no schema.

use serde_json::{Map, Value};

use super::SchemaError;
use crate::limits;

/// The schema of the field at `path`, such as `spec.containers[].image`; `[]` means the items of a
/// list, `{}` for the values of a map.
///
/// # Errors
/// [`SchemaError::Missing`] if there is no such field.
pub fn property<'a>(schema: &'a mut Value, path: &str) -> Result<&'a mut Value, SchemaError> {
    let missing = || SchemaError::Missing(path.to_owned());
    let mut at = schema;
    for step in path.split('.') {
        let inner = [("[]", "items"), ("{}", "additionalProperties")];
        let inner = inner.into_iter().find_map(|(suffix, key)| Some((step.strip_suffix(suffix)?, key)));
        let (name, inner) = inner.map_or((step, None), |(name, key)| (name, Some(key)));
        at = at.get_mut("properties").and_then(|p| p.get_mut(name)).ok_or_else(missing)?;
        if let Some(key) = inner {
            at = at.get_mut(key).ok_or_else(missing)?;
        }
    }
    Ok(at)
}

/// Takes the field `name` out of `schema`, a schema of an object.
///
/// # Errors
/// [`SchemaError::Missing`] if there is no such field.
pub fn remove_property(schema: &mut Value, name: &str) -> Result<(), SchemaError> {
    let removed = schema.get_mut("properties").and_then(Value::as_object_mut).and_then(|p| p.remove(name));
    removed.map(drop).ok_or_else(|| SchemaError::Missing(name.to_owned()))
}

/// Takes the keyword `limit` off the schema of the field at `path`.
///
/// # Errors
/// [`SchemaError::Missing`] if there is no such field, or it has no such limit.
pub fn remove_limit(schema: &mut Value, path: &str, limit: &str) -> Result<(), SchemaError> {
    let removed = property(schema, path)?.as_object_mut().and_then(|field| field.remove(limit));
    removed.map(drop).ok_or_else(|| SchemaError::Missing(format!("{limit} of {path}")))
}

/// Makes the required field `name` of `schema` optional.
///
/// # Errors
/// [`SchemaError::Missing`] if there is no such required field.
pub fn make_optional(schema: &mut Value, name: &str) -> Result<(), SchemaError> {
    let missing = || SchemaError::Missing(format!("required {name}"));
    let object = schema.as_object_mut().ok_or_else(missing)?;
    let required = object.get_mut("required").and_then(Value::as_array_mut).ok_or_else(missing)?;
    let at = required.iter().position(|field| field == name).ok_or_else(missing)?;
    required.remove(at);
    if required.is_empty() {
        object.remove("required");
    }
    Ok(())
}

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

fn is(schema: &Map<String, Value>, type_: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == type_,
        Some(Value::Array(several)) => several.iter().any(|one| one == type_),
        _ => false,
    }
}

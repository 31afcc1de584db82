//! Edits of finished schemas, where a kind differs from the types that it shares with others.

use serde_json::Value;

use super::SchemaError;

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

//! From the schema of a Rust type to the structural schema of a CustomResourceDefinition.
//!
//! schemars writes JSON Schema of 2020; the API server takes a part of OpenAPI 3.0. Where our types differ:
//!
//! | schemars | structural | why |
//! |---|---|---|
//! | `type: [string, null]`, `anyOf: [T, null]` | `T` | an optional field is absent, never `null` |
//! | `oneOf` of constants with descriptions | `enum` | a value has no place for a description; it goes to the field's |
//! | `$ref` to Kubernetes' types | the definition | a structural schema has no references |
//! | `title`, `$schema` | – | no effect |
//!
//! Whatever else is not structural is an error, so that nothing of a type gets lost on the way.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value};

use super::{SchemaError, edit, kubernetes::Definitions};

/// The schema of `T` as schemars writes it, under the name of the type.
pub fn schema_of<T: JsonSchema>() -> (String, Value) {
    let settings = SchemaSettings::draft2020_12().with(|s| {
        s.inline_subschemas = true;
        s.meta_schema = None;
    });
    (T::schema_name().into_owned(), settings.into_generator().into_root_schema_for::<T>().to_value())
}

/// The structural schema of what `schema` describes; its name is for errors.
///
/// # Errors
/// If it has something that structural schemas cannot express, or refers to an unknown definition.
pub fn structural((name, schema): (String, Value), definitions: &Definitions) -> Result<Value, SchemaError> {
    convert(schema, &name, definitions)
}

/// Structural schema of a spec, with the budgets of [`limits`](crate::limits).
///
/// # Errors
/// The same; and a number without a maximum.
pub fn structural_spec((name, mut schema): (String, Value), definitions: &Definitions) -> Result<Value, SchemaError> {
    edit::add_limits(&mut schema, &name)?;
    convert(schema, &name, definitions)
}

/// Converts one schema and all within it; `path` names it in errors.
fn convert(schema: Value, path: &str, definitions: &Definitions) -> Result<Value, SchemaError> {
    let Value::Object(mut schema) = without_null(schema) else {
        return Err(SchemaError::unsupported(path, "a schema that allows everything or nothing", &Value::Null));
    };
    let mut out = match schema.remove("$ref") {
        Some(Value::String(reference)) => as_object(definitions.resolve(&reference, path)?),
        _ => Map::new(),
    };
    for (keyword, value) in with_enum(schema) {
        let value = match keyword.as_str() {
            "title" | "$schema" => continue,
            "type" | "format" | "default" | "enum" | "required" => value,
            "minimum" | "maximum" | "minLength" | "maxLength" | "minItems" | "maxItems" | "pattern" => value,
            "maxProperties" => value,
            "description" => unwrapped(&value),
            "items" => convert(value, &format!("{path}[]"), definitions)?,
            "additionalProperties" => convert(value, &format!("{path}{{}}"), definitions)?,
            "properties" => convert_properties(value, path, definitions)?,
            other if other.starts_with("x-kubernetes-") => value,
            other => return Err(SchemaError::unsupported(path, other, &value)),
        };
        out.insert(keyword, value);
    }
    Ok(Value::Object(out))
}

fn convert_properties(properties: Value, path: &str, definitions: &Definitions) -> Result<Value, SchemaError> {
    let converted = as_object(properties).into_iter().map(|(name, property)| {
        let property = convert(property, &format!("{path}.{name}"), definitions)?;
        Ok((name, property))
    });
    converted.collect::<Result<Map<_, _>, _>>().map(Value::Object)
}

/// Takes `null` out of what a schema allows.
fn without_null(schema: Value) -> Value {
    let Value::Object(mut schema) = schema else { return schema };
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|t| t != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|v| !v.is_null());
    }
    if let Some(Value::Array(branches)) = schema.get_mut("anyOf") {
        branches.retain(|b| b.get("type").is_none_or(|t| t != "null"));
        if let [only] = branches.as_slice() {
            let mut only = as_object(only.clone());
            schema.remove("anyOf");
            only.extend(schema);
            return Value::Object(only);
        }
    }
    Value::Object(schema)
}

/// Makes one `enum` of the variants of a Rust enum, and a list at the end of the description of what they mean.
fn with_enum(mut schema: Map<String, Value>) -> Map<String, Value> {
    let Some(Value::Array(variants)) = schema.get("oneOf") else { return schema };
    let mut values = Vec::new();
    let mut meanings = String::new();
    for variant in variants {
        match (variant.get("const"), variant.get("enum").and_then(Value::as_array)) {
            (Some(value), _) => {
                if let (Some(value), Some(meaning)) = (value.as_str(), variant["description"].as_str()) {
                    meanings.push_str(&format!("\n- `{value}`: {meaning}"));
                }
                values.push(value.clone());
            }
            (None, Some(several)) => values.extend(several.iter().cloned()),
            // Not an enum of plain values: left as it is, for `convert` to refuse.
            (None, None) => return schema,
        }
    }
    let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let description = format!("{description}\n{meanings}");
    schema.remove("oneOf");
    schema.insert("type".to_owned(), "string".into());
    schema.insert("enum".to_owned(), values.into());
    schema.insert("description".to_owned(), description.trim().into());
    schema
}

/// A description without the line breaks of the source; paragraphs and lists stay.
fn unwrapped(description: &Value) -> Value {
    let mut text = String::new();
    for line in description.as_str().unwrap_or_default().lines() {
        match (line.is_empty(), line.starts_with("- "), text.is_empty() || text.ends_with('\n')) {
            (true, ..) => text.push_str("\n\n"),
            (_, true, false) => text.push('\n'),
            (_, false, false) => text.push(' '),
            (_, _, true) => {}
        }
        text.push_str(line);
    }
    text.into()
}

fn as_object(value: Value) -> Map<String, Value> {
    if let Value::Object(object) = value { object } else { Map::new() }
}

//! CustomResourceDefinitions as YAML files.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

const HEADER: &str = "# Generated from the types in crates/api-types by `cargo xtask crds generate`. Do not edit.\n";

/// A CustomResourceDefinition that cannot be written as YAML.
#[derive(Debug, thiserror::Error)]
pub enum YamlError {
    /// It is not even JSON.
    #[error("CustomResourceDefinition cannot be serialised: {0}")]
    Json(#[from] serde_json::Error),
    /// The YAML writer fails.
    #[error("CustomResourceDefinition cannot be written as YAML: {0}")]
    Yaml(#[from] serde_saphyr::ser::Error),
}

/// `crd` as a YAML document, with a header that says where it comes from.
///
/// # Errors
/// If it cannot be serialised.
pub fn to_yaml(crd: &CustomResourceDefinition) -> Result<String, YamlError> {
    let mut value = serde_json::to_value(crd)?;
    whole_numbers(&mut value);
    Ok(format!("{HEADER}---\n{}", serde_saphyr::to_string(&value)?))
}

/// Limits are floating point numbers in the API; a `minimum: 1` should not read `1.0`.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < f64::from(i32::MAX));
            if let (true, Some(whole)) = (number.is_f64(), whole) {
                *value = Value::from(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

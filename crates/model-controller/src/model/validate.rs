//! Validates the spec of a model.

use api_types::{
    v1alpha1::{DynamoModelSpec, ModelSource, ModelType},
    violations::{self, Reason, Violation},
};
use serde_json::Value;

use crate::engine::{AdapterName, AdapterSource};

/// Validates the spec. Returns name and source of the adapter to load on every worker; `None` if the workers serve the
/// model as they are.
///
/// # Errors
/// All violations in one message, each with field and remedy. A source is never repeated, because it may contain
/// credentials.
pub fn validate(spec: &DynamoModelSpec) -> Result<Option<(AdapterName, AdapterSource)>, String> {
    let is_adapter = spec.model_type == ModelType::Lora;
    let uri = spec.source.as_ref().map(|source| source.uri.trim()).filter(|_| is_adapter);
    let required = |path, text: &str| Violation::of_text(path, Reason::Required, Value::Null, text);
    let mut found: Vec<Violation> = Vec::new();
    if spec.model_name.trim().is_empty() {
        found.push(required("spec.modelName", violations::MODEL_NAME));
    }
    if spec.base_model_name.trim().is_empty() {
        found.push(required("spec.baseModelName", violations::BASE_MODEL_NAME));
    }
    match uri {
        None | Some("") if is_adapter => found.push(required("spec.source.uri", &violations::source())),
        Some(uri) if !ModelSource::SCHEMES.iter().any(|scheme| uri.starts_with(scheme)) => {
            found.push(Violation::of_text("spec.source.uri", Reason::Invalid, Value::Null, &violations::scheme()));
        }
        _ => {}
    }
    if !found.is_empty() {
        return Err(found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
    }
    Ok(uri.map(|uri| (spec.model_name.as_str().into(), uri.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(model_type: ModelType, uri: Option<&str>) -> DynamoModelSpec {
        DynamoModelSpec {
            model_name: "org/adapter".into(),
            base_model_name: "org/base".into(),
            model_type,
            source: uri.map(|uri| ModelSource { uri: uri.into() }),
        }
    }

    #[test]
    fn only_lora_models_are_loaded() {
        for model_type in [ModelType::Base, ModelType::Adapter] {
            assert_eq!(validate(&spec(model_type, Some("nonsense"))), Ok(None));
        }
        for uri in ["s3://b/a", "hf://o/a@main", "file:///a"] {
            let adapter = (AdapterName::from("org/adapter"), AdapterSource::from(uri));
            assert_eq!(validate(&spec(ModelType::Lora, Some(uri))), Ok(Some(adapter)));
        }
    }

    #[test]
    fn violations_come_all_at_once_and_without_the_source() {
        for uri in [None, Some(""), Some(" ")] {
            let message = validate(&spec(ModelType::Lora, uri)).unwrap_err();
            assert!(message.starts_with("spec.source.uri: say where the adapter is;"), "{message}");
        }
        for uri in ["https://user:secret@host/a", "file://relative-secret", "secret"] {
            let message = validate(&spec(ModelType::Lora, Some(uri))).unwrap_err();
            assert!(message.contains("is no address") && !message.contains("secret"), "{message}");
        }
        let message = validate(&DynamoModelSpec { model_type: ModelType::Lora, ..DynamoModelSpec::default() });
        assert_eq!(message.unwrap_err().lines().count(), 3);
    }
}

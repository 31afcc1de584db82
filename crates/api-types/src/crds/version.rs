//! One version of a kind: the schema of its types, in the frame that all kinds share.

use super::CrdError;
use crate::schema::{SchemaError, kubernetes::Definitions, structural::schema_of};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceValidation, JSONSchemaProps,
};
use kube::core::CustomResourceExt;
use schemars::JsonSchema;
use serde_json::{Value, json};

/// The definition of kind `K` with one version, whose spec and status are `S` and `T`. `edit` changes the schema of the
/// spec where the kind differs from its type.
pub(super) fn version<K: CustomResourceExt, S: JsonSchema, T: JsonSchema>(
    definitions: &Definitions,
    description: &str,
    columns: Vec<CustomResourceColumnDefinition>,
    edit: impl FnOnce(&mut Value) -> Result<(), SchemaError>,
) -> Result<CustomResourceDefinition, CrdError> {
    let schema = || {
        let mut spec = schema_of::<S>(definitions)?;
        edit(&mut spec)?;
        let status = schema_of::<T>(definitions)?;
        serde_json::from_value(root(description, &spec, &status)).map_err(SchemaError::Form)
    };
    let schema: JSONSchemaProps = schema().map_err(|source| CrdError::Schema { crd: K::crd_name(), source })?;
    let mut crd = K::crd();
    for version in &mut crd.spec.versions {
        version.schema = Some(CustomResourceValidation { open_api_v3_schema: Some(schema.clone()) });
        version.additional_printer_columns = Some(columns.clone());
    }
    Ok(crd)
}

fn root(description: &str, spec: &Value, status: &Value) -> Value {
    json!({
        "description": description,
        "type": "object",
        "properties": {
            "apiVersion": { "type": "string", "description": "Group and version of the API of this object." },
            "kind": { "type": "string", "description": "Kind of this object." },
            "metadata": { "type": "object" },
            "spec": spec,
            "status": status,
        },
    })
}

/// A column of `kubectl get` that shows text.
pub(super) fn column(name: &str, json_path: &str, description: &str) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: name.to_owned(),
        type_: "string".to_owned(),
        json_path: json_path.to_owned(),
        description: Some(description.to_owned()),
        ..Default::default()
    }
}

/// The column of `kubectl get` that shows the engine family; the same for graphs and components.
pub(super) fn backend_column() -> CustomResourceColumnDefinition {
    column("Backend", ".spec.backendFramework", "Engine family: sglang, vllm or trtllm")
}

/// The column of `kubectl get` that shows the time since creation.
pub(super) fn age_column() -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: "Age".to_owned(),
        type_: "date".to_owned(),
        json_path: ".metadata.creationTimestamp".to_owned(),
        ..Default::default()
    }
}

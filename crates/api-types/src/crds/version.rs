//! One version of a kind: the schema of its types, in the frame that all kinds share.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceValidation, JSONSchemaProps,
};
use kube::core::{
    CustomResourceExt,
    object::{HasSpec, HasStatus},
};
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::{CrdError, V1ALPHA1};
use crate::{
    conditions::UNOBSERVED,
    conversion::ApiVersion,
    schema::{
        SchemaError, checks,
        kubernetes::Definitions,
        rules::CelRule,
        structural::{schema_of, structural, structural_spec},
    },
};

/// The phase of objects that have just been made.
const PENDING: &str = "Pending";

/// Schemas that are not made from types.
pub(super) struct SchemaSources {
    /// Of Kubernetes' types.
    definitions: Definitions,
    /// Of kinds in v1alpha1 that have types in v1beta1 only: of `spec` and `status`, by kind.
    v1alpha1: Value,
}

impl SchemaSources {
    /// Reads the files that this crate carries.
    pub fn load() -> Result<Self, SchemaError> {
        let v1alpha1 = serde_saphyr::from_str(include_str!("../../schemas/v1alpha1.yaml"))
            .map_err(|error| SchemaError::V1alpha1(Box::new(error)))?;
        Ok(Self { definitions: Definitions::load()?, v1alpha1 })
    }
}

/// Properties that are specific to a version of a kind.
pub(super) struct KindVersion<'a> {
    pub sources: &'a SchemaSources,
    /// Description of the objects of the kind.
    pub description: &'static str,
    /// Columns of `kubectl get`, beside the name.
    pub columns: Vec<CustomResourceColumnDefinition>,
    /// Rules of the whole object.
    pub rules: &'static [CelRule],
    /// Changes the schema of the spec where the kind differs from its type.
    pub edit: fn(&mut Value) -> Result<(), SchemaError>,
}

impl<'a> KindVersion<'a> {
    /// A version without rules of the whole object, whose spec is as its type says.
    pub fn new(
        sources: &'a SchemaSources,
        description: &'static str,
        columns: Vec<CustomResourceColumnDefinition>,
    ) -> Self {
        Self { sources, description, columns, rules: &[], edit: |_| Ok(()) }
    }

    /// The definition of kind `K` with this version.
    pub fn definition<K>(self) -> Result<CustomResourceDefinition, CrdError>
    where
        K: CustomResourceExt + HasSpec<Spec: JsonSchema> + HasStatus<Status: JsonSchema>,
    {
        self.finish::<K>(&K::api_resource().api_version, schema_of::<K::Spec>(), Some(schema_of::<K::Status>()))
    }

    /// Definition of a kind without status.
    pub fn definition_without_status<K: CustomResourceExt + HasSpec<Spec: JsonSchema>>(
        self,
    ) -> Result<CustomResourceDefinition, CrdError> {
        self.finish::<K>(&K::api_resource().api_version, schema_of::<K::Spec>(), None)
    }

    /// The definition of a kind with this version as its deprecated v1alpha1, which has no types; `K` is the kind in
    /// v1beta1.
    pub fn deprecated_definition<K: CustomResourceExt>(self) -> Result<CustomResourceDefinition, CrdError> {
        let [old, new] = [ApiVersion::V1Alpha1, ApiVersion::V1Beta1].map(ApiVersion::api_version);
        let kind = K::crd().spec.names.kind;
        let schema = |part: &str| (format!("{kind} {part}"), self.sources.v1alpha1[&kind][part].clone());
        let (spec, status) = (schema("spec"), schema("status"));
        let mut crd = self.finish::<K>(old, spec, Some(status))?;
        let warning = format!("{old} {kind} is deprecated; use {new} {kind}");
        for version in &mut crd.spec.versions {
            version.name = V1ALPHA1.to_owned();
            version.storage = false;
            version.deprecated = Some(true);
            version.deprecation_warning = Some(warning.clone());
        }
        Ok(crd)
    }

    fn finish<K: CustomResourceExt>(
        self,
        api_version: &str,
        spec: (String, Value),
        status: Option<(String, Value)>,
    ) -> Result<CustomResourceDefinition, CrdError> {
        let mut crd = K::crd();
        let schema = || {
            let mut spec = structural_spec(spec, &self.sources.definitions)?;
            (self.edit)(&mut spec)?;
            let mut status = status.map(|status| structural(status, &self.sources.definitions)).transpose()?;
            status.as_mut().map_or(Ok(()), add_first_status)?;
            let mut root = root(self.description, self.rules, spec, status);
            checks::add(&mut root, &crd.spec.names.kind, api_version)?;
            serde_json::from_value(root).map_err(SchemaError::Form)
        };
        let schema: JSONSchemaProps = schema().map_err(|source| CrdError::Schema { crd: K::crd_name(), source })?;
        for version in &mut crd.spec.versions {
            version.schema = Some(CustomResourceValidation { open_api_v3_schema: Some(schema.clone()) });
            version.additional_printer_columns = Some(self.columns.clone());
        }
        Ok(crd)
    }
}

fn root(description: &str, rules: &[CelRule], spec: Value, status: Option<Value>) -> Value {
    let mut root = json!({
        "description": description,
        "type": "object",
        "properties": {
            "apiVersion": { "type": "string", "description": "Group and version of the API of this object." },
            "kind": { "type": "string", "description": "Kind of this object." },
            "metadata": { "type": "object" },
            "spec": spec,
        },
    });
    if let Some(status) = status {
        root["properties"]["status"] = status;
    }
    if !rules.is_empty() {
        root["x-kubernetes-validations"] = json!(rules);
    }
    root
}

/// Gives an object without a status one without a generation. Without it, kstatus takes a new object for one
/// that is done: `observedGeneration` shows kstatus that a controller has yet to act.
pub(super) fn add_first_status(schema: &mut Value) -> Result<(), SchemaError> {
    if schema["properties"].get("observedGeneration").is_none() {
        return Ok(());
    }
    let mut first = json!({ "observedGeneration": UNOBSERVED, "conditions": [] });
    let phases = schema["properties"]["phase"]["enum"].as_array();
    if phases.is_some_and(|phases| phases.iter().any(|phase| phase == PENDING)) {
        first["phase"] = json!(PENDING);
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let field = &schema["properties"][name];
        first[name] = match (field.get("default"), field["type"].as_str()) {
            (Some(default), _) => default.clone(),
            (None, Some("array")) => json!([]),
            (None, Some("integer")) => json!(0),
            _ => return Err(SchemaError::Missing(format!("default of status.{name}"))),
        };
    }
    schema["default"] = first;
    Ok(())
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

/// A column of `kubectl get` that shows a count.
pub(super) fn count_column(name: &str, json_path: &str, description: &str) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition { type_: "integer".to_owned(), ..column(name, json_path, description) }
}

/// The column of `kubectl get` that shows the engine family; the same for graphs and components.
pub(super) fn backend_column() -> CustomResourceColumnDefinition {
    column("Backend", ".spec.backendFramework", "Engine family: sglang, vllm or trtllm")
}

/// The column of `kubectl get` that shows the time since creation.
pub(super) fn age_column(name: &str) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: name.to_owned(),
        type_: "date".to_owned(),
        json_path: ".metadata.creationTimestamp".to_owned(),
        ..Default::default()
    }
}

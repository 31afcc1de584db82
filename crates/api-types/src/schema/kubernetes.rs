//! Schemas of Kubernetes' own types, as they are embedded in ours.
//!
//! They come from the OpenAPI document of the API server that the repository pins (`schemas/kubernetes.json`, made by
//! `cargo xtask crds schemas`), because that document says how lists merge: which fields are the keys of `containers`,
//! which lists are sets, which objects are replaced whole. Without it a second field manager could not add a sidecar.
//!
//! Left out are descriptions (they would make up most of the CRD) and lists of allowed values: the API server checks
//! those when it gets the pod, and a newer cluster may allow more of them than this list.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{SchemaError, edit, patterns, rules};

/// Prefix of a reference to a definition, in the document and in our own schemas.
pub const REFERENCE_PREFIX: &str = "#/components/schemas/";

/// Template of a pod.
pub const POD_TEMPLATE: &str = "io.k8s.api.core.v1.PodTemplateSpec";
/// Environment variable of a container.
pub const ENV_VAR: &str = "io.k8s.api.core.v1.EnvVar";
/// Key of a ConfigMap.
pub const CONFIG_MAP_KEY_SELECTOR: &str = "io.k8s.api.core.v1.ConfigMapKeySelector";
/// Specification of a Job.
pub const JOB_SPEC: &str = "io.k8s.api.batch.v1.JobSpec";
/// Pod.
const POD_SPEC: &str = "io.k8s.api.core.v1.PodSpec";
/// Container of a pod.
const CONTAINER: &str = "io.k8s.api.core.v1.Container";
/// Resources of a container.
pub const RESOURCE_REQUIREMENTS: &str = "io.k8s.api.core.v1.ResourceRequirements";
/// Speed of an autoscaler.
pub const AUTOSCALER_BEHAVIOR: &str = "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerBehavior";
/// Metrics of an autoscaler.
pub const AUTOSCALER_METRIC: &str = "io.k8s.api.autoscaling.v2.MetricSpec";
/// Definitions that our types refer to; with all that they refer to in turn they make up `schemas/kubernetes.json`.
pub const ROOTS: [&str; 6] =
    [POD_TEMPLATE, ENV_VAR, CONFIG_MAP_KEY_SELECTOR, JOB_SPEC, AUTOSCALER_BEHAVIOR, AUTOSCALER_METRIC];

/// [`POD_TEMPLATE`] with the rules for pods of components; ours, not Kubernetes'.
pub const COMPONENT_POD_TEMPLATE: &str = "ComponentPodTemplate";
/// Pod of a service in v1alpha1: [`POD_SPEC`] with a field for the main container; ours, not Kubernetes'.
pub const EXTRA_POD_SPEC: &str = "ExtraPodSpec";
/// Condition of an object; written here, because the document lacks the limits that Kubernetes gives it.
pub const CONDITION: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Condition";
/// Kubernetes quantity.
pub const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
/// Point in time.
pub const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
/// Number or string.
pub const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
/// Metadata of an embedded object; what only the API server sets has no place in a template.
pub const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Fields whose default in the document we do not apply: the upstream operator's definitions have none there, so it
/// would appear in graphs that already exist and change their pods.
const WITHOUT_DEFAULT: [&str; 3] = ["azureDisk.cachingMode", "azureDisk.kind", "onPodConditions[].status"];

/// The definitions of `schemas/kubernetes.json`.
#[derive(Clone, Debug)]
pub struct Definitions(BTreeMap<String, Value>);

impl Definitions {
    /// Reads the definitions that this crate carries.
    ///
    /// # Errors
    /// If they are not JSON; a defect of the crate.
    pub fn load() -> Result<Self, SchemaError> {
        serde_json::from_str(include_str!("../../schemas/kubernetes.json")).map(Self).map_err(SchemaError::Definitions)
    }

    /// The structural schema that `reference` leads to, with nothing left to resolve. `path` is the place of the
    /// reference.
    ///
    /// # Errors
    /// If the reference or one within leads nowhere, or a definition has a keyword that structural schemas lack.
    pub fn resolve(&self, reference: &str, path: &str) -> Result<Value, SchemaError> {
        let name = reference.strip_prefix(REFERENCE_PREFIX).unwrap_or(reference);
        match (name, built_in(name), self.0.get(name)) {
            (COMPONENT_POD_TEMPLATE, ..) => self.component_pod_template(path),
            (EXTRA_POD_SPEC, ..) => self.extra_pod_spec(path),
            (_, Some(schema), _) => Ok(schema),
            (_, None, Some(definition)) => self.inline(definition, path),
            _ => Err(SchemaError::UnknownDefinition { path: path.to_owned(), name: name.to_owned() }),
        }
    }

    /// A pod template with the rules for pods of components beside those for all pods.
    fn component_pod_template(&self, path: &str) -> Result<Value, SchemaError> {
        const VALIDATIONS: &str = "x-kubernetes-validations";
        let mut template = self.resolve(POD_TEMPLATE, path)?;
        let annotations = edit::property(&mut template, "metadata.annotations")?;
        annotations[VALIDATIONS] = json!(rules::POD_ANNOTATIONS);
        annotations["additionalProperties"]["maxLength"] = json!(rules::MAX_ANNOTATION);
        edit::property(&mut template, "spec.containers[]")?[VALIDATIONS] = json!(rules::CONTAINER);
        edit::property(&mut template, "spec.initContainers[]")?[VALIDATIONS] = json!(rules::INIT_CONTAINER);
        Ok(template)
    }

    /// A pod whose containers are optional, because the main container has a field of its own and needs no name there.
    fn extra_pod_spec(&self, path: &str) -> Result<Value, SchemaError> {
        let mut pod = self.resolve(POD_SPEC, path)?;
        let mut main = self.resolve(CONTAINER, &format!("{path}.mainContainer"))?;
        edit::make_optional(&mut pod, "containers")?;
        edit::make_optional(&mut main, "name")?;
        pod["properties"]["mainContainer"] = main;
        Ok(pod)
    }

    /// Brings one schema of the document into structural form.
    fn inline(&self, schema: &Value, path: &str) -> Result<Value, SchemaError> {
        if let Some(reference) = reference_of(schema) {
            return self.resolve(reference, path);
        }
        let mut out = Map::new();
        for (keyword, value) in schema.as_object().into_iter().flatten() {
            let value = match keyword.as_str() {
                "default" | "enum" => continue,
                "type" | "format" | "required" => value.clone(),
                "x-kubernetes-list-type" | "x-kubernetes-list-map-keys" | "x-kubernetes-map-type" => value.clone(),
                "items" => self.inline(value, &format!("{path}[]"))?,
                "additionalProperties" => self.inline(value, &format!("{path}{{}}"))?,
                "properties" => self.inline_properties(schema, value, path)?,
                other => return Err(SchemaError::unsupported(path, other, value)),
            };
            out.insert(keyword.clone(), value);
        }
        Ok(Value::Object(out))
    }

    fn inline_properties(&self, parent: &Value, properties: &Value, path: &str) -> Result<Value, SchemaError> {
        let mut out = Map::new();
        for (name, property) in properties.as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            let mut schema = self.inline(property, &path)?;
            let default =
                default_of(parent, name, property).filter(|_| !WITHOUT_DEFAULT.iter().any(|f| path.ends_with(f)));
            if let (Some(default), Some(schema)) = (default, schema.as_object_mut()) {
                schema.insert("default".to_owned(), default.clone());
            }
            out.insert(name.clone(), schema);
        }
        Ok(Value::Object(out))
    }
}

/// The reference of a schema that is nothing else; in the document it is alone or, beside a default, in `allOf`.
fn reference_of(schema: &Value) -> Option<&str> {
    schema.pointer("/$ref").or_else(|| schema.pointer("/allOf/0/$ref")).and_then(Value::as_str)
}

/// The default of a property that a user may leave out. The document gives required properties and structs one as
/// well, the zero value of Go; applied, it would make the former optional and let the latter appear from nowhere.
fn default_of<'a>(parent: &Value, name: &str, property: &'a Value) -> Option<&'a Value> {
    let required = parent.get("required").and_then(Value::as_array).is_some_and(|r| r.iter().any(|n| n == name));
    property.get("default").filter(|default| !required && !default.is_object())
}

/// The schema of a definition that is written in this file; the document's own form of it is not needed.
pub fn built_in(name: &str) -> Option<Value> {
    let any_of = || json!([{ "type": "integer" }, { "type": "string" }]);
    Some(match name {
        QUANTITY => json!({ "anyOf": any_of(), "pattern": patterns::QUANTITY, "x-kubernetes-int-or-string": true }),
        INT_OR_STRING => json!({ "anyOf": any_of(), "x-kubernetes-int-or-string": true }),
        TIME => json!({ "type": "string", "format": "date-time" }),
        CONDITION => condition(),
        OBJECT_META => object_meta(),
        _ => return None,
    })
}

fn object_meta() -> Value {
    let map = || json!({ "type": "object", "additionalProperties": { "type": "string" } });
    json!({
        "type": "object",
        "properties": {
            "annotations": map(),
            "finalizers": { "type": "array", "items": { "type": "string" } },
            "labels": map(),
            "name": { "type": "string" },
            "namespace": { "type": "string" },
        },
    })
}

fn condition() -> Value {
    json!({
        "type": "object",
        "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        "properties": {
            "lastTransitionTime": { "type": "string", "format": "date-time" },
            "message": { "type": "string", "maxLength": 32768 },
            "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0 },
            "reason": {
                "type": "string", "minLength": 1, "maxLength": 1024, "pattern": patterns::CONDITION_REASON,
            },
            "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
            "type": { "type": "string", "maxLength": 316, "pattern": patterns::CONDITION_TYPE },
        },
    })
}

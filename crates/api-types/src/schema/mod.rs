//! JSON schemas of the types, in the form that the API server takes them in a CustomResourceDefinition.
//!
//! A schema is put together from three sources, each in a file of its own:
//!
//! | source | where |
//! |---|---|
//! | our own types: fields, descriptions, defaults, limits | the types, through schemars attributes; [`patterns`] |
//! | budgets of what users write | [`edit`] |
//! | rules over several fields, in CEL | [`rules`], those of the upstream operator; [`checks`], ours |
//! | Kubernetes' types: pod templates, variables, … | [`kubernetes`], from the API server's own OpenAPI document |
//!
//! Our types refer to Kubernetes' types by the same references that the document itself uses; [`structural`] resolves
//! both and brings the whole into the structural form. The functions in this file are those references, for
//! `schemars(schema_with = …)`.

pub mod checks;
pub mod edit;
pub mod kubernetes;
pub mod patterns;
pub mod rules;
pub mod structural;

#[cfg(test)]
mod tests;

use kubernetes::{
    COMPONENT_POD_TEMPLATE, CONDITION, CONFIG_MAP_KEY_SELECTOR, ENV_VAR, JOB_SPEC, POD_TEMPLATE, QUANTITY,
    REFERENCE_PREFIX, RESOURCE_REQUIREMENTS, TIME,
};
use schemars::{Schema, SchemaGenerator, json_schema};

/// A component's pod template: that of Kubernetes with the rules of [`rules`].
pub fn pod_template(_: &mut SchemaGenerator) -> Schema {
    reference(COMPONENT_POD_TEMPLATE)
}

/// The pod template of Kubernetes as it is.
pub fn plain_pod_template(_: &mut SchemaGenerator) -> Schema {
    reference(POD_TEMPLATE)
}

/// The specification of a Job.
pub fn job_spec(_: &mut SchemaGenerator) -> Schema {
    reference(JOB_SPEC)
}

/// Resources of a container.
pub fn resource_requirements(_: &mut SchemaGenerator) -> Schema {
    reference(RESOURCE_REQUIREMENTS)
}

/// Environment variables, as one list: who sets it, sets it whole.
pub fn env(_: &mut SchemaGenerator) -> Schema {
    list_of(ENV_VAR)
}

/// Conditions, one of each type.
pub fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": reference(CONDITION),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

/// Conditions as one list: who sets it, sets it whole.
pub fn condition_list(_: &mut SchemaGenerator) -> Schema {
    list_of(CONDITION)
}

/// A key of a ConfigMap.
pub fn config_map_key_selector(_: &mut SchemaGenerator) -> Schema {
    reference(CONFIG_MAP_KEY_SELECTOR)
}

/// A Kubernetes quantity.
pub fn quantity(_: &mut SchemaGenerator) -> Schema {
    reference(QUANTITY)
}

/// A point in time.
pub fn time(_: &mut SchemaGenerator) -> Schema {
    reference(TIME)
}

/// An object of any content.
pub fn open_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Objects of any content.
pub fn open_objects(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } })
}

/// An object of Kubernetes, of any kind.
pub fn embedded_resource(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// Any value.
pub fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

fn reference(definition: &str) -> Schema {
    json_schema!({ "$ref": format!("{REFERENCE_PREFIX}{definition}") })
}

fn list_of(definition: &str) -> Schema {
    json_schema!({ "type": "array", "items": reference(definition) })
}

/// A schema that cannot be made into the one of a CustomResourceDefinition.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The definitions of Kubernetes' types are not JSON of the expected form.
    #[error("schemas/kubernetes.json cannot be read ({0}); make it anew with `cargo xtask crds schemas`")]
    Definitions(#[source] serde_json::Error),
    /// The schemas of v1alpha1 are not YAML.
    #[error("schemas/v1alpha1.yaml cannot be read: {0}")]
    V1alpha1(#[source] Box<serde_saphyr::Error>),
    /// A reference leads nowhere.
    #[error(
        "{path}: there is no definition `{name}`; add it to `kubernetes::ROOTS` and run `cargo xtask crds schemas`"
    )]
    UnknownDefinition {
        /// Path of the reference.
        path: String,
        /// Name of the definition that is referred to.
        name: String,
    },
    /// A keyword that structural schemas do not have.
    #[error(
        "{path}: `{keyword}` cannot be expressed in a structural schema; describe the field by `schema_with` instead"
    )]
    Unsupported {
        /// Its path.
        path: String,
        /// The keyword with its value.
        keyword: String,
    },
    /// A number that users write has no maximum.
    #[error("{0}: a number of a spec needs a maximum; add one of `limits` to the field")]
    Unlimited(String),
    /// An edit of a schema does not find what it edits.
    #[error("the schema has no `{0}`; the edit of it is out of date")]
    Missing(String),
    /// The result is not what a CustomResourceDefinition holds.
    #[error("the schema does not fit a CustomResourceDefinition: {0}")]
    Form(#[source] serde_json::Error),
}

impl SchemaError {
    fn unsupported(path: &str, keyword: &str, value: &serde_json::Value) -> Self {
        Self::Unsupported { path: path.to_owned(), keyword: format!("{keyword}: {value}") }
    }
}

//! The CustomResourceDefinitions, made from the types.
//!
//! `kinds` names the versions of each kind; everything else comes from the types. The files in `deploy/crds` are
//! [`all`], written by `cargo xtask crds generate`.

mod conversion_service;
mod kinds;
mod version;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use conversion_service::{ConversionService, ConversionServiceError, PATH as CONVERSION_PATH};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::crd::{MergeError, merge_crds};
use serde_json::Value;
use version::SchemaSources;

use crate::annotations;
pub use crate::schema::SchemaError;

/// The version in which kinds are stored that have it.
const V1BETA1: &str = "v1beta1";
/// The version in which the other kinds are stored.
const V1ALPHA1: &str = "v1alpha1";

/// A CustomResourceDefinition that cannot be made. All of them are defects of this crate, found by its tests.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// The schema of a version cannot be made.
    #[error("{crd}: {source}")]
    Schema {
        /// Name of the CustomResourceDefinition.
        crd: &'static str,
        /// Problem of the schema.
        source: SchemaError,
    },
    /// The versions of a kind do not fit together.
    #[error("versions of a kind do not fit together: {0}")]
    Merge(#[from] MergeError),
    /// It is not even JSON.
    #[error("CustomResourceDefinition cannot be serialised: {0}")]
    Json(#[from] serde_json::Error),
    /// The YAML writer fails.
    #[error("CustomResourceDefinition cannot be written as YAML: {0}")]
    Yaml(#[from] serde_saphyr::ser::Error),
}

/// All CustomResourceDefinitions of the operator; the API server calls the default [`ConversionService`].
///
/// # Errors
/// If a type has no structural schema; a defect of this crate.
pub fn all() -> Result<Vec<CustomResourceDefinition>, CrdError> {
    all_converted_by(&ConversionService::default())
}

/// All definitions, with `service` for the conversion between versions.
///
/// # Errors
/// If a type has no structural schema; a defect of this crate.
pub fn all_converted_by(service: &ConversionService) -> Result<Vec<CustomResourceDefinition>, CrdError> {
    let sources = SchemaSources::load().map_err(|source| CrdError::Schema { crd: "all kinds", source })?;
    let stored_in_v1beta1 = [
        kinds::graph(&sources)?,
        kinds::component_deployment(&sources)?,
        kinds::request(&sources)?,
        kinds::scaling_adapter(&sources)?,
    ];
    let stored_in_v1alpha1 = [
        kinds::model(&sources)?,
        kinds::checkpoint(&sources)?,
        kinds::dynamo_component(&sources)?,
        kinds::worker_metadata(&sources)?,
    ];
    let mut all = Vec::new();
    for versions in stored_in_v1beta1 {
        let mut crd = definition(versions, V1BETA1)?;
        crd.spec.conversion = Some(service.stanza());
        all.push(crd);
    }
    for versions in stored_in_v1alpha1 {
        all.push(definition(versions, V1ALPHA1)?);
    }
    Ok(all)
}

/// Name of the file in `deploy/crds` that holds `crd`: `<group>_<plural>.yaml`.
pub fn file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural)
}

/// One definition of all versions of a kind, which is stored in version `storage`.
fn definition(versions: Vec<CustomResourceDefinition>, storage: &str) -> Result<CustomResourceDefinition, CrdError> {
    let mut crd = merge_crds(versions, storage)?;
    crd.spec.names.list_kind = Some(format!("{}List", crd.spec.names.kind));
    // Uninstalling the chart must not delete the graphs of all users.
    let keep = ("helm.sh/resource-policy".to_owned(), "keep".to_owned());
    let release = (annotations::DEFINITION_RELEASE.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    crd.metadata.annotations = Some(BTreeMap::from([keep, release]));
    Ok(crd)
}

const HEADER: &str = "# Generated from the types in crates/api-types by `cargo xtask crds generate`. Do not edit.\n";

/// `crd` as a YAML document, with a header that says where it comes from.
///
/// # Errors
/// If it cannot be serialised.
pub fn to_yaml(crd: &CustomResourceDefinition) -> Result<String, CrdError> {
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

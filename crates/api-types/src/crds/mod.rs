//! The CustomResourceDefinitions, made from the types.
//!
//! Each kind has a file that names its versions; everything else comes from the types. The files in `deploy/crds` are
//! [`all`], written by `cargo xtask crds generate`.

mod component_deployment;
mod graph;
mod version;
mod yaml;

#[cfg(test)]
mod tests;

pub use crate::schema::SchemaError;
pub use yaml::{YamlError, to_yaml};

use crate::schema::kubernetes::Definitions;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::crd::{MergeError, merge_crds};
use std::collections::BTreeMap;

/// The version in which every kind is stored.
const STORAGE_VERSION: &str = "v1beta1";

/// A CustomResourceDefinition that cannot be made. All of them are mistakes in this crate, found by its tests.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// The schema of a version cannot be made.
    #[error("{crd}: {source}")]
    Schema {
        /// Name of the CustomResourceDefinition.
        crd: &'static str,
        /// What is wrong with it.
        source: SchemaError,
    },
    /// The versions of a kind do not fit together.
    #[error("versions of a kind do not fit together: {0}")]
    Merge(#[from] MergeError),
}

/// All CustomResourceDefinitions of the operator.
///
/// # Errors
/// If a type has no structural schema; a mistake in this crate.
pub fn all() -> Result<Vec<CustomResourceDefinition>, CrdError> {
    let definitions = Definitions::load().map_err(|source| CrdError::Schema { crd: "all kinds", source })?;
    [graph::versions(&definitions)?, component_deployment::versions(&definitions)?]
        .map(definition)
        .into_iter()
        .collect()
}

/// Name of the file in `deploy/crds` that holds `crd`: `<group>_<plural>.yaml`.
pub fn file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural)
}

/// One definition of all versions of a kind.
fn definition(versions: Vec<CustomResourceDefinition>) -> Result<CustomResourceDefinition, CrdError> {
    let mut crd = merge_crds(versions, STORAGE_VERSION)?;
    crd.spec.names.list_kind = Some(format!("{}List", crd.spec.names.kind));
    // Uninstalling the chart must not take everybody's graphs with it.
    let keep = ("helm.sh/resource-policy".to_owned(), "keep".to_owned());
    crd.metadata.annotations = Some(BTreeMap::from([keep]));
    Ok(crd)
}

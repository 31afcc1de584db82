//! Conversion of the documents of a manifest file.

use serde_json::Value;

use super::{ApiVersion, ConversionError, convert, kind, value::text};
use crate::GROUP;

/// A document that cannot be converted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("document {number}: {error}")]
pub struct ManifestError {
    /// Its number in the file, from 1.
    pub number: usize,
    /// Why.
    pub error: ConversionError,
}

/// Converts all documents of kinds that have two versions. Others pass unchanged, and empty ones are left out.
///
/// # Errors
/// A document cannot be converted.
pub fn convert_manifests(documents: Vec<Value>, to: ApiVersion) -> Result<Vec<Value>, ManifestError> {
    let convert_one = |(index, document): (usize, Value)| {
        let result = if has_two_versions(&document) { convert(document, to) } else { Ok(document) };
        result.map_err(|error| ManifestError { number: index + 1, error })
    };
    documents.into_iter().filter(|document| !document.is_null()).enumerate().map(convert_one).collect()
}

fn has_two_versions(document: &Value) -> bool {
    let Some(document) = document.as_object() else { return false };
    let is_ours = text(document, "apiVersion").is_some_and(|version| version.starts_with(&format!("{GROUP}/")));
    is_ours && text(document, "kind").is_some_and(|name| kind(name).is_some())
}

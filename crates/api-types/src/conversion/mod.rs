//! Conversion between v1alpha1 and v1beta1.
//!
//! Pure and total: every object of a convertible kind is converted, whole or partial, and every object comes back as it
//! was. v1beta1 is the version in which objects are stored. What one version cannot say is kept in annotations, in the
//! format of the upstream operator, so that objects it stored are understood and objects we store are understood by it.
//!
//! | module | what |
//! |---|---|
//! | `lens` | the rule by which saved data is put back; the same for everything |
//! | `payload` | the annotations, and saved data that does not fit into them |
//! | `component` | components, with the pod template: most of the difference between the versions |
//! | `graph`, `component_deployment`, `scaling_adapter`, `request` | the kinds |
//! | [`preserved`] | what only v1alpha1 can say and objects still depend on |
//! | `merging` | what server-side apply needs where fields have managers in both versions |
//! | [`review`] | the `ConversionReview` that the API server sends |
//!
//! The concepts, in the order in which a conversion meets them:
//!
//! | name | concept |
//! |---|---|
//! | `ConversionSource`, `Extent` | the object to convert, whole or a part within a merge |
//! | `ConvertedKind` | a kind: its annotations for saved spec, saved status, and retired ones; its conversion |
//! | `Saved` | data of the other version, kept in these annotations: `sparse`, `exact`, `seals` |
//! | `sparse` | saved data in the form of the upstream operator, which reads and writes it |
//! | `Residue`, `exact` | single places that this form cannot hold; the upstream operator ignores them |
//! | `seal`, `seals` | a hash of the target; while it matches, the object is unchanged and gets everything back |
//! | `Frame`, part | an object without its components, and each component: they are converted one by one |
//! | `WHOLE`, `PART` | names of the seals of a frame and of a component |
//! | `Side`, `Alpha`, `Beta`, `Name` | one version of a part; a component's name is a key of a map, or that of its object |
//! | project | to express an object in the other version; loses what that cannot express |
//! | `Edit`, `GROUPS` | puts one piece of saved data back; fields that depend on each other are one group |
//! | visible, invisible | whether an edit changes the projection; only invisible edits are kept |
//! | `bare`, `all`, `kept` | the projection without saved data, with all of it, with the invisible part |
//! | `EFFORT`, `SPARSE`, `EXACT`, `MOST` | limits for the edits that are tried one by one |
//! | `Preserved…` | typed access to saved data of v1alpha1 that pods still depend on |
//! | `Notes` | annotations of an object within a merge; never stored |
//!
//! Differences from the upstream operator, where that is wrong:
//!
//! - A probe of `mainContainer` with another handler replaces the handler of the component's own probe.
//! - A `componentType` that v1beta1 lacks becomes no type; v1alpha1 keeps it.
//! - A container `main` in `extraPodSpec.containers` is the main container, if there is no `mainContainer`; it is never
//!   lost.
//! - An empty `status.state` is left out, and none is made up.
//! - Annotations for the status that cannot be read are ignored, as those for the spec are.
//! - Components without a name, or with the name of another, are kept; they have no services in v1alpha1.
//! - A `frontendSidecar` whose container was given more than v1alpha1 can say is an ordinary container there.

mod component;
mod component_deployment;
mod graph;
mod lens;
mod merging;
pub mod payload;
pub mod preserved;
mod request;
mod residue;
pub mod review;
mod scaling_adapter;
mod value;

#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

use lens::Saved;
use serde_json::{Value, json};
use value::{Object, annotations, text};

use crate::GROUP;

/// A version of the API that objects can be converted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ApiVersion {
    /// The deprecated version.
    V1Alpha1,
    /// The version in which objects are stored.
    V1Beta1,
}

impl ApiVersion {
    /// Group and version, as objects have it in `apiVersion`.
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::V1Alpha1 => "nvidia.com/v1alpha1",
            Self::V1Beta1 => "nvidia.com/v1beta1",
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::V1Alpha1 => Self::V1Beta1,
            Self::V1Beta1 => Self::V1Alpha1,
        }
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.api_version())
    }
}

impl FromStr for ApiVersion {
    type Err = ConversionError;

    fn from_str(api_version: &str) -> Result<Self, ConversionError> {
        let version = [Self::V1Alpha1, Self::V1Beta1].into_iter().find(|version| version.api_version() == api_version);
        version.ok_or_else(|| ConversionError::Version { given: api_version.to_owned() })
    }
}

/// Reason why an object cannot be converted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConversionError {
    /// Not a JSON object at all.
    #[error("the object to convert is not a JSON object; send objects of group {GROUP}")]
    NotAnObject,
    /// Not a version that can be converted.
    #[error("apiVersion: {given:?} cannot be converted; use nvidia.com/v1alpha1 or nvidia.com/v1beta1")]
    Version {
        /// The version given; empty if none.
        given: String,
    },
    /// Not a kind that has two versions.
    #[error("kind: {given:?} has only one version in group {GROUP}; send only kinds with two versions")]
    Kind {
        /// The kind given; empty if none.
        given: String,
    },
    /// The data that only v1alpha1 can express does not fit into the annotations of the stored object.
    #[error(
        "{field}: Too long: what only v1alpha1 can say needs {bytes} bytes of annotations, and {} are possible; make it \
         shorter, or write the object in v1beta1",
        payload::ANNOTATION_BYTES
    )]
    TooLong {
        /// The field with the most of it.
        field: String,
        /// Number of bytes that would be needed.
        bytes: usize,
    },
    /// `metadata` is there, but not an object, so it has no place for saved data.
    #[error("metadata: must be an object")]
    Metadata,
}

/// The parts of an object that are converted: everything but type and metadata.
struct ConversionSource<'a> {
    body: Object,
    /// `metadata.name`.
    name: Option<&'a str>,
    saved: Option<Saved>,
    to: ApiVersion,
    extent: Extent,
}

/// Whether the API server has added the defaults of its version to the source of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// It has. What the target's version has a default for is in the target, too.
    Whole,
    /// It may not have: within a merge, the source may be a part of an object. The target has only what the source has;
    /// a field that was added would look like one that another manager has set.
    Part,
}

pub(crate) const GRAPH: &str = "DynamoGraphDeployment";
pub(crate) const COMPONENT_DEPLOYMENT: &str = "DynamoComponentDeployment";

/// A kind with two versions: keys of its annotations, and its conversion.
struct ConvertedKind {
    /// Annotation with the saved data of the spec.
    spec: &'static str,
    /// Annotation with the saved data of the status.
    status: &'static str,
    /// Annotations of earlier versions, which are removed and never read.
    retired: &'static [&'static str],
    convert: fn(ConversionSource<'_>) -> (Object, Option<Saved>),
}

/// The kind of that name, if it has two versions.
fn kind(name: &str) -> Option<ConvertedKind> {
    let (spec, status, retired, convert): (_, _, &[_], fn(ConversionSource<'_>) -> _) = match name {
        GRAPH => (preserved::legacy::PreservedGraph::ANNOTATION, "nvidia.com/dgd-status", &[], graph::convert_graph),
        COMPONENT_DEPLOYMENT => (
            preserved::PreservedComponent::ANNOTATION,
            "nvidia.com/dcd-status",
            &[],
            component_deployment::convert_component_deployment,
        ),
        "DynamoGraphDeploymentRequest" => {
            ("nvidia.com/dgdr-spec", "nvidia.com/dgdr-status", &request::RETIRED, request::convert_request)
        }
        "DynamoGraphDeploymentScalingAdapter" => {
            ("nvidia.com/dgdsa-spec", "nvidia.com/dgdsa-status", &[], scaling_adapter::convert_scaling_adapter)
        }
        _ => return None,
    };
    Some(ConvertedKind { spec, status, retired, convert })
}

/// Whether an object holds data in its annotations that only the other version can say. Objects of other kinds hold
/// none.
pub fn has_saved_data(object: &Value) -> bool {
    let kind = object.get("kind").and_then(Value::as_str).and_then(kind);
    kind.zip(annotations(object)).is_some_and(|(kind, annotations)| annotations.contains_key(kind.spec))
}

/// Converts an object to another version. An object that is in that version already is returned as it is.
///
/// # Errors
/// If the object is not of a kind that has two versions, or not in one of them.
pub fn convert(object: Value, to: ApiVersion) -> Result<Value, ConversionError> {
    convert_within(object, to, Extent::Whole)
}

fn convert_within(object: Value, to: ApiVersion, extent: Extent) -> Result<Value, ConversionError> {
    let Value::Object(mut object) = object else { return Err(ConversionError::NotAnObject) };
    let from: ApiVersion = text(&object, "apiVersion").unwrap_or_default().parse()?;
    let given = text(&object, "kind").unwrap_or_default().to_owned();
    let kind = kind(&given).ok_or(ConversionError::Kind { given })?;
    if from == to {
        return Ok(Value::Object(object));
    }
    // The API server rejects an answer without metadata, but sends partial objects that have none.
    let mut metadata = match object.remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        None | Some(Value::Null) => Object::new(),
        Some(_) => return Err(ConversionError::Metadata),
    };
    let saved = payload::take(&mut metadata, &kind);
    let kind_name = object.remove("kind");
    object.remove("apiVersion");
    let name = text(&metadata, "name");
    let (mut target, saved) = (kind.convert)(ConversionSource { body: object, name, saved, to, extent });
    if let Some(saved) = saved {
        payload::put(&mut metadata, &kind, saved);
    }
    target.insert("apiVersion".to_owned(), json!(to.api_version()));
    target.extend(kind_name.map(|kind| ("kind".to_owned(), kind)));
    target.insert("metadata".to_owned(), Value::Object(metadata));
    Ok(Value::Object(target))
}

/// Reason why manifests cannot be converted.
#[derive(Debug, thiserror::Error)]
pub enum ManifestConversionError {
    /// Not YAML, of which JSON is a part.
    #[error("not YAML: {0}")]
    Form(Box<serde_saphyr::Error>),
    /// A document cannot be converted; its number in the text, from 1, and the reason.
    #[error("document {0}: {1}")]
    Document(usize, ConversionError),
    /// The YAML writer fails.
    #[error(transparent)]
    Write(#[from] serde_saphyr::ser::Error),
}

/// Converts manifests, YAML or JSON with any number of documents. Documents of kinds that have one version only pass
/// unchanged, and empty ones are left out.
///
/// # Errors
/// The text is not YAML, or a document cannot be converted.
pub fn convert_manifests(text: &str, to: ApiVersion) -> Result<String, ManifestConversionError> {
    let options = serde_saphyr::options! { emit_comments: false };
    let documents = serde_saphyr::from_multiple_with_options::<Value>(text, options);
    let documents = documents.map_err(|error| ManifestConversionError::Form(Box::new(error)))?;
    let mut out = String::new();
    for (index, document) in documents.into_iter().filter(|document| !document.is_null()).enumerate() {
        let converted = if has_two_versions(&document) { convert(document, to) } else { Ok(document) };
        let converted = converted.map_err(|error| ManifestConversionError::Document(index + 1, error))?;
        out.push_str("---\n");
        out.push_str(&serde_saphyr::to_string(&converted)?);
    }
    Ok(out)
}

fn has_two_versions(document: &Value) -> bool {
    let Some(document) = document.as_object() else { return false };
    let is_ours = text(document, "apiVersion").is_some_and(|version| version.starts_with(&format!("{GROUP}/")));
    is_ours && text(document, "kind").is_some_and(|name| kind(name).is_some())
}

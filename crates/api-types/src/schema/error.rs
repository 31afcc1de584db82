//! Why a schema cannot be made. All of them are defects of this crate, found by its tests.

/// A schema that cannot be made into the one of a CustomResourceDefinition.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The definitions of Kubernetes' types are not JSON of the expected form.
    #[error("schemas/kubernetes.json cannot be read ({0}); make it anew with `cargo xtask crds schemas`")]
    Definitions(#[source] serde_json::Error),
    /// A reference leads nowhere.
    #[error(
        "{path}: there is no definition `{name}`; add it to `kubernetes::ROOTS` and run `cargo xtask crds schemas`"
    )]
    UnknownDefinition {
        /// Path of the reference.
        path: String,
        /// What it refers to.
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

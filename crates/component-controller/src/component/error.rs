//! Why a reconcile ended early. All of it is tried again, and none of it becomes a condition.

use controller_kit::{
    apply,
    failure::{ErrorType, Failure},
    store::UnpackError,
};

/// Why a reconcile ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A step against the API server did not succeed.
    #[error(transparent)]
    Step(Box<apply::Error>),
    /// A cached child does not have the shape of its kind.
    #[error(transparent)]
    Unreadable(#[from] UnpackError),
    /// It could not be found out whether a Secret exists.
    #[error("cannot look for Secret {namespace}/{name}: {}", source.as_ref().map_or("no answer in time".to_owned(), ToString::to_string))]
    Secret {
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
        /// The answer; `None` if there was none.
        #[source]
        source: Option<Box<kube::Error>>,
    },
}

impl From<apply::Error> for Error {
    fn from(error: apply::Error) -> Self {
        Self::Step(Box::new(error))
    }
}

impl Failure for Error {
    fn error_type(&self) -> ErrorType {
        match self {
            Self::Step(error) => error.error_type(),
            Self::Unreadable(_) => ErrorType::Validation,
            Self::Secret { source: Some(source), .. } => ErrorType::of(source),
            Self::Secret { source: None, .. } => ErrorType::Timeout,
        }
    }
}

//! Why a reconcile ended early. All of it is tried again, and none of it becomes a condition.

use controller_kit::{
    apply,
    failure::{ErrorType, Failure},
};

/// Why a reconcile ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A step against the API server did not succeed.
    #[error(transparent)]
    Step(Box<apply::Error>),
    /// The pods of a base model could not be listed.
    #[error("cannot list pods of {namespace} with {selector}: {}", source.as_ref().map_or("no answer in time".to_owned(), ToString::to_string))]
    Pods {
        /// Their namespace.
        namespace: String,
        /// The label selector.
        selector: String,
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
            Self::Pods { source: Some(source), .. } => ErrorType::of(source),
            Self::Pods { source: None, .. } => ErrorType::Timeout,
        }
    }
}

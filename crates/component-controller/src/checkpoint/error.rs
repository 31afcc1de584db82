//! Why a reconcile ended early. All of it is tried again, and none of it becomes a condition.

use controller_kit::{
    apply,
    failure::{ErrorType, Failure},
    store::UnpackError,
};
use std::sync::Arc;

/// Why a reconcile ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A step against the API server did not succeed.
    #[error(transparent)]
    Step(Box<apply::Error>),
    /// A cached object does not have the shape of its kind.
    #[error(transparent)]
    Unreadable(#[from] UnpackError),
    /// An object could not be read.
    #[error("cannot read {what}: {}", source.as_ref().map_or("no answer in time".to_owned(), ToString::to_string))]
    Read {
        /// The object.
        what: String,
        /// The answer; `None` if there was none.
        source: Option<Arc<kube::Error>>,
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
            Self::Read { source: Some(source), .. } => ErrorType::of(source),
            Self::Read { source: None, .. } => ErrorType::Timeout,
        }
    }
}

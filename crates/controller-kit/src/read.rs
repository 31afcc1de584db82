//! Reads that no cache answers, and why a reconcile ends early.

use std::future::Future;

use crate::{
    apply::{self, STEP_TIMEOUT},
    failure::{ErrorType, Failure, Retry},
    store::UnpackError,
};

/// Awaits a read from the API server, for [`STEP_TIMEOUT`] at most. `what` completes the sentence "cannot …".
///
/// # Errors
/// What the API server answered, or that it did not.
pub async fn read<T>(
    what: impl FnOnce() -> String,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, ReadError> {
    match tokio::time::timeout(STEP_TIMEOUT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(ReadError { what: what(), source: Some(Box::new(error)) }),
        Err(_) => Err(ReadError { what: what(), source: None }),
    }
}

/// Something could not be read from the API server.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {}", source.as_ref().map_or("no answer in time".to_owned(), ToString::to_string))]
pub struct ReadError {
    what: String,
    /// The answer; `None` if there was none.
    source: Option<Box<kube::Error>>,
}

impl ReadError {
    /// What kind of failure it is.
    #[must_use]
    pub fn error_type(&self) -> ErrorType {
        self.source.as_deref().map_or(ErrorType::Timeout, ErrorType::of)
    }
}

/// Why a reconcile ended early. None of it becomes a condition, and all of it but what cannot be read is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Interruption {
    /// A step against the API server did not succeed.
    #[error(transparent)]
    Step(Box<apply::Error>),
    /// A cached object does not have the shape of its kind.
    #[error(transparent)]
    Unreadable(#[from] UnpackError),
    /// Something that no cache holds could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<apply::Error> for Interruption {
    fn from(error: apply::Error) -> Self {
        Self::Step(Box::new(error))
    }
}

impl Failure for Interruption {
    fn error_type(&self) -> ErrorType {
        match self {
            Self::Step(error) => error.error_type(),
            Self::Unreadable(_) => ErrorType::Validation,
            Self::Read(error) => error.error_type(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            // It stays as it is until somebody changes it, and is found in a cache then.
            Self::Unreadable(_) => Retry::AwaitChange,
            Self::Step(_) | Self::Read(_) => Retry::Backoff,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::{Interruption, read};
    use crate::{
        failure::{ErrorType, Failure, Retry},
        store::Packed,
    };

    /// Found defect: it was read again and again, every five minutes for ever.
    #[test]
    fn what_cannot_be_read_is_left_alone_until_somebody_changes_it() {
        let odd = Packed::<ConfigMap>::from_value(json!({ "metadata": { "name": "a" }, "data": 1 })).unwrap();
        let error = Interruption::from(odd.unpack().unwrap_err());
        assert_eq!((error.error_type(), error.retry()), (ErrorType::Validation, Retry::AwaitChange));
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_says_what_was_tried_and_what_came_back() {
        let status = kube::core::Status { code: 403, message: "no".to_owned(), ..Default::default() };
        let refused = ready(Err::<(), _>(kube::Error::Api(status.boxed())));
        let error = read(|| "list pods of n".to_owned(), refused).await.unwrap_err();
        assert!(error.to_string().starts_with("cannot list pods of n: "), "{error}");
        assert_eq!(error.error_type(), ErrorType::Forbidden);
        let error = read(|| "read Secret n/a".to_owned(), pending::<kube::Result<()>>()).await.unwrap_err();
        assert_eq!(
            (error.to_string().as_str(), error.error_type()),
            ("cannot read Secret n/a: no answer in time", ErrorType::Timeout)
        );
    }
}

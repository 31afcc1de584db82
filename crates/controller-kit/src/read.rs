//! Reads that no cache answers, and why a reconcile ends early.

use std::future::Future;

use crate::{
    failure::{ErrorType, Failure, Retry},
    request::{self, STEP_TIMEOUT},
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

/// [`read`] of an object whose name a user wrote; none without a request if there can be no object of this name.
///
/// # Errors
/// As [`read`].
pub async fn find<T>(
    name: &str,
    what: impl FnOnce() -> String,
    request: impl Future<Output = kube::Result<Option<T>>>,
) -> Result<Option<T>, ReadError> {
    if is_object_name(name) { read(what, request).await } else { Ok(None) }
}

/// Whether an object can have this name: a DNS subdomain as of RFC 1123. Nothing else may become part of a path, where
/// `../` and `?` would name another object than the user's rights are for.
#[must_use]
pub fn is_object_name(name: &str) -> bool {
    let is_end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let ends = [bytes.first(), bytes.last()].iter().all(|byte| byte.is_some_and(|byte| is_end(*byte)));
        ends && bytes.iter().all(|byte| is_end(*byte) || *byte == b'-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
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
    Step(Box<request::Error>),
    /// A cached object does not have the shape of its kind.
    #[error(transparent)]
    Unreadable(#[from] UnpackError),
    /// Something that no cache holds could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<request::Error> for Interruption {
    fn from(error: request::Error) -> Self {
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
            // It stays as it is until a user changes it; the cache shows the change.
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

    use super::{Interruption, find, is_object_name, read};
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

    #[test]
    fn only_names_of_objects_become_part_of_a_path() {
        let longest = "a".repeat(253);
        for name in ["a", "0", "a-b.c-0", longest.as_str()] {
            assert!(is_object_name(name), "{name}");
        }
        let too_long = "a".repeat(254);
        for name in [
            "",
            ".",
            "..",
            "a.",
            ".a",
            "a..b",
            "-a",
            "a-",
            "A",
            "a_b",
            "a/b",
            "../../victim/secrets/regcred",
            "a?limit=1",
            "a%2fb",
            "a b",
            "ä",
            too_long.as_str(),
        ] {
            assert!(!is_object_name(name), "{name}");
        }
    }

    /// Found defect: a name that a user wrote became part of the path as it was.
    #[tokio::test]
    async fn what_has_no_name_of_an_object_is_not_there_and_not_asked_for() {
        async fn request() -> kube::Result<Option<()>> {
            panic!("a request was sent")
        }
        assert_eq!(find("../victim", || "read".to_owned(), request()).await.unwrap(), None);
        assert_eq!(find("mine", || "read".to_owned(), ready(Ok(Some(1)))).await.unwrap(), Some(1));
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

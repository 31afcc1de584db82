//! Steps against the API server: their time, their failures, and the objects that they are about.
//!
//! This file also has the reads that no cache answers, and the reasons for which a reconcile ends early.

#[cfg(test)]
mod read_tests;

use std::{fmt, future::Future, sync::Arc, time::Duration};

use api_types::typed::typed;
use kube::{Resource, core::ApiResource};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    failure::{Class, ErrorType, Failure, Retry, is_not_declared},
    store::{StaticKind, UnpackError},
};

/// No step against the API server may take longer, the client's own retries included. The API server waits 10 s for a
/// webhook unless its configuration sets another time; its answer, which names the webhook, has to arrive before we
/// give up.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(15);

/// Runs one step against the API server, for [`STEP_TIMEOUT`] at most. `action` and `object` name it in the error.
///
/// # Errors
/// The API server rejects the request, or does not answer.
pub async fn timed<T>(
    action: &'static str,
    object: &ObjectId,
    step: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, RequestError> {
    match tokio::time::timeout(STEP_TIMEOUT, step).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) if is_successor(&error) => Err(RequestError::Changed { object: object.clone() }),
        Ok(Err(error)) => Err(RequestError::api(action, object, error)),
        Err(_) => Err(RequestError::Timeout { action, object: object.clone() }),
    }
}

/// The API server's answer to an apply whose uid is not that of the object of this name: to it, an attempt to change an
/// immutable field. Without any object of this name it says "conflict".
fn is_successor(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_invalid() && causes.into_iter().any(|cause| cause.field == "metadata.uid")
}

/// Identity of an object. Reads as `Deployment team-a/frontend`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    /// API group; empty for the core group.
    pub group: String,
    /// Kind, for example `Deployment`.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectId {
    /// An object of a kind that has no Rust type here. `namespace` is empty for kinds of the whole cluster.
    pub fn new(resource: &ApiResource, namespace: &str, name: &str) -> Self {
        Self {
            group: resource.group.clone(),
            kind: resource.kind.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The object of a kind that has this name, if there is one.
    pub fn named<K: Resource<DynamicType = ()>>(namespace: &str, name: &str) -> Self {
        Self::new(&ApiResource::erase::<K>(&()), namespace, name)
    }

    /// The identity of any Kubernetes object.
    pub fn of<K: StaticKind>(object: &K) -> Self {
        let dynamic = K::DynamicType::default();
        Self {
            group: K::group(&dynamic).into_owned(),
            kind: K::kind(&dynamic).into_owned(),
            namespace: object.meta().namespace.clone().unwrap_or_default(),
            name: object.meta().name.clone().unwrap_or_default(),
        }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        write!(f, "{} {}{slash}{}", self.kind, self.namespace, self.name)
    }
}

/// Drift of one object is corrected this often within [`CORRECTIONS_WINDOW`]; then another controller is at work.
pub(crate) const MAX_CORRECTIONS: u32 = 10;

/// The time in which corrections of drift are counted.
pub(crate) const CORRECTIONS_WINDOW: Duration = Duration::from_secs(60);

/// A step against the API server that did not succeed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The API server refused, or could not be reached.
    #[error("cannot {action} {object}: {}", message(source))]
    Api {
        /// Action that failed.
        action: &'static str,
        /// With which object.
        object: ObjectId,
        /// The answer.
        source: Arc<kube::Error>,
    },
    /// No answer in time. The step may have happened.
    #[error("cannot {action} {object}: no answer within {}s", STEP_TIMEOUT.as_secs())]
    Timeout {
        /// Action that got no answer.
        action: &'static str,
        /// With which object.
        object: ObjectId,
    },
    /// An object of that name exists and is not ours. It was not touched.
    #[error("{object} already exists and is not managed by this object: {reason}; delete or rename it to go on")]
    Foreign {
        /// The object in the way.
        object: ObjectId,
        /// Owner of the object.
        reason: String,
    },
    /// The object is no longer what a patch was made for.
    #[error("{object} changed in between; the next reconcile looks again")]
    Changed {
        /// The object.
        object: ObjectId,
    },
    /// Another controller changes the object back each time it is corrected. It is corrected again later.
    #[error(
        "{object}: {fields} was corrected {MAX_CORRECTIONS} times within {}s, and another controller changes it back \
         each time; stop that controller from changing it",
        CORRECTIONS_WINDOW.as_secs()
    )]
    Contested {
        /// The object.
        object: ObjectId,
        /// Paths of the fields.
        fields: String,
    },
    /// An object cannot be written as JSON, or lacks what every object needs.
    #[error("cannot render {object}: {reason}")]
    Render {
        /// The object.
        object: ObjectId,
        /// Description of the problem.
        reason: String,
    },
}

impl RequestError {
    pub(crate) fn api(action: &'static str, object: &ObjectId, source: kube::Error) -> Self {
        Self::Api { action, object: object.clone(), source: Arc::new(source) }
    }

    pub(crate) fn render(object: &ObjectId, reason: impl fmt::Display) -> Self {
        Self::Render { object: object.clone(), reason: reason.to_string() }
    }

    /// Returns the reaction to it.
    pub fn class(&self) -> Class {
        match self {
            Self::Foreign { .. } => Class::Foreign,
            other => other.error_type().class(),
        }
    }

    /// The object it is about.
    pub fn object(&self) -> &ObjectId {
        match self {
            Self::Api { object, .. }
            | Self::Timeout { object, .. }
            | Self::Foreign { object, .. }
            | Self::Changed { object }
            | Self::Contested { object, .. }
            | Self::Render { object, .. } => object,
        }
    }

    /// The message of the API server; empty if it gave none.
    pub(crate) fn answer(&self) -> &str {
        let Self::Api { source, .. } = self else { return "" };
        let kube::Error::Api(status) = source.as_ref() else { return "" };
        &status.message
    }

    /// True if the API server says that the object, its namespace or its kind does not exist.
    pub fn is_not_found(&self) -> bool {
        self.error_type() == ErrorType::NotFound
    }
}

/// Writes an object, or a part of it, as JSON.
pub(crate) fn to_value<T: Serialize>(object: &ObjectId, value: &T) -> Result<Value, RequestError> {
    serde_json::to_value(value).map_err(|error| RequestError::render(object, error))
}

/// Reads JSON as a type; an error names the object that the JSON is of, or is about.
///
/// # Errors
/// It does not have the shape of its type.
pub fn parse<T: DeserializeOwned>(object: &ObjectId, json: Value) -> Result<T, RequestError> {
    typed(json).map_err(|error| RequestError::render(object, error))
}

impl Failure for RequestError {
    fn error_type(&self) -> ErrorType {
        match self {
            Self::Api { source, .. } => ErrorType::of(source),
            Self::Timeout { .. } => ErrorType::Timeout,
            Self::Foreign { .. } => ErrorType::AlreadyExists,
            Self::Changed { .. } => ErrorType::Conflict,
            // As a webhook that denies the write.
            Self::Contested { .. } => ErrorType::Forbidden,
            Self::Render { .. } => ErrorType::Validation,
        }
    }
}

/// The message of the server; kube prints the whole status a second time.
fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if is_not_declared(status) => format!(
            "{}; the cluster serves another version of this kind: if a CustomResourceDefinition defines it, apply a newer one",
            status.message
        ),
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}

/// Awaits a read from the API server, for [`STEP_TIMEOUT`] at most. `what` completes the sentence "cannot …".
///
/// # Errors
/// The API server rejects the request, or does not answer.
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
    /// Returns the kind of the failure.
    pub fn error_type(&self) -> ErrorType {
        self.source.as_deref().map_or(ErrorType::Timeout, ErrorType::of)
    }
}

/// Reason for the early end of a reconcile. No reason becomes a condition. All of them are tried again, except an
/// object that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Interruption {
    /// A step against the API server did not succeed.
    #[error(transparent)]
    Step(Box<RequestError>),
    /// A cached object does not have the shape of its kind.
    #[error(transparent)]
    Unreadable(#[from] UnpackError),
    /// Something that no cache holds could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<RequestError> for Interruption {
    fn from(error: RequestError) -> Self {
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

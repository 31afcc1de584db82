//! Kinds of failure and their consequences.

use std::fmt;

use serde::Serialize;

/// End of each line of the API server's answer to a server-side apply with a field that the schema of the served kind
/// does not declare.
pub(crate) const NOT_DECLARED: &str = "field not declared in schema";

/// Whether that is the answer.
pub(crate) fn is_not_declared(status: &kube::core::Status) -> bool {
    status.message.contains(NOT_DECLARED)
}

/// Texts by which the API server reports a webhook that it could not call, for admission and for conversion, in an
/// answer of code 500.
const WEBHOOK_FAILED: [&str; 2] = ["failed calling webhook", "conversion webhook for"];

/// Texts by which the API server reports a webhook that denied a request. The webhook chooses the code of that answer.
const WEBHOOK_DENIED: [&str; 2] = ["admission webhook", "denied the request"];

/// Text by which etcd rejects an object, in an answer of code 500.
const TOO_LARGE: &str = "etcdserver: request is too large";

/// Reason for a failure. The names in snake case are the values of the metric label `error_type`. `ValueEnum` lists all
/// reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum ErrorType {
    /// The object, its namespace or its kind does not exist (404).
    NotFound,
    /// Another client created the object first (409).
    AlreadyExists,
    /// The object changed in between, or another field manager owns a field (409).
    Conflict,
    /// The API server, or we, judged the content to be wrong (422).
    Validation,
    /// The request itself is malformed (400).
    BadRequest,
    /// Our credentials are not accepted (401).
    Unauthorized,
    /// RBAC, a quota, an admission policy or an admission webhook rejects (403, of webhooks any code but 400 and 422).
    Forbidden,
    /// The API server could not call a webhook for the object (500).
    Webhook,
    /// The object is larger than the API server or etcd takes (413, of etcd 500).
    TooLarge,
    /// No answer in time.
    Timeout,
    /// The API server gave up waiting (504).
    ServerTimeout,
    /// The API server cannot be reached or is not ready (503, connection errors).
    Unavailable,
    /// Too many requests (429).
    RateLimited,
    /// Everything else.
    Internal,
}

/// Reaction to a failure.
///
/// Of all but [`Class::Transient`], the API server has answered, and the answer is about one object: it becomes a
/// condition, is tried again every 15 s or so, and holds up nothing that does not need the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The API server is away or busy, or the object changed in between: retry with backoff, log, change no condition.
    Transient,
    /// The content is refused: a violation of the user, or a defect of ours. Show the message.
    Invalid,
    /// A right or a quota is missing. Show the message, retry slowly.
    Forbidden,
    /// A webhook that the API server has to call does not answer. Show the message, retry slowly.
    Webhook,
    /// An object of that name has another owner. It is reported and never changed.
    Foreign,
}

impl ErrorType {
    /// Returns the reaction to it.
    pub fn class(self) -> Class {
        match self {
            Self::Validation | Self::BadRequest | Self::TooLarge => Class::Invalid,
            Self::Forbidden | Self::Unauthorized => Class::Forbidden,
            Self::Webhook => Class::Webhook,
            _ => Class::Transient,
        }
    }

    /// The type of an error of the Kubernetes client.
    pub fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(status),
            kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => Self::Unavailable,
            kube::Error::Auth(_) => Self::Unauthorized,
            _ => Self::Internal,
        }
    }

    pub(crate) fn of_status(status: &kube::core::Status) -> Self {
        let mut causes = status.details.iter().flat_map(|details| &details.causes);
        let terminating = causes.any(|cause| cause.reason == "NamespaceTerminating");
        let says = |text: &str| status.message.contains(text);
        match (status.code, status.reason.as_str()) {
            // Refused for good, although the API server calls it its own failure.
            _ if is_not_declared(status) => Self::Validation,
            // The namespace is being deleted with everything in it; no user is at fault.
            (403, _) if terminating => Self::NotFound,
            (500, _) if WEBHOOK_FAILED.into_iter().any(says) => Self::Webhook,
            (500, _) if says(TOO_LARGE) => Self::TooLarge,
            (400, _) => Self::BadRequest,
            (422, _) => Self::Validation,
            _ if WEBHOOK_DENIED.into_iter().all(says) => Self::Forbidden,
            (404 | 410, _) => Self::NotFound,
            (409, "AlreadyExists") => Self::AlreadyExists,
            (409, _) => Self::Conflict,
            (413, _) => Self::TooLarge,
            (401, _) => Self::Unauthorized,
            (403, _) => Self::Forbidden,
            (408, _) => Self::Timeout,
            (429, _) => Self::RateLimited,
            (503, _) => Self::Unavailable,
            (504, _) => Self::ServerTimeout,
            _ => Self::Internal,
        }
    }
}

impl fmt::Display for ErrorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Reaction of a controller to a failed reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Try again, later each time.
    Backoff,
    /// Only a change of the object or of its children can help.
    AwaitChange,
}

/// An error that a reconcile function may return.
pub trait Failure: std::error::Error + Send + 'static {
    /// The value of the metric label `error_type`.
    fn error_type(&self) -> ErrorType;

    /// Returns the reaction. Backing off is right unless another try is known to be useless.
    fn retry(&self) -> Retry {
        Retry::Backoff
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::{Class, ErrorType};

    fn api(code: u16, reason: &str) -> kube::Error {
        kube::Error::Api(Status::failure("x", reason).with_code(code).boxed())
    }

    #[test]
    fn api_errors_are_distinguished() {
        for (code, reason, expected, class) in [
            (404, "NotFound", ErrorType::NotFound, Class::Transient),
            (409, "AlreadyExists", ErrorType::AlreadyExists, Class::Transient),
            (409, "Conflict", ErrorType::Conflict, Class::Transient),
            (422, "Invalid", ErrorType::Validation, Class::Invalid),
            (400, "BadRequest", ErrorType::BadRequest, Class::Invalid),
            (401, "Unauthorized", ErrorType::Unauthorized, Class::Forbidden),
            (403, "Forbidden", ErrorType::Forbidden, Class::Forbidden),
            (429, "TooManyRequests", ErrorType::RateLimited, Class::Transient),
            (500, "InternalError", ErrorType::Internal, Class::Transient),
            (503, "ServiceUnavailable", ErrorType::Unavailable, Class::Transient),
            (504, "Timeout", ErrorType::ServerTimeout, Class::Transient),
        ] {
            let found = ErrorType::of(&api(code, reason));
            assert_eq!((found, found.class()), (expected, class), "{code} {reason}");
        }
    }

    /// Found defect: the two answers of code 500 were retried without a condition for as long as they lasted.
    #[test]
    fn answers_about_one_object_are_no_transient_failures() {
        let unreachable = "Internal error occurred: failed calling webhook \"v.example.com\": failed to call webhook: Post \
                           \"https://w.n.svc:443/?timeout=10s\": no endpoints available for service \"w\"";
        let conversion = "conversion webhook for nvidia.com/v1beta1, Kind=DynamoModel failed: Post \"https://w.n.svc\": \
                          connection refused";
        let denied = "admission webhook \"v.example.com\" denied the request: host is taken";
        for (code, message, expected, class) in [
            (500, unreachable, ErrorType::Webhook, Class::Webhook),
            (500, conversion, ErrorType::Webhook, Class::Webhook),
            (500, "Internal error occurred: etcd cluster is unavailable", ErrorType::Internal, Class::Transient),
            (500, "etcdserver: request is too large", ErrorType::TooLarge, Class::Invalid),
            (413, "Request entity too large: limit is 3145728", ErrorType::TooLarge, Class::Invalid),
            (403, denied, ErrorType::Forbidden, Class::Forbidden),
            (429, denied, ErrorType::Forbidden, Class::Forbidden),
            (500, denied, ErrorType::Forbidden, Class::Forbidden),
            (409, denied, ErrorType::Forbidden, Class::Forbidden),
            (400, denied, ErrorType::BadRequest, Class::Invalid),
            (422, denied, ErrorType::Validation, Class::Invalid),
        ] {
            let error = kube::Error::Api(Status::failure(message, "").with_code(code).boxed());
            let found = ErrorType::of(&error);
            assert_eq!((found, found.class()), (expected, class), "{code} {message}");
        }
    }

    #[test]
    fn a_field_that_is_not_declared_does_not_go_away_by_itself() {
        let message = "failed to create typed patch object (n/d; g/v, Kind=K): .spec.x: field not declared in schema";
        let error = kube::Error::Api(Status::failure(message, "").with_code(500).boxed());
        assert_eq!(ErrorType::of(&error).class(), Class::Invalid);
    }

    #[test]
    fn a_terminating_namespace_is_not_a_missing_right() {
        let status: Status = serde_json::from_value(serde_json::json!({
            "code": 403, "reason": "Forbidden", "details": { "causes": [{ "reason": "NamespaceTerminating" }] },
        }))
        .unwrap();
        assert_eq!(ErrorType::of(&kube::Error::Api(status.boxed())).class(), Class::Transient);
    }
}

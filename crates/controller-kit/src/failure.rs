//! What kinds of failure there are, and what follows from each.

use std::fmt;

/// How the API server's answer to a server-side apply ends, line by line, that has a field which the schema of the served kind does
/// not declare.
pub(crate) const NOT_DECLARED: &str = "field not declared in schema";

/// Whether that is the answer.
pub(crate) fn is_not_declared(status: &kube::core::Status) -> bool {
    status.message.contains(NOT_DECLARED)
}

/// Why something failed. The names are the values of the metric label `error_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorType {
    /// The object, its namespace or its kind does not exist (404).
    NotFound,
    /// Somebody created the object first (409).
    AlreadyExists,
    /// The object changed in between, or another field manager owns a field (409).
    Conflict,
    /// The API server, or we, judged the content to be wrong (422).
    Validation,
    /// The request itself is malformed (400).
    BadRequest,
    /// Our credentials are not accepted (401).
    Unauthorized,
    /// RBAC, a quota or an admission policy refuses (403).
    Forbidden,
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

/// What to do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Goes away by itself: retry with backoff, log, change no condition.
    Transient,
    /// The content is refused: the user's mistake, or ours. Show the message.
    Invalid,
    /// A right or a quota is missing. Show the message, retry slowly.
    Forbidden,
    /// An object of that name belongs to somebody else. Show it, never touch it.
    Foreign,
}

impl ErrorType {
    /// The label value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::Conflict => "conflict",
            Self::Validation => "validation",
            Self::BadRequest => "bad_request",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::Timeout => "timeout",
            Self::ServerTimeout => "server_timeout",
            Self::Unavailable => "unavailable",
            Self::RateLimited => "rate_limited",
            Self::Internal => "internal",
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn class(self) -> Class {
        match self {
            Self::Validation | Self::BadRequest => Class::Invalid,
            Self::Forbidden | Self::Unauthorized => Class::Forbidden,
            _ => Class::Transient,
        }
    }

    /// The type of an error of the Kubernetes client.
    #[must_use]
    pub fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(status),
            kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => Self::Unavailable,
            kube::Error::Auth(_) => Self::Unauthorized,
            _ => Self::Internal,
        }
    }

    pub(crate) fn of_status(status: &kube::core::Status) -> Self {
        let terminating = status
            .details
            .as_ref()
            .is_some_and(|details| details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"));
        match (status.code, status.reason.as_str()) {
            // Refused for good, although the API server calls it its own mistake.
            _ if is_not_declared(status) => Self::Validation,
            // The namespace is on its way out, and everything in it. Nobody's mistake.
            (403, _) if terminating => Self::NotFound,
            (404 | 410, _) => Self::NotFound,
            (409, "AlreadyExists") => Self::AlreadyExists,
            (409, _) => Self::Conflict,
            (422, _) => Self::Validation,
            (400, _) => Self::BadRequest,
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
        f.write_str(self.as_str())
    }
}

/// How a controller goes on after a failed reconcile.
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

    /// How to go on. Backing off is right unless it is known that trying again cannot help.
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
    fn api_errors_are_told_apart() {
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

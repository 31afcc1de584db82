//! A mistake in a field, in the words of Kubernetes.

use std::fmt;

use api_types::violations;
use serde_json::Value;

/// A mistake in a field. Shown as the API server shows its own: `spec.components[0].name: Required value: …`.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// The field, for example `spec.components[0].replicas`.
    pub path: String,
    /// What is wrong.
    pub kind: ErrorKind,
    /// The remedy, in words.
    pub detail: String,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq)]
pub enum ErrorKind {
    /// It must be set.
    Required,
    /// It has a value that it must not have.
    Invalid(Value),
    /// It must not be set, or not by this user.
    Forbidden,
    /// It has a value that another one has, and must not.
    Duplicate(Value),
    /// It has a value that is none of those allowed. The detail is made from the list.
    NotSupported {
        /// The value.
        value: Value,
        /// What is allowed.
        supported: Vec<String>,
    },
    /// The list has more items than it may have.
    TooMany(usize),
    /// The text is longer than it may be.
    TooLong,
}

impl FieldError {
    /// A field that must be set.
    #[must_use]
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), kind: ErrorKind::Required, detail: detail.into() }
    }

    /// A value that is not possible.
    #[must_use]
    pub fn invalid(path: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), kind: ErrorKind::Invalid(value.into()), detail: detail.into() }
    }

    /// A change of a field that stays as it was created.
    #[must_use]
    pub fn immutable(path: impl Into<String>, value: impl Into<Value>, remedy: impl fmt::Display) -> Self {
        Self::invalid(path, value, violations::immutable(remedy))
    }

    /// A field that must not be set.
    #[must_use]
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), kind: ErrorKind::Forbidden, detail: detail.into() }
    }

    /// A value that is there already.
    #[must_use]
    pub fn duplicate(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { path: path.into(), kind: ErrorKind::Duplicate(value.into()), detail: String::new() }
    }

    /// A value that is none of those allowed.
    #[must_use]
    pub fn not_supported(path: impl Into<String>, value: impl Into<Value>, supported: &[&str]) -> Self {
        let supported = supported.iter().map(|&value| value.to_owned()).collect();
        let kind = ErrorKind::NotSupported { value: value.into(), supported };
        Self { path: path.into(), kind, detail: String::new() }
    }

    /// The machine-readable reason of the cause in the API server's `Status`.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self.kind {
            ErrorKind::Required => "FieldValueRequired",
            ErrorKind::Invalid(_) => "FieldValueInvalid",
            ErrorKind::Forbidden => "FieldValueForbidden",
            ErrorKind::Duplicate(_) => "FieldValueDuplicate",
            ErrorKind::NotSupported { .. } => "FieldValueNotSupported",
            ErrorKind::TooMany(_) => "FieldValueTooMany",
            ErrorKind::TooLong => "FieldValueTooLong",
        }
    }

    /// The error without the path.
    #[must_use]
    pub fn message(&self) -> String {
        let head = match &self.kind {
            ErrorKind::Required => "Required value".to_owned(),
            ErrorKind::Invalid(value) => format!("Invalid value: {value}"),
            ErrorKind::Forbidden => "Forbidden".to_owned(),
            ErrorKind::Duplicate(value) => format!("Duplicate value: {value}"),
            ErrorKind::NotSupported { value, supported } => {
                format!("Unsupported value: {value}: {}", violations::supported(supported))
            }
            ErrorKind::TooMany(count) => format!("Too many: {count}"),
            ErrorKind::TooLong => "Too long".to_owned(),
        };
        if self.detail.is_empty() { head } else { format!("{head}: {}", self.detail) }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_as_those_of_the_api_server() {
        for (error, text) in [
            (FieldError::required("spec.a", "name it"), "spec.a: Required value: name it"),
            (FieldError::invalid("spec.a", "x", "use y"), "spec.a: Invalid value: \"x\": use y"),
            (FieldError::invalid("spec.a", 3, "use 2"), "spec.a: Invalid value: 3: use 2"),
            (FieldError::forbidden("spec.a", "leave it"), "spec.a: Forbidden: leave it"),
            (FieldError::duplicate("spec.a[1]", "x"), "spec.a[1]: Duplicate value: \"x\""),
            (
                FieldError::not_supported("spec.a", "x", &["y", "z"]),
                "spec.a: Unsupported value: \"x\": supported values: \"y\", \"z\"",
            ),
            (
                FieldError::immutable("spec.a", "x", "delete it and create it anew"),
                "spec.a: Invalid value: \"x\": field is immutable; delete it and create it anew",
            ),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}

//! What is wrong, and what the user should know besides.

use std::fmt::Display;

use serde_json::Value;

use super::{FieldPath, Node};
use crate::admission::{ErrorKind, FieldError};

/// Nobody reads more mistakes of one object.
const MOST: usize = 200;

/// A mistake in a field.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::admission) struct Mistake {
    pub(in crate::admission) at: FieldPath,
    pub(in crate::admission) kind: ErrorKind,
    /// What is wrong and what to do about it.
    pub(in crate::admission) detail: String,
}

impl Mistake {
    /// As the user gets it.
    pub(in crate::admission) fn to_error(&self) -> FieldError {
        FieldError { path: self.at.to_string(), kind: self.kind.clone(), detail: self.detail.clone() }
    }
}

/// The mistakes of an object, in the order of its fields, and warnings.
#[derive(Debug, Default)]
pub(in crate::admission) struct Findings {
    pub(in crate::admission) mistakes: Vec<Mistake>,
    pub(in crate::admission) warnings: Vec<String>,
}

impl Findings {
    /// Tells the user something without refusing anything.
    pub(in crate::admission) fn warn(&mut self, warning: impl Display) {
        self.warnings.push(warning.to_string());
    }

    /// The field must be set.
    pub(in crate::admission) fn required(&mut self, at: &Node<'_>, detail: impl Into<String>) {
        self.push(at, ErrorKind::Required, detail);
    }

    /// What stands in the field is not possible.
    pub(in crate::admission) fn invalid(&mut self, at: &Node<'_>, detail: impl Into<String>) {
        self.push(at, ErrorKind::Invalid(at.value().clone()), detail);
    }

    /// What stands in the field is not possible, but must not be repeated in messages.
    pub(in crate::admission) fn invalid_secret(&mut self, at: &Node<'_>, detail: impl Into<String>) {
        self.push(at, ErrorKind::Invalid(Value::from("<redacted>")), detail);
    }

    /// The field keeps the value it was created with.
    pub(in crate::admission) fn immutable(&mut self, at: &Node<'_>, remedy: impl Display) {
        self.invalid(at, api_types::violations::immutable(remedy));
    }

    /// The field must not be set, or not by this user.
    pub(in crate::admission) fn forbidden(&mut self, at: &Node<'_>, detail: impl Into<String>) {
        self.push(at, ErrorKind::Forbidden, detail);
    }

    /// The same stands elsewhere, and must not.
    pub(in crate::admission) fn duplicate(&mut self, at: &Node<'_>, detail: impl Into<String>) {
        self.push(at, ErrorKind::Duplicate(at.value().clone()), detail);
    }

    /// The field has more than fits.
    pub(in crate::admission) fn too_long(&mut self, at: &Node<'_>, detail: impl Into<String>) {
        self.push(at, ErrorKind::TooLong, detail);
    }

    /// What stands in the field is none of the values that are possible.
    pub(in crate::admission) fn not_supported(&mut self, at: &Node<'_>, supported: &[&str], detail: impl Into<String>) {
        let supported = supported.iter().map(|&value| value.to_owned()).collect();
        self.push(at, ErrorKind::NotSupported { value: at.value().clone(), supported }, detail);
    }

    fn push(&mut self, at: &Node<'_>, kind: ErrorKind, detail: impl Into<String>) {
        if self.mistakes.len() < MOST {
            self.mistakes.push(Mistake { at: at.path().clone(), kind, detail: detail.into() });
        }
    }
}

//! What is wrong, and what the user should know besides.

use std::fmt::Display;

use api_types::violations::{Reason, Violation, supported};
use serde_json::Value;

use super::{FieldPath, Node};

/// The most violations of one object that are reported.
const MOST: usize = 200;

/// The violations of an object, in the order of its fields, and warnings.
#[derive(Debug, Default)]
pub(in crate::admission) struct Findings {
    pub(in crate::admission) violations: Vec<Violation<FieldPath>>,
    pub(in crate::admission) warnings: Vec<String>,
}

impl Findings {
    /// Tells the user something without refusing anything.
    pub(in crate::admission) fn warn(&mut self, warning: impl Display) {
        self.warnings.push(warning.to_string());
    }

    /// The field must be set.
    pub(in crate::admission) fn required(&mut self, at: &Node<'_>, text: impl AsRef<str>) {
        self.push(at, Reason::Required, Value::Null, text);
    }

    /// What stands in the field is not possible.
    pub(in crate::admission) fn invalid(&mut self, at: &Node<'_>, text: impl AsRef<str>) {
        self.push(at, Reason::Invalid, at.value().clone(), text);
    }

    /// The field keeps the value it was created with.
    pub(in crate::admission) fn immutable(&mut self, at: &Node<'_>, remedy: impl Display) {
        self.invalid(at, api_types::violations::immutable(remedy));
    }

    /// The field must not be set, or not by this user.
    pub(in crate::admission) fn forbidden(&mut self, at: &Node<'_>, text: impl AsRef<str>) {
        self.push(at, Reason::Forbidden, Value::Null, text);
    }

    /// A violation that a rule about a typed component has found in `component`; the value is as the user wrote it.
    pub(in crate::admission) fn add(&mut self, component: &Node<'_>, violation: Violation) {
        if self.violations.len() < MOST {
            let at = component.at(violation.path.trim_start_matches("spec."));
            let value = if violation.value.is_null() { Value::Null } else { at.value().clone() };
            self.violations.push(Violation { value, ..violation.at(|_| at.path().clone()) });
        }
    }

    /// A violation that a rule about one field has found in it.
    pub(in crate::admission) fn add_at<P>(&mut self, at: &Node<'_>, violation: Violation<P>) {
        if self.violations.len() < MOST {
            self.violations.push(violation.at(|_| at.path().clone()));
        }
    }

    /// The field has more than fits.
    pub(in crate::admission) fn too_long(&mut self, at: &Node<'_>, text: impl AsRef<str>) {
        self.push(at, Reason::TooLong, Value::Null, text);
    }

    /// The value of the field is none of those supported; `remedy` may be empty.
    pub(in crate::admission) fn not_supported(&mut self, at: &Node<'_>, values: &[&str], remedy: &str) {
        let separator = if remedy.is_empty() { "" } else { "; " };
        let text = format!("{}{separator}{remedy}", supported(values));
        self.push(at, Reason::NotSupported, at.value().clone(), text);
    }

    fn push(&mut self, at: &Node<'_>, reason: Reason, value: Value, text: impl AsRef<str>) {
        if self.violations.len() < MOST {
            self.violations.push(Violation::of_text(at.path().clone(), reason, value, text.as_ref()));
        }
    }
}

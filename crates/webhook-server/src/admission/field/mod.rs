//! Fields of an object: where they are, what stands there, and what is wrong with them.

mod node;
mod path;

use std::fmt::Display;

use api_types::violations::{Reason, Violation};
pub(super) use node::Node;
pub(super) use path::{FieldPath, Segment};
use rendering::rules;
use serde_json::Value;

/// The most violations of one object that are reported.
const MOST: usize = 200;

/// The violations of an object, in the order of its fields, and warnings.
#[derive(Debug, Default)]
pub(in crate::admission) struct Findings {
    pub(in crate::admission) violations: Vec<Violation<FieldPath>>,
    pub(in crate::admission) warnings: Vec<String>,
}

impl Findings {
    /// Adds a warning.
    pub(in crate::admission) fn warn(&mut self, warning: impl Display) {
        self.warnings.push(warning.to_string());
    }

    /// The field must be set.
    pub(in crate::admission) fn required(&mut self, at: &Node<'_>, text: impl AsRef<str>) {
        self.push(at, Reason::Required, Value::Null, text);
    }

    /// The value of the field is not possible.
    pub(in crate::admission) fn invalid(&mut self, at: &Node<'_>, text: impl AsRef<str>) {
        self.push(at, Reason::Invalid, at.value().clone(), text);
    }

    /// The field must not be set, or not by this user.
    pub(in crate::admission) fn forbidden(&mut self, at: &Node<'_>, text: impl AsRef<str>) {
        self.push(at, Reason::Forbidden, Value::Null, text);
    }

    /// Adds what typed rules have found in the object `root`.
    pub(in crate::admission) fn take(&mut self, root: &Node<'_>, found: rules::Findings) {
        found.violations.into_iter().for_each(|violation| self.add(root, violation));
        let warnings =
            found.warnings.into_iter().map(|warning| format!("{}: {}", root.at(&warning.path).path(), warning.text));
        self.warnings.extend(warnings);
    }

    /// Adds a violation that a typed rule has found below `root`; its value is as the user wrote it.
    pub(in crate::admission) fn add(&mut self, root: &Node<'_>, violation: Violation) {
        if self.violations.len() < MOST {
            let at = root.at(&violation.path);
            let value = if violation.value.is_null() { Value::Null } else { at.value().clone() };
            self.violations.push(Violation { value, ..violation.at(|_| at.path().clone()) });
        }
    }

    /// The field has more than fits.
    pub(in crate::admission) fn too_long(&mut self, at: &Node<'_>, text: impl AsRef<str>) {
        self.push(at, Reason::TooLong, Value::Null, text);
    }

    fn push(&mut self, at: &Node<'_>, reason: Reason, value: Value, text: impl AsRef<str>) {
        if self.violations.len() < MOST {
            self.violations.push(Violation::of_text(at.path().clone(), reason, value, text.as_ref()));
        }
    }
}

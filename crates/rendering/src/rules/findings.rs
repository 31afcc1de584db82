//! Violations and warnings that rules find.

use std::fmt::Display;

use api_types::violations::{Reason, Violation, immutable, supported};
use serde_json::Value;

/// The violations of an object and the warnings about it, in the order of its fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// The violations.
    pub violations: Vec<Violation>,
    /// The warnings.
    pub warnings: Vec<Warning>,
}

/// A warning about a field of an object that is admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The field.
    pub path: String,
    /// The consequence, and what to do.
    pub text: String,
}

impl Findings {
    /// Adds a warning.
    pub fn warn(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.warnings.push(Warning { path: path.into(), text: text.into() });
    }

    /// Adds violations that another rule has found.
    pub fn extend(&mut self, violations: impl IntoIterator<Item = Violation>) {
        self.violations.extend(violations);
    }

    pub(super) fn required(&mut self, path: impl Into<String>, text: impl AsRef<str>) {
        self.push(path, Reason::Required, Value::Null, text);
    }

    pub(super) fn invalid(&mut self, path: impl Into<String>, value: impl Into<Value>, text: impl AsRef<str>) {
        self.push(path, Reason::Invalid, value, text);
    }

    /// The field keeps the value that it was created with.
    pub(super) fn immutable(&mut self, path: impl Into<String>, value: impl Into<Value>, remedy: impl Display) {
        self.invalid(path, value, immutable(remedy));
    }

    pub(super) fn forbidden(&mut self, path: impl Into<String>, text: impl AsRef<str>) {
        self.push(path, Reason::Forbidden, Value::Null, text);
    }

    fn push(&mut self, path: impl Into<String>, reason: Reason, value: impl Into<Value>, text: impl AsRef<str>) {
        self.violations.push(Violation::of_text(path, reason, value, text.as_ref()));
    }
}

/// The violation of a value that is not among the supported ones; `remedy` may be empty.
pub(super) fn not_supported(path: impl Into<String>, value: &str, values: &[&str], remedy: &str) -> Violation {
    let separator = if remedy.is_empty() { "" } else { "; " };
    Violation::of_text(path, Reason::NotSupported, value, &format!("{}{separator}{remedy}", supported(values)))
}

/// The violation of a rule about a component, whose paths begin with `spec.`, at the component's place `at`.
pub(crate) fn below(violation: Violation, at: &str) -> Violation {
    violation.at(|path| path.strip_prefix("spec.").map_or_else(|| path.clone(), |rest| format!("{at}.{rest}")))
}

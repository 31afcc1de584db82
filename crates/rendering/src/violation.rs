//! The list in which violations are gathered.

use api_types::violations::Violation;

/// Collects violations, so that all are reported at once.
#[derive(Debug, Default)]
pub(crate) struct Violations(Vec<Violation>);

impl Violations {
    /// Adds one.
    pub(crate) fn push(&mut self, violation: Violation) {
        self.0.push(violation);
    }

    /// The value, or nothing and the violation kept.
    pub(crate) fn keep<T>(&mut self, result: Result<T, Violation>) -> Option<T> {
        result.map_err(|violation| self.0.push(violation)).ok()
    }

    /// The value, or nothing and the violations kept.
    pub(crate) fn keep_all<T>(&mut self, result: Result<T, Vec<Violation>>) -> Option<T> {
        result.map_err(|violations| self.0.extend(violations)).ok()
    }

    /// Everything found.
    pub(crate) fn into_inner(self) -> Vec<Violation> {
        self.0
    }
}

//! Gathers the violations that several checks find.

use api_types::violations::Violation;

/// Keeps the violations of results, so that all are reported at once.
pub(crate) trait KeepViolations {
    /// The value, or nothing and the violation kept.
    fn keep<T>(&mut self, result: Result<T, Violation>) -> Option<T>;

    /// The value, or nothing and the violations kept.
    fn keep_all<T>(&mut self, result: Result<T, Vec<Violation>>) -> Option<T>;
}

impl KeepViolations for Vec<Violation> {
    fn keep<T>(&mut self, result: Result<T, Violation>) -> Option<T> {
        result.map_err(|violation| self.push(violation)).ok()
    }

    fn keep_all<T>(&mut self, result: Result<T, Vec<Violation>>) -> Option<T> {
        result.map_err(|violations| self.extend(violations)).ok()
    }
}

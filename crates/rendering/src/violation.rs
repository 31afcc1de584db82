//! Gathers the violations that several checks find.

use api_types::violations::Violation;

/// The value, or nothing and the violation kept, so that all are reported at once.
pub(crate) fn keep<T>(violations: &mut Vec<Violation>, result: Result<T, Violation>) -> Option<T> {
    result.map_err(|violation| violations.push(violation)).ok()
}

/// The value, or nothing and the violations kept.
pub(crate) fn keep_all<T>(violations: &mut Vec<Violation>, result: Result<T, Vec<Violation>>) -> Option<T> {
    result.map_err(|found| violations.extend(found)).ok()
}

//! A violation in a component's spec, and the list in which they are gathered.

use thiserror::Error;

/// A violation that only the user can mend.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}{}: {problem}; {remedy}", shown(.value))]
pub struct Violation {
    /// Path of the field within the object, such as `spec.podTemplate.spec.containers[main].image`.
    pub field: String,
    /// The value; empty if there is none.
    pub value: String,
    /// What is wrong with it.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

impl Violation {
    /// A violation, from its parts in the order in which they are read.
    pub fn new(
        field: impl Into<String>,
        value: impl Into<String>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { field: field.into(), value: value.into(), problem: problem.into(), remedy: remedy.into() }
    }
}

/// The value on one line of bearable length, whatever it holds.
fn shown(value: &str) -> String {
    const MAX_CHARS: usize = 80;
    if value.is_empty() {
        return String::new();
    }
    let cut: String = value.chars().take(MAX_CHARS).collect();
    let dots = if cut.len() < value.len() { "…" } else { "" };
    format!(" ({cut:?}{dots})")
}

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

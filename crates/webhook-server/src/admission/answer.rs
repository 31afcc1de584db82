//! The answer to a request.

use api_types::violations::Violation;
use json_patch::PatchOperation;

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Admitted, after the patch has been applied to the object.
    Allow {
        /// What defaults change; empty on validating paths.
        patch: Vec<PatchOperation>,
        /// Shown to the user by clients such as kubectl.
        warnings: Vec<String>,
    },
    /// Refused.
    Deny {
        /// All violations; never empty.
        violations: Vec<Violation>,
        /// Shown to the user beside the violations.
        warnings: Vec<String>,
    },
}

impl Answer {
    /// Admitted as it is, without a word.
    #[must_use]
    pub fn admitted() -> Self {
        Self::Allow { patch: Vec::new(), warnings: Vec::new() }
    }

    /// Refused if there are violations, otherwise admitted as it is.
    #[must_use]
    pub fn of(violations: Vec<Violation>, warnings: Vec<String>) -> Self {
        if violations.is_empty() {
            Self::Allow { patch: Vec::new(), warnings }
        } else {
            Self::Deny { violations, warnings }
        }
    }
}

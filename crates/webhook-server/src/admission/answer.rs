//! The answer to a request.

use json_patch::PatchOperation;

use super::FieldError;

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
        /// Every mistake that was found, not only the first; never empty.
        errors: Vec<FieldError>,
        /// Shown to the user beside the errors.
        warnings: Vec<String>,
    },
}

impl Answer {
    /// Admitted as it is, without a word.
    #[must_use]
    pub fn admitted() -> Self {
        Self::Allow { patch: Vec::new(), warnings: Vec::new() }
    }

    /// Refused if there are errors, otherwise admitted as it is.
    #[must_use]
    pub fn of(errors: Vec<FieldError>, warnings: Vec<String>) -> Self {
        if errors.is_empty() { Self::Allow { patch: Vec::new(), warnings } } else { Self::Deny { errors, warnings } }
    }
}

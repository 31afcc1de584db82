//! The author's mistakes, in one message. Whoever holds a validated component need not look for mistakes again.

use api_types::v1beta1::DynamoComponentDeployment;
use workload::{Invalid, ValidatedComponent};

/// The component without mistakes.
///
/// # Errors
/// The message for the author: all mistakes, each with the field, its value and the remedy.
pub fn validate(component: &DynamoComponentDeployment) -> Result<ValidatedComponent<'_>, String> {
    workload::validate(component).map_err(|mistakes| message(&mistakes))
}

fn message(mistakes: &[Invalid]) -> String {
    mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

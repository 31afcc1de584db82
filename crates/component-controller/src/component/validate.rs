//! The author's mistakes, in one message. Whoever holds a validated component need not look for mistakes again.

use api_types::v1beta1::DynamoComponentDeployment;
use workload::{Invalid, ValidatedComponent};

/// The component without mistakes.
///
/// # Errors
/// The message for the author: all mistakes, each with the field, its value and the remedy.
pub fn validate(component: &DynamoComponentDeployment) -> Result<ValidatedComponent<'_>, String> {
    let valid = workload::validate(component).map_err(|mistakes| message(&mistakes))?;
    let spec = &component.spec.component;
    if spec.is_multinode() {
        return Err(message(&[Invalid {
            field: "spec.multinode.nodeCount".to_owned(),
            value: spec.node_count().to_string(),
            problem:
                "needs the API leaderworkerset.x-k8s.io (LeaderWorkerSet) or grove.io (Grove), and neither serves \
                      this component"
                    .to_owned(),
            remedy: "install one of the two on the cluster, or remove spec.multinode".to_owned(),
        }]));
    }
    Ok(valid)
}

fn message(mistakes: &[Invalid]) -> String {
    mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

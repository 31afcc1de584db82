//! The author's mistakes, in one message. Whoever holds a validated component need not look for mistakes again.

use api_types::v1beta1::DynamoComponentDeployment;
use workload::{LeaderWorkerSet, ValidatedComponent, Violation, validate_leader_worker_set};

use super::workload::WorkloadKind;

/// The component without mistakes. `live` is the LeaderWorkerSet of its name, whoever it belongs to.
///
/// # Errors
/// The message for the author: all mistakes, each with the field, its value and the remedy.
pub fn validate<'a>(
    component: &'a DynamoComponentDeployment,
    live: Option<&LeaderWorkerSet>,
) -> Result<ValidatedComponent<'a>, String> {
    let valid = workload::validate(component).map_err(|mistakes| message(&mistakes))?;
    if WorkloadKind::of(component) == WorkloadKind::LeaderWorkerSet {
        let serves = live.and_then(|set| set.status.as_ref()).is_some_and(|status| status.ready_replicas > 0);
        validate_leader_worker_set(&valid, serves).map_err(|mistakes| message(&mistakes))?;
    }
    Ok(valid)
}

/// The message that replicas cannot span nodes here.
pub fn api_missing(component: &DynamoComponentDeployment) -> String {
    let nodes = component.spec.component.node_count();
    format!(
        "spec.multinode.nodeCount ({nodes}): needs the API leaderworkerset.x-k8s.io, which this cluster does not serve or \
         the operator is told not to use; install LeaderWorkerSet, or remove spec.multinode"
    )
}

fn message(mistakes: &[Violation]) -> String {
    mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

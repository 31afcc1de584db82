//! Validates a component. Returns all violations in one message.

use api_types::{conditions::component as reason, v1beta1::DynamoComponentDeployment, violations::Violation};
use rendering::{
    LeaderWorkerSet, ValidatedComponent,
    checkpoint::{Start, start},
    device_claims::ContainerClaim,
    validate_leader_worker_set,
};

use super::{
    model::{ComponentBlocked, ComponentObserved, WorkloadKind},
    requeue,
};

/// Validates a component and what it depends on. Returns it, and how its pods start.
///
/// # Errors
/// All violations of one kind, each with field, value and remedy; or what the cluster lacks.
pub fn validate(observed: &ComponentObserved) -> Result<(ValidatedComponent<'_>, Start), ComponentBlocked> {
    if let Err(message) = &observed.legacy_needs {
        return Err(invalid_spec(message.clone()));
    }
    let set = observed.leader_worker_set.as_ref().map(|live| &live.object);
    let component = validate_spec(&observed.component, set).map_err(invalid_spec)?;
    if WorkloadKind::of(&observed.component) == WorkloadKind::LeaderWorkerSet && !observed.serves_leader_worker_sets {
        let message = api_missing(&observed.component);
        return Err(ComponentBlocked { reason: reason::API_MISSING, message, retry: Some(requeue::API) });
    }
    let start = start(&component, &observed.checkpoint).map_err(invalid_spec)?;
    Ok((component, start))
}

/// Device claims whose GPUs must be counted before the component can be planned; none of an invalid component.
pub fn gpu_claims(observed: &ComponentObserved) -> Vec<ContainerClaim> {
    validate(observed).map(|(valid, _)| valid.gpu_claims).unwrap_or_default()
}

/// Validates the spec alone. `live` is the LeaderWorkerSet of the component's name, with any owner.
///
/// # Errors
/// All violations in one message.
pub fn validate_spec<'a>(
    component: &'a DynamoComponentDeployment,
    live: Option<&LeaderWorkerSet>,
) -> Result<ValidatedComponent<'a>, String> {
    let valid = rendering::validate(component).map_err(|violations| message(&violations))?;
    if WorkloadKind::of(component) == WorkloadKind::LeaderWorkerSet {
        let serves = live.and_then(|set| set.status.as_ref()).is_some_and(|status| status.ready_replicas > 0);
        validate_leader_worker_set(&valid, serves).map_err(|violations| message(&violations))?;
    }
    Ok(valid)
}

/// A component whose spec or object is invalid.
pub fn invalid_spec(message: String) -> ComponentBlocked {
    ComponentBlocked { reason: reason::INVALID_SPEC, message, retry: None }
}

fn api_missing(component: &DynamoComponentDeployment) -> String {
    let nodes = component.spec.component.node_count();
    format!(
        "spec.multinode.nodeCount ({nodes}): needs the API leaderworkerset.x-k8s.io, which this cluster does not serve or \
         the operator is configured not to use; install LeaderWorkerSet, or remove spec.multinode"
    )
}

fn message(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

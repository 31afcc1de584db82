//! The checkpoint that a component starts from.

use api_types::{
    v1beta1::{ComponentSpec, EngineMode, MAIN_CONTAINER},
    violations::{self, Reason, Violation},
};
use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};
use serde_json::Value;

use crate::{CheckpointUse, SharedGpus, rules, violation::Violations};

const FIELD: &str = "spec.experimental.checkpoint";

/// What the component says, `None` if it always starts cold.
///
/// # Errors
/// Every violation.
pub(super) fn check<'a>(
    spec: &'a ComponentSpec,
    pod: &PodSpec,
    shared: Option<SharedGpus<'_>>,
) -> Result<Option<CheckpointUse<'a>>, Vec<Violation>> {
    let experimental = spec.experimental.as_ref();
    let given = experimental.and_then(|experimental| experimental.checkpoint.as_ref());
    let Some(checkpoint) = given.filter(|checkpoint| checkpoint.enabled) else { return Ok(None) };
    let mut violations = Violations::default();
    if experimental.is_some_and(|experimental| experimental.failover.is_some()) {
        violations.push(Violation::of_text(FIELD, Reason::Forbidden, Value::Null, violations::CHECKPOINT_FAILOVER));
    }
    if shared.is_some_and(|shared| shared.mode == EngineMode::InterPod) {
        let text = violations::CHECKPOINT_BETWEEN_PODS;
        violations.push(Violation::of_text(FIELD, Reason::Forbidden, Value::Null, text));
    }
    let target = checkpoint.target_container_name.as_deref().unwrap_or(MAIN_CONTAINER);
    if pod.containers.iter().all(|container| container.name != target) {
        let problem = "names no container of spec.podTemplate.spec";
        violations.push(invalid(".targetContainerName", target, problem, "name the container that runs the engine"));
    }
    let job = checkpoint.job.as_ref();
    let overlay = job.and_then(|job| job.pod_template.as_ref());
    let clients = job.and_then(|job| job.gms_client_containers.as_deref()).unwrap_or_default();
    check_captured_pod(target, overlay, clients, &mut violations);
    let violations = violations.into_inner();
    let reference = checkpoint.checkpoint_ref.as_deref().filter(|name| !name.is_empty());
    let identity = checkpoint.identity.as_ref().filter(|_| reference.is_none());
    let usage = CheckpointUse { reference, identity, policy: checkpoint.startup_policy, target, overlay, clients };
    if violations.is_empty() { Ok(Some(usage)) } else { Err(violations) }
}

/// The pod that is captured has the target, and what the user adds.
fn check_captured_pod(target: &str, overlay: Option<&Value>, clients: &[String], violations: &mut Violations) {
    let at = format!("{FIELD}.job.podTemplate");
    let (template, misfits) = rules::fit::<PodTemplateSpec>(&at, overlay.unwrap_or(&Value::Null));
    if !misfits.is_empty() {
        misfits.into_iter().for_each(|misfit| violations.push(misfit));
        return;
    }
    let added: Vec<_> = template.spec.into_iter().flat_map(|pod| pod.containers).map(|added| added.name).collect();
    for (index, client) in clients.iter().enumerate() {
        if client != target && !added.contains(client) {
            let problem = "names no container of the pod that is captured";
            let remedy = "the pod has the target and the containers of job.podTemplate; name one of those";
            violations.push(invalid(&format!(".job.gmsClientContainers[{index}]"), client, problem, remedy));
        }
    }
}

fn invalid(field: &str, value: &str, problem: &str, remedy: &str) -> Violation {
    Violation::invalid(format!("{FIELD}{field}"), value, problem, remedy)
}

//! Validates that the user prepared a captured pod for shared GPU memory.

use api_types::{
    env as names,
    v1alpha1::{DynamoCheckpoint, EngineMode},
    violations::Violation,
};
use k8s_openapi::api::core::v1::{Container, PodSpec};

use crate::{
    pod::gpu_memory::{CLAIM, SERVER, SOCKET_DIR, SOCKETS},
    violation::Violations,
};

const SERVICE: &str = "spec.gpuMemoryService";
const POD: &str = "spec.job.podTemplateSpec.spec";

/// Validates that the pod template has what processes with shared GPU memory need.
///
/// # Errors
/// Everything that is missing.
pub fn check_shared_gpu_memory(checkpoint: &DynamoCheckpoint) -> Result<(), Vec<Violation>> {
    let Some(service) = checkpoint.spec.gpu_memory_service.as_ref().filter(|service| service.enabled) else {
        return Ok(());
    };
    let mut violations = Violations::default();
    if service.mode == EngineMode::InterPod {
        let problem = "is not served for checkpoints";
        violations.push(Violation::invalid(format!("{SERVICE}.mode"), "interPod", problem, "write intraPod"));
        return Err(violations.into_inner());
    }
    let empty = PodSpec::default();
    let pod = checkpoint.spec.job.pod_template_spec.spec.as_ref().unwrap_or(&empty);
    if !pod.resource_claims.iter().flatten().any(|claim| claim.name == CLAIM) {
        violations.push(missing(&format!("{POD}.resourceClaims"), CLAIM));
    }
    if !pod.volumes.iter().flatten().any(|volume| volume.name == SOCKETS) {
        violations.push(missing(&format!("{POD}.volumes"), SOCKETS));
    }
    let target = checkpoint.spec.job.target_container();
    let others = service.extra_client_containers.iter().flatten().map(String::as_str);
    for name in std::iter::once(target).chain(others) {
        check_client(&pod.containers, "containers", name, &mut violations);
    }
    check_client(pod.init_containers.as_deref().unwrap_or_default(), "initContainers", SERVER, &mut violations);
    let violations = violations.into_inner();
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

fn check_client(all: &[Container], list: &str, name: &str, violations: &mut Violations) {
    let Some(container) = all.iter().find(|container| container.name == name) else {
        violations.push(missing(&format!("{POD}.{list}"), name));
        return;
    };
    let at = format!("{POD}.{list}[{name}]");
    let mut claims = container.resources.iter().flat_map(|resources| resources.claims.iter().flatten());
    if !claims.any(|claim| claim.name == CLAIM) {
        violations.push(missing(&format!("{at}.resources.claims"), CLAIM));
    }
    let mut mounts = container.volume_mounts.iter().flatten();
    if !mounts.any(|mount| mount.name == SOCKETS && mount.mount_path == SOCKET_DIR) {
        violations.push(missing(&format!("{at}.volumeMounts"), SOCKETS));
    }
    let mut env = container.env.iter().flatten();
    if !env.any(|variable| variable.name == names::GMS_SOCKET_DIR && variable.value.as_deref() == Some(SOCKET_DIR)) {
        violations.push(missing(&format!("{at}.env"), names::GMS_SOCKET_DIR));
    }
}

fn missing(field: &str, name: &str) -> Violation {
    let remedy = "prepare the pod as it runs in its graph, or remove spec.gpuMemoryService";
    Violation::required(field, format!("has no {name}, without which its processes share no GPU memory"), remedy)
}

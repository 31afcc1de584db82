//! Rules about DynamoCheckpoints.

use std::collections::BTreeSet;

use api_types::{
    env,
    gpu_memory_service::{CLAIM, SERVER, SOCKET_DIR, SOCKETS},
    v1alpha1::{AlphaGpuMemoryService, CheckpointJobSpec},
    v1beta1::MAIN_CONTAINER,
};
use k8s_openapi::api::core::v1::Container;

use super::{Features, Findings};

const POD: &str = "spec.job.podTemplateSpec.spec";

/// Checks a checkpoint as it is.
pub fn check(service: &AlphaGpuMemoryService, job: &CheckpointJobSpec, features: &Features, out: &mut Findings) {
    if !features.checkpoint {
        let text = "checkpoints are switched off in this installation; switch them on in the operator's configuration \
                    (checkpoint.enabled)";
        out.forbidden("spec", text);
    }
    if service.enabled {
        prepared_pod(service, job, out);
    }
}

/// Warns about fields without effect.
pub fn warn(job: &CheckpointJobSpec, out: &mut Findings) {
    let fields = [
        ("backoffLimit", job.backoff_limit.is_some()),
        ("ttlSecondsAfterFinished", job.ttl_seconds_after_finished.is_some()),
    ];
    for (field, _) in fields.into_iter().filter(|(_, is_set)| *is_set) {
        out.warn(format!("spec.job.{field}"), "ignored; remove it");
    }
}

/// A pod that shares GPU memory contains all that this needs: the operator adds nothing to the Job of a checkpoint.
fn prepared_pod(service: &AlphaGpuMemoryService, job: &CheckpointJobSpec, out: &mut Findings) {
    let pod = job.pod_template_spec.spec.clone().unwrap_or_default();
    let clients = service.extra_client_containers.as_deref().unwrap_or_default();
    let names: BTreeSet<&str> = pod.containers.iter().map(|container| container.name.as_str()).collect();
    for (index, client) in clients.iter().enumerate().filter(|(_, client)| !names.contains(client.as_str())) {
        let text = "names no container of job.podTemplateSpec.spec; add the container, or remove the name";
        out.invalid(format!("spec.gpuMemoryService.extraClientContainers[{index}]"), client.as_str(), text);
    }
    if pod.volumes.iter().flatten().all(|volume| volume.name != SOCKETS) {
        let text = format!("add the volume {SOCKETS} (emptyDir) for the GPU memory service");
        out.required(format!("{POD}.volumes"), text);
    }
    let servers = pod.init_containers.as_deref().unwrap_or_default();
    let text = format!("add the GPU memory service as a sidecar named {SERVER}");
    match servers.iter().position(|server| server.name == SERVER) {
        Some(index) => user_of_memory(&format!("{POD}.initContainers[{index}]"), &servers[index], out),
        None => out.required(format!("{POD}.initContainers"), text),
    }
    let given = job.target_container_name.as_deref().filter(|name| !name.is_empty());
    let target = given.unwrap_or(MAIN_CONTAINER);
    for (index, container) in pod.containers.iter().enumerate() {
        if container.name == target || clients.contains(&container.name) {
            user_of_memory(&format!("{POD}.containers[{index}]"), container, out);
        }
    }
    if pod.resource_claims.iter().flatten().all(|claim| claim.name != CLAIM) {
        out.required(format!("{POD}.resourceClaims"), format!("add the claim {CLAIM} for the GPUs that are shared"));
    }
    match given {
        _ if names.contains(target) => {}
        None => {
            let text = format!("add the container {MAIN_CONTAINER}, or name another one in targetContainerName");
            out.required(format!("{POD}.containers"), text);
        }
        Some(given) => {
            let text = "names no container of podTemplateSpec.spec; add the container, or name another one";
            out.invalid("spec.job.targetContainerName", given, text);
        }
    }
}

/// Checks a container's settings for the shared memory.
fn user_of_memory(at: &str, container: &Container, out: &mut Findings) {
    let sockets = container.env.iter().flatten().find(|variable| variable.name == env::GMS_SOCKET_DIR);
    if sockets.and_then(|sockets| sockets.value.as_deref()) != Some(SOCKET_DIR) {
        out.required(format!("{at}.env"), format!("add {}={SOCKET_DIR}", env::GMS_SOCKET_DIR));
    }
    let mut claims = container.resources.iter().flat_map(|resources| resources.claims.iter().flatten());
    if claims.all(|claim| claim.name != CLAIM) {
        out.required(format!("{at}.resources.claims"), format!("add the claim {CLAIM}"));
    }
    let mut mounts = container.volume_mounts.iter().flatten();
    if !mounts.any(|mount| mount.name == SOCKETS && mount.mount_path == SOCKET_DIR) {
        out.required(format!("{at}.volumeMounts"), format!("mount the volume {SOCKETS} at {SOCKET_DIR}"));
    }
}

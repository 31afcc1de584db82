//! DynamoCheckpoints.

use std::collections::BTreeSet;

use api_types::{env, gpu_memory_service, v1beta1::MAIN_CONTAINER};

use super::{
    Facts,
    field::{Findings, Node},
};

/// Checks a checkpoint as it is.
pub(super) fn check(object: &Node<'_>, facts: &Facts, out: &mut Findings) {
    let spec = object.field("spec");
    if !facts.features.checkpoint {
        let detail = "checkpoints are switched off in this installation; switch them on in the operator's configuration \
                      (checkpoint.enabled)";
        out.forbidden(&spec, detail);
    }
    let service = spec.field("gpuMemoryService");
    if service.field("enabled").is_true() {
        prepared_pod(&service, &spec.field("job"), out);
    }
}

/// Tells what has no effect.
pub(super) fn warn(object: &Node<'_>, out: &mut Findings) {
    for name in ["backoffLimit", "ttlSecondsAfterFinished"] {
        let field = object.fields(&["spec", "job", name]);
        if field.is_set() {
            out.warn(format!("{}: ignored; remove it", field.path()));
        }
    }
}

/// A pod that shares GPU memory brings everything for it along, because nobody adds it to the Job of a checkpoint.
fn prepared_pod(service: &Node<'_>, job: &Node<'_>, out: &mut Findings) {
    let pod = job.fields(&["podTemplateSpec", "spec"]);
    let (containers, servers) = (pod.field("containers"), pod.field("initContainers"));
    let clients = service.field("extraClientContainers");
    let names: BTreeSet<&str> = containers.items().map(|container| container.field("name").text()).collect();
    for client in clients.items().filter(|client| !names.contains(client.text())) {
        out.invalid(&client, "names no container of job.podTemplateSpec.spec; add the container, or remove the name");
    }
    if pod.field("volumes").named(gpu_memory_service::SOCKETS).is_none() {
        out.required(
            &pod.field("volumes"),
            format!("add the volume {} (emptyDir) for the GPU memory service", gpu_memory_service::SOCKETS),
        );
    }
    match servers.named(gpu_memory_service::SERVER) {
        Some(server) => user_of_memory(&server, out),
        None => out.required(
            &servers,
            format!("add the GPU memory service as a sidecar named {}", gpu_memory_service::SERVER),
        ),
    }
    let given = job.field("targetContainerName");
    let target = given.given().filter(|name| !name.is_empty()).unwrap_or(MAIN_CONTAINER);
    let users: BTreeSet<&str> = clients.items().map(|client| client.text()).chain([target]).collect();
    for container in containers.items().filter(|container| users.contains(container.field("name").text())) {
        user_of_memory(&container, out);
    }
    if pod.field("resourceClaims").named(gpu_memory_service::CLAIM).is_none() {
        out.required(
            &pod.field("resourceClaims"),
            format!("add the claim {} for the GPUs that are shared", gpu_memory_service::CLAIM),
        );
    }
    if !names.contains(target) {
        if given.text().is_empty() {
            let detail = format!("add the container {MAIN_CONTAINER}, or name another one in targetContainerName");
            out.required(&containers, detail);
        } else {
            out.invalid(&given, "names no container of podTemplateSpec.spec; add the container, or name another one");
        }
    }
}

/// What a container needs to use the shared memory.
fn user_of_memory(container: &Node<'_>, out: &mut Findings) {
    let variables = container.field("env");
    let sockets = variables.named(env::GMS_SOCKET_DIR);
    if sockets.is_none_or(|sockets| sockets.field("value").text() != gpu_memory_service::SOCKET_DIR) {
        out.required(&variables, format!("add {}={}", env::GMS_SOCKET_DIR, gpu_memory_service::SOCKET_DIR));
    }
    let claims = container.fields(&["resources", "claims"]);
    if claims.named(gpu_memory_service::CLAIM).is_none() {
        out.required(&claims, format!("add the claim {}", gpu_memory_service::CLAIM));
    }
    let mounts = container.field("volumeMounts");
    let is_mount = |mount: &Node<'_>| {
        mount.field("name").text() == gpu_memory_service::SOCKETS
            && mount.field("mountPath").text() == gpu_memory_service::SOCKET_DIR
    };
    if !mounts.items().any(|mount| is_mount(&mount)) {
        out.required(
            &mounts,
            format!("mount the volume {} at {}", gpu_memory_service::SOCKETS, gpu_memory_service::SOCKET_DIR),
        );
    }
}

//! GPU memory that the containers of a pod share: one claim for all of them, and a server beside them that holds it.

pub(crate) mod inter_pod;

use api_types::{env as names, gpu_memory_service};
use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, PodResourceClaim, PodSpec, ResourceClaim, ResourceRequirements, Toleration,
    Volume, VolumeMount,
};

use super::{env, merge::find};
use crate::{SharedGpus, gpus};

/// Name, within a pod, of the claim that its containers share.
pub(crate) const CLAIM: &str = gpu_memory_service::CLAIM;
/// Folder with the sockets of the server.
pub(crate) const SOCKET_DIR: &str = gpu_memory_service::SOCKET_DIR;
/// The server's Python module.
pub(crate) const SERVER_MODULE: &str = "gpu_memory_service.cli.server";

/// Volume of those sockets.
pub(crate) const SOCKETS: &str = gpu_memory_service::SOCKETS;
/// Container of the server.
pub(crate) const SERVER: &str = gpu_memory_service::SERVER;

/// Gives the first container's GPUs to a claim, and the claim to the server and to everybody who uses the memory.
pub(super) fn apply(pod: &mut PodSpec, shared: SharedGpus<'_>, claim_template: &str) {
    let main = pod.containers.first().map(|main| main.name.clone()).unwrap_or_default();
    share(pod, &main, shared.clients, claim_template);
}

/// Gives a container's GPUs to a claim, and the claim to the server, to the container and to others that use the
/// memory.
pub(crate) fn share(pod: &mut PodSpec, container: &str, others: &[String], claim_template: &str) {
    tolerate_gpu_nodes(pod);
    claim(pod, claim_template);
    add_server(pod, container);
    for client in std::iter::once(container).chain(others.iter().map(String::as_str)) {
        add_client(pod, client);
    }
}

/// Makes a container use the memory, and has a server for it; the pod has the claim already.
pub(crate) fn join(pod: &mut PodSpec, container: &str) {
    add_server(pod, container);
    add_client(pod, container);
}

/// For GPUs of a device plugin, admission adds the toleration; for device claims it does not.
fn tolerate_gpu_nodes(pod: &mut PodSpec) {
    let tolerations = pod.tolerations.get_or_insert_default();
    let no_schedule = || Some("NoSchedule".to_owned());
    if tolerations.iter().all(|t| t.key.as_deref() != Some(api_types::GPU) || t.effect != no_schedule()) {
        tolerations.push(Toleration {
            key: Some(api_types::GPU.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: no_schedule(),
            ..Toleration::default()
        });
    }
}

fn claim(pod: &mut PodSpec, template: &str) {
    let claim = PodResourceClaim {
        name: CLAIM.to_owned(),
        resource_claim_name: None,
        resource_claim_template_name: Some(template.to_owned()),
    };
    let claims = pod.resource_claims.get_or_insert_default();
    match claims.iter_mut().find(|other| other.name == CLAIM) {
        Some(other) => *other = claim,
        None => claims.push(claim),
    }
}

/// Adds the server with a container's image, unless the user has one of that name. It restarts by itself, starts before
/// the engines and ends after them: an init container that stays.
fn add_server(pod: &mut PodSpec, with_image_of: &str) {
    let Some(image) = find(pod, with_image_of).map(|container| container.image.clone()) else { return };
    let servers = pod.init_containers.get_or_insert_default();
    if servers.iter().any(|container| container.name == SERVER) {
        return;
    }
    servers.push(Container {
        name: SERVER.to_owned(),
        image,
        command: Some(["python3", "-m", SERVER_MODULE].map(str::to_owned).to_vec()),
        env: Some(vec![env::value(names::GMS_SOCKET_DIR, SOCKET_DIR)]),
        volume_mounts: Some(vec![mount()]),
        resources: Some(ResourceRequirements {
            claims: Some(vec![ResourceClaim { name: CLAIM.to_owned(), request: None }]),
            ..ResourceRequirements::default()
        }),
        restart_policy: Some("Always".to_owned()),
        ..Container::default()
    });
}

/// Lets a container use the memory: sockets, and the claim in place of GPUs of its own.
fn add_client(pod: &mut PodSpec, name: &str) {
    let volume = Volume {
        name: SOCKETS.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource { medium: None, size_limit: None }),
        ..Volume::default()
    };
    let volumes = pod.volumes.get_or_insert_default();
    match volumes.iter_mut().find(|other| other.name == SOCKETS) {
        Some(other) => *other = volume,
        None => volumes.push(volume),
    }
    let Some(container) = find(pod, name) else { return };
    let mounts = container.volume_mounts.get_or_insert_default();
    match mounts.iter_mut().find(|other| other.name == SOCKETS) {
        Some(other) => *other = mount(),
        None => mounts.push(mount()),
    }
    env::set(container, env::value(names::GMS_SOCKET_DIR, SOCKET_DIR));
    let resources = container.resources.get_or_insert_default();
    gpus::remove(resources);
    let claims = resources.claims.get_or_insert_default();
    if claims.iter().all(|claim| claim.name != CLAIM) {
        claims.push(ResourceClaim { name: CLAIM.to_owned(), request: None });
    }
}

fn mount() -> VolumeMount {
    VolumeMount { name: SOCKETS.to_owned(), mount_path: SOCKET_DIR.to_owned(), ..VolumeMount::default() }
}

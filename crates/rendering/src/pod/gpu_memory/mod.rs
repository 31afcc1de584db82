//! GPU memory that the containers of a pod share, or that pods share.
//!
//! The containers of a pod have one claim for all of them, and a server beside them that holds the memory.
//!
//! Of the pods of a rank, one holds the memory, and the engines of that rank use it. The pods have the same GPUs
//! through a claim of Grove, and meet in a folder of their node.

#[cfg(test)]
mod tests;

use api_types::{
    env as names,
    gpu_memory_service::{CLAIM, SERVER, SOCKET_DIR, SOCKETS},
};
use k8s_openapi::api::{
    core::v1::{
        Container, ExecAction, HostPathVolumeSource, PodResourceClaim, PodSpec, Probe, ResourceClaim,
        ResourceRequirements, SecurityContext, Toleration, Volume, VolumeMount,
    },
    resource::v1::ResourceClaimTemplateSpec,
};

use super::{
    env,
    parts::{add, find, put},
    volumes::{empty_dir, mount_of, replace_mount, replace_volume},
};
use crate::{SharedGpus, device_claims::claim_spec, gpus};

/// The server's Python module.
pub(crate) const SERVER_MODULE: &str = "gpu_memory_service.cli.server";

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
    put(&mut pod.resource_claims, claim, |other| other.name == CLAIM);
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
        volume_mounts: Some(vec![mount_of(SOCKETS, SOCKET_DIR)]),
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
    put(&mut pod.volumes, empty_dir(SOCKETS), |other| other.name == SOCKETS);
    let Some(container) = find(pod, name) else { return };
    put(&mut container.volume_mounts, mount_of(SOCKETS, SOCKET_DIR), |other| other.name == SOCKETS);
    env::set(container, env::value(names::GMS_SOCKET_DIR, SOCKET_DIR));
    let resources = container.resources.get_or_insert_default();
    gpus::remove(resources);
    let claim = ResourceClaim { name: CLAIM.to_owned(), request: None };
    add(&mut resources.claims, claim, |claim| claim.name == CLAIM);
}

const VOLUME: &str = "gms-shared";
const NODE_FOLDER: &str = "/run/gms";
const FOLDER: &str = "/run/gms/shared";
const MAKE_WRITABLE: &str = "fix-gms-perms";
const REQUEST: &str = "gpu";
const INDEX_LABEL: &str = "metadata.labels['grove.io/podclique-pod-index']";
/// The server opens two sockets for each GPU.
const SOCKETS_PER_GPU: u32 = 2;

/// The claim of a rank, which its pods share.
pub fn rank_claim(shared: SharedGpus<'_>) -> ResourceClaimTemplateSpec {
    ResourceClaimTemplateSpec { metadata: None, spec: claim_spec(REQUEST, shared) }
}

/// Makes the pod of an engine use the memory of its rank.
///
/// With a standby engine, a pod that ended must not be restarted in place: the other one has taken over.
pub fn use_memory_of_rank(pod: &mut PodSpec, rank: i32, shared: SharedGpus<'_>) {
    if let Some(main) = pod.containers.first_mut() {
        env::replace(main, env::from_field(names::ENGINE_ID, INDEX_LABEL));
        env::replace(main, env::value(names::GMS_SOCKET_DIR, FOLDER));
        env::replace(main, env::value(names::FAILOVER_LOCK_PATH, format!("{FOLDER}/failover.lock")));
        env::replace(main, env::value(names::DYN_SYSTEM_STARTING_HEALTH_STATUS, "notready"));
        let all = main.env.get_or_insert_default();
        all.retain(|variable| variable.name != names::DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS);
    }
    meet_in_node_folder(pod, rank);
    if shared.standbys > 0 {
        pod.restart_policy = Some("Never".to_owned());
    }
}

/// Makes the pod that holds the memory of a rank, out of the pod of an engine that spans no other node.
pub fn hold_memory_of_rank(pod: &mut PodSpec, rank: i32, shared: SharedGpus<'_>) {
    if let Some(main) = pod.containers.first_mut() {
        main.command = Some(vec!["bash".to_owned(), "-c".to_owned()]);
        main.args = Some(vec![server_script()]);
        main.liveness_probe = None;
        main.readiness_probe = None;
        main.startup_probe = Some(sockets_are_there(shared.count));
        env::replace(main, env::value(names::GMS_SOCKET_DIR, FOLDER));
    }
    meet_in_node_folder(pod, rank);
}

/// Starts the server without what an earlier one left behind, and ends with it and with its exit code. A signal goes to
/// all its processes: the first process of a container ignores what it does not expect.
fn server_script() -> String {
    format!(
        "rm -f {FOLDER}/gms_*.sock\n\
         set -m\n\
         python3 -m {SERVER_MODULE} &\n\
         server=$!\n\
         trap 'kill -TERM -- -\"$server\"' TERM INT\n\
         while kill -0 \"$server\" 2>/dev/null; do wait \"$server\"; code=$?; done\n\
         kill -KILL -- -\"$server\" 2>/dev/null\n\
         exit \"$code\"\n"
    )
}

fn sockets_are_there(gpus: u32) -> Probe {
    let sockets = gpus.saturating_mul(SOCKETS_PER_GPU);
    let test = format!("test $(ls {FOLDER}/gms_*.sock 2>/dev/null | wc -l) -ge {sockets}");
    Probe {
        exec: Some(ExecAction { command: Some(vec!["sh".to_owned(), "-c".to_owned(), test]) }),
        period_seconds: Some(2),
        timeout_seconds: Some(2),
        failure_threshold: Some(150),
        ..Probe::default()
    }
}

/// Takes the pod's own GPUs away, and mounts the rank's folder of the node, writable for all users of the pod.
fn meet_in_node_folder(pod: &mut PodSpec, rank: i32) {
    tolerate_gpu_nodes(pod);
    let node = HostPathVolumeSource { path: NODE_FOLDER.to_owned(), type_: Some("DirectoryOrCreate".to_owned()) };
    let volume = Volume { name: VOLUME.to_owned(), host_path: Some(node), ..Volume::default() };
    replace_volume(&mut pod.volumes, volume);
    let mount = VolumeMount {
        sub_path_expr: Some(format!("$(GROVE_PCSG_NAME)-$(GROVE_PCSG_INDEX)/rank-{rank}")),
        ..mount_of(VOLUME, FOLDER)
    };
    let Some(main) = pod.containers.first_mut() else { return };
    gpus::remove(main.resources.get_or_insert_default());
    replace_mount(main, mount.clone());
    let image = main.image.clone();
    let first = pod.init_containers.get_or_insert_default();
    first.retain(|container| container.name != MAKE_WRITABLE);
    first.push(Container {
        name: MAKE_WRITABLE.to_owned(),
        image,
        command: Some(vec!["sh".to_owned(), "-c".to_owned(), format!("chmod 1777 {FOLDER}")]),
        security_context: Some(SecurityContext {
            run_as_user: Some(0),
            run_as_non_root: Some(false),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(vec![mount]),
        ..Container::default()
    });
}

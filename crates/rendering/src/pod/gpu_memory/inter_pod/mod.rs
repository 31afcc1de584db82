//! GPU memory that pods share: one pod of a rank holds it, the engines of that rank use it.
//!
//! The pods of a rank have the same GPUs through a claim of Grove, and meet in a folder of their node.

use api_types::env as names;
use k8s_openapi::api::{
    core::v1::{Container, ExecAction, HostPathVolumeSource, PodSpec, Probe, SecurityContext, Volume, VolumeMount},
    resource::v1::ResourceClaimTemplateSpec,
};

use super::{SERVER_MODULE, tolerate_gpu_nodes};
use crate::{SharedGpus, device_claims::claim_spec, gpus, pod::env};

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
    let volumes = pod.volumes.get_or_insert_default();
    volumes.retain(|volume| volume.name != VOLUME);
    volumes.push(Volume {
        name: VOLUME.to_owned(),
        host_path: Some(HostPathVolumeSource {
            path: NODE_FOLDER.to_owned(),
            type_: Some("DirectoryOrCreate".to_owned()),
        }),
        ..Volume::default()
    });
    let mount = VolumeMount {
        name: VOLUME.to_owned(),
        mount_path: FOLDER.to_owned(),
        sub_path_expr: Some(format!("$(GROVE_PCSG_NAME)-$(GROVE_PCSG_INDEX)/rank-{rank}")),
        ..VolumeMount::default()
    };
    let Some(main) = pod.containers.first_mut() else { return };
    gpus::remove(main.resources.get_or_insert_default());
    let mounts = main.volume_mounts.get_or_insert_default();
    mounts.retain(|other| other.name != VOLUME && other.mount_path != FOLDER);
    mounts.push(mount.clone());
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

#[cfg(test)]
mod tests;

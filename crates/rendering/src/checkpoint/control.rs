//! The folder in which agent and engine meet.

use api_types::env as names;
use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, PersistentVolumeClaimVolumeSource, PodSpec, SeccompProfile, Volume, VolumeMount,
};

use super::CheckpointStorage;
use crate::pod::env;

/// The folder, in every container that takes part.
pub(super) const FOLDER: &str = "/snapshot-control";

const CONTROL: &str = "snapshot-control";
const STORAGE: &str = "checkpoint-storage";

/// Lets agent and container meet; each container has a folder of its own. What the user has there stays.
pub(super) fn meet(pod: &mut PodSpec, container: &str) {
    let volume = Volume {
        name: CONTROL.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource { medium: None, size_limit: None }),
        ..Volume::default()
    };
    add_volume(pod, volume);
    let Some(container) = find(pod, container) else { return };
    let own_folder = Some(container.name.clone());
    let mount = VolumeMount {
        name: CONTROL.to_owned(),
        mount_path: FOLDER.to_owned(),
        sub_path: own_folder,
        ..VolumeMount::default()
    };
    add_mount(container, mount);
    if container.env.iter().flatten().all(|variable| variable.name != names::DYN_SNAPSHOT_CONTROL_DIR) {
        container.env.get_or_insert_default().push(env::value(names::DYN_SNAPSHOT_CONTROL_DIR, FOLDER));
    }
}

/// Mounts the storage of checkpoints. What the user has under its name stays.
pub(super) fn mount_storage(pod: &mut PodSpec, container: &str, storage: &CheckpointStorage) {
    let claim = PersistentVolumeClaimVolumeSource { claim_name: storage.claim.clone(), read_only: None };
    let volume = Volume { name: STORAGE.to_owned(), persistent_volume_claim: Some(claim), ..Volume::default() };
    add_volume(pod, volume);
    let mount = VolumeMount { name: STORAGE.to_owned(), mount_path: storage.folder.clone(), ..VolumeMount::default() };
    if let Some(container) = find(pod, container) {
        add_mount(container, mount);
    }
}

/// Runs the pod under a profile that keeps processes from what cannot be captured.
pub(super) fn confine(pod: &mut PodSpec, profile: Option<&str>) {
    let Some(profile) = profile else { return };
    pod.security_context.get_or_insert_default().seccomp_profile =
        Some(SeccompProfile { type_: "Localhost".to_owned(), localhost_profile: Some(profile.to_owned()) });
}

/// The pod's container of that name.
pub(super) fn find<'a>(pod: &'a mut PodSpec, name: &str) -> Option<&'a mut Container> {
    pod.containers.iter_mut().find(|container| container.name == name)
}

fn add_volume(pod: &mut PodSpec, volume: Volume) {
    let all = pod.volumes.get_or_insert_default();
    if all.iter().all(|other| other.name != volume.name) {
        all.push(volume);
    }
}

fn add_mount(container: &mut Container, mount: VolumeMount) {
    let all = container.volume_mounts.get_or_insert_default();
    if all.iter().all(|other| other.name != mount.name) {
        all.push(mount);
    }
}

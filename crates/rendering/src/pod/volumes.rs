//! Volumes of the pod: the memory-backed `/dev/shm`, those of mounts, complete and in order, and the compilation cache.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        Container, EmptyDirVolumeSource, PersistentVolumeClaimSpec, PersistentVolumeClaimVolumeSource, PodSpec, Volume,
        VolumeMount, VolumeResourceRequirements,
    },
    apimachinery::pkg::api::resource::Quantity,
};

use super::parts::add;
use crate::model::CacheMount;

const SHARED_MEMORY: &str = "shared-memory";
const SHARED_MEMORY_PATH: &str = "/dev/shm";

/// Puts volumes in the order of main's mounts, then the others; a mount without a volume means a claim of that name.
pub(super) fn order_and_complete(pod: &mut PodSpec, main: &Container) {
    let mut given = pod.volumes.take().unwrap_or_default();
    let mut ordered: Vec<Volume> = Vec::with_capacity(given.len());
    for mount in main.volume_mounts.iter().flatten() {
        if ordered.iter().any(|volume| volume.name == mount.name) {
            continue;
        }
        let position = given.iter().position(|volume| volume.name == mount.name);
        ordered.push(position.map_or_else(|| of_claim(&mount.name, &mount.name), |position| given.remove(position)));
    }
    ordered.append(&mut given);
    pod.volumes = (!ordered.is_empty()).then_some(ordered);
}

/// The volume of a PersistentVolumeClaim.
pub(crate) fn of_claim(name: &str, claim: &str) -> Volume {
    let source = PersistentVolumeClaimVolumeSource { claim_name: claim.to_owned(), read_only: None };
    Volume { name: name.to_owned(), persistent_volume_claim: Some(source), ..Volume::default() }
}

/// The spec of a claim; what is empty is left to the cluster.
pub(crate) fn storage_claim_spec(mode: &str, size: &str, class: &str) -> PersistentVolumeClaimSpec {
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    PersistentVolumeClaimSpec {
        access_modes: given(mode).map(|mode| vec![mode]),
        resources: given(size).map(|size| VolumeResourceRequirements {
            requests: Some(BTreeMap::from([("storage".to_owned(), Quantity(size))])),
            limits: None,
        }),
        // An empty name would be no class at all, instead of the cluster's default.
        storage_class_name: given(class),
        ..PersistentVolumeClaimSpec::default()
    }
}

/// A volume on the node's disk that goes with the pod.
pub(crate) fn empty_dir(name: &str) -> Volume {
    Volume { name: name.to_owned(), empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() }
}

/// The mount of a volume, writable and as a whole.
pub(crate) fn mount_of(volume: &str, path: &str) -> VolumeMount {
    VolumeMount { name: volume.to_owned(), mount_path: path.to_owned(), ..VolumeMount::default() }
}

/// Adds a volume last, in place of any other of that name.
pub(crate) fn replace_volume(volumes: &mut Option<Vec<Volume>>, volume: Volume) {
    let volumes = volumes.get_or_insert_default();
    volumes.retain(|other| other.name != volume.name);
    volumes.push(volume);
}

/// Adds a mount last, in place of any other of that volume or at that path.
pub(crate) fn replace_mount(container: &mut Container, mount: VolumeMount) {
    let mounts = container.volume_mounts.get_or_insert_default();
    mounts.retain(|other| other.name != mount.name && other.mount_path != mount.mount_path);
    mounts.push(mount);
}

/// Mounts memory of that size last, in place of any other volume of that name and any other mount at that path.
pub(crate) fn mount_shared_memory(volumes: &mut Option<Vec<Volume>>, main: &mut Container, size: &Quantity) {
    let memory = EmptyDirVolumeSource { medium: Some("Memory".to_owned()), size_limit: Some(size.clone()) };
    replace_volume(volumes, Volume { empty_dir: Some(memory), ..empty_dir(SHARED_MEMORY) });
    replace_mount(main, mount_of(SHARED_MEMORY, SHARED_MEMORY_PATH));
}

/// Mounts the cache, unless the user did.
///
/// A mount of its volume without a path, as old converters left it, gets the cache's; of two at that path, one stays.
pub(super) fn mount(main: &mut Container, cache: Option<CacheMount<'_>>) {
    let Some(cache) = cache else { return };
    let mounts = main.volume_mounts.get_or_insert_default();
    let mut mounted = false;
    mounts.retain_mut(|mount| {
        if mount.name == cache.claim && mount.mount_path.is_empty() {
            cache.path.clone_into(&mut mount.mount_path);
        }
        let is_cache = mount.mount_path == cache.path;
        let again = is_cache && mounted;
        mounted |= is_cache;
        !again
    });
    if !mounted {
        mounts.push(mount_of(cache.claim, cache.path));
    }
}

/// Adds the cache's volume, unless the user did.
pub(super) fn add_volume(pod: &mut PodSpec, cache: Option<CacheMount<'_>>) {
    let Some(cache) = cache else { return };
    add(&mut pod.volumes, of_claim(cache.claim, cache.claim), |volume| volume.name == cache.claim);
}

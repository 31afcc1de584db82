//! Volumes of the pod: the memory-backed `/dev/shm`, those of mounts, complete and in order, and the compilation cache.

use k8s_openapi::{
    api::core::v1::{Container, EmptyDirVolumeSource, PersistentVolumeClaimVolumeSource, PodSpec, Volume, VolumeMount},
    apimachinery::pkg::api::resource::Quantity,
};

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
        ordered.push(position.map_or_else(|| of_claim(&mount.name), |position| given.remove(position)));
    }
    ordered.append(&mut given);
    pod.volumes = (!ordered.is_empty()).then_some(ordered);
}

/// The volume of a PersistentVolumeClaim, under the claim's name.
pub(super) fn of_claim(claim: &str) -> Volume {
    let source = PersistentVolumeClaimVolumeSource { claim_name: claim.to_owned(), read_only: None };
    Volume { name: claim.to_owned(), persistent_volume_claim: Some(source), ..Volume::default() }
}

/// Mounts memory of that size last, in place of any other volume of that name and any other mount at that path.
pub(crate) fn mount_shared_memory(pod: &mut PodSpec, main: &mut Container, size: Option<&Quantity>) {
    let Some(size) = size else { return };
    let volumes = pod.volumes.get_or_insert_default();
    volumes.retain(|volume| volume.name != SHARED_MEMORY);
    volumes.push(Volume {
        name: SHARED_MEMORY.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource { medium: Some("Memory".to_owned()), size_limit: Some(size.clone()) }),
        ..Volume::default()
    });
    let mounts = main.volume_mounts.get_or_insert_default();
    mounts.retain(|mount| mount.name != SHARED_MEMORY && mount.mount_path != SHARED_MEMORY_PATH);
    mounts.push(VolumeMount {
        name: SHARED_MEMORY.to_owned(),
        mount_path: SHARED_MEMORY_PATH.to_owned(),
        ..VolumeMount::default()
    });
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
        mounts.push(VolumeMount {
            name: cache.claim.to_owned(),
            mount_path: cache.path.to_owned(),
            ..VolumeMount::default()
        });
    }
}

/// Adds the cache's volume, unless the user did.
pub(super) fn add_volume(pod: &mut PodSpec, cache: Option<CacheMount<'_>>) {
    let Some(cache) = cache else { return };
    let all = pod.volumes.get_or_insert_default();
    if all.iter().all(|volume| volume.name != cache.claim) {
        all.push(of_claim(cache.claim));
    }
}

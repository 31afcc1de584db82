//! The compilation cache, mounted into the main container.

use k8s_openapi::api::core::v1::{Container, PodSpec, VolumeMount};

use super::volumes;
use crate::model::CacheMount;

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
        all.push(volumes::of_claim(cache.claim));
    }
}

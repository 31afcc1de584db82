//! Memory-backed `/dev/shm` of the main container.

use k8s_openapi::{
    api::core::v1::{Container, EmptyDirVolumeSource, PodSpec, Volume, VolumeMount},
    apimachinery::pkg::api::resource::Quantity,
};

const VOLUME: &str = "shared-memory";
const PATH: &str = "/dev/shm";

/// Mounts memory of that size last, in place of any other volume of that name and any other mount at that path.
pub(crate) fn apply(pod: &mut PodSpec, main: &mut Container, size: Option<&Quantity>) {
    let Some(size) = size else { return };
    let volumes = pod.volumes.get_or_insert_default();
    volumes.retain(|volume| volume.name != VOLUME);
    volumes.push(Volume {
        name: VOLUME.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource { medium: Some("Memory".to_owned()), size_limit: Some(size.clone()) }),
        ..Volume::default()
    });
    let mounts = main.volume_mounts.get_or_insert_default();
    mounts.retain(|mount| mount.name != VOLUME && mount.mount_path != PATH);
    mounts.push(VolumeMount { name: VOLUME.to_owned(), mount_path: PATH.to_owned(), ..VolumeMount::default() });
}

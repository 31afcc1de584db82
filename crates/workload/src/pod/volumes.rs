//! Volumes of the pod: in the order in which `main` mounts them, complete.

use k8s_openapi::api::core::v1::{Container, PersistentVolumeClaimVolumeSource, PodSpec, Volume};

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

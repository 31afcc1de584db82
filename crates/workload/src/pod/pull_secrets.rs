//! Image pull secrets that the namespace holds for the registries of the pod's images.

use k8s_openapi::api::core::v1::{LocalObjectReference, PodSpec};

use crate::PullSecretIndex;

/// Appends the secrets for each image, containers before init containers; each once.
pub(crate) fn add_pull_secrets(pod: &mut PodSpec, index: &PullSecretIndex) {
    let mut all = pod.image_pull_secrets.take().unwrap_or_default();
    let containers = pod.containers.iter().chain(pod.init_containers.iter().flatten());
    for image in containers.filter_map(|container| container.image.as_deref()) {
        for name in index.secrets_for(image) {
            if all.iter().all(|known| known.name != name) {
                all.push(LocalObjectReference { name: name.to_owned() });
            }
        }
    }
    pod.image_pull_secrets = (!all.is_empty()).then_some(all);
}

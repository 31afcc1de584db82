//! Image pull secrets of pods.

use api_types::{annotations, labels};
use k8s_openapi::api::core::v1::{LocalObjectReference, PodSpec};

use crate::{RenderInput, ValidatedComponent};

/// Appends the secrets for each image, containers before init containers; each once. The user may switch that off.
pub(crate) fn add_pull_secrets(pod: &mut PodSpec, input: &RenderInput<'_>, valid: &ValidatedComponent<'_>) {
    if valid.annotation(annotations::DISABLE_PULL_SECRET_DISCOVERY) == Some(labels::TRUE) {
        return;
    }
    let mut all = pod.image_pull_secrets.take().unwrap_or_default();
    let containers = pod.containers.iter().chain(pod.init_containers.iter().flatten());
    for image in containers.filter_map(|container| container.image.as_deref()) {
        for name in input.pull_secrets.secrets_for(image) {
            if all.iter().all(|known| known.name != name) {
                all.push(LocalObjectReference { name: name.to_owned() });
            }
        }
    }
    pod.image_pull_secrets = (!all.is_empty()).then_some(all);
}

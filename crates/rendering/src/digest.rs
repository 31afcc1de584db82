//! Identification of the pod templates of a live workload, regardless of the pull secrets that were found for it.

use std::fmt::Debug;

use api_types::{annotations, names};
use k8s_openapi::api::core::v1::PodSpec;
use serde::Serialize;

use crate::{ValidatedComponent, WorkloadObject};

const DIGITS: usize = 16;

/// The digest of a part of a workload; of templates, before they hold discovered pull secrets.
pub(crate) fn digest_of(part: &(impl Serialize + Debug)) -> String {
    let bytes = serde_json::to_vec(part).unwrap_or_else(|_| format!("{part:?}").into_bytes());
    names::sha256_hex(&bytes, DIGITS)
}

/// The digest of rendered templates that a workload carries; `None` if it is not of our making.
pub fn carried_digest(workload: &impl WorkloadObject) -> Option<&str> {
    workload.object_meta().annotations.as_ref()?.get(annotations::TEMPLATE_DIGEST).map(String::as_str)
}

/// Keeps the pull secrets of the live workload, as long as everything else of its templates is as rendered.
///
/// A Secret that appears or vanishes must not roll running pods. They change with the next template, which rolls pods
/// anyway. Pods that never came up may lack just that Secret: a workload that never served takes what appears.
/// A live workload without a digest comes from another operator; there, the same images need the same secrets. Live
/// secrets that lack one of the user's are never kept.
pub fn keep_live_pull_secrets<W: WorkloadObject>(rendered: &mut W, valid: &ValidatedComponent<'_>, live: Option<&W>) {
    let Some(live) = live else { return };
    let same_template = match carried_digest(live) {
        Some(digest) => carried_digest(rendered) == Some(digest),
        None => images(rendered) == images(live),
    };
    let complete = valid.declared_pull_secrets().all(|declared| has_pull_secret(live, declared));
    let nothing_new = pods(rendered)
        .flat_map(|pod| pod.image_pull_secrets.iter().flatten())
        .all(|secret| has_pull_secret(live, &secret.name));
    if same_template && complete && (nothing_new || live.has_served()) {
        for (rendered, live) in rendered.templates_mut().into_iter().zip(live.templates()) {
            if let Some(pod) = &mut rendered.spec {
                pod.image_pull_secrets = live.spec.as_ref().and_then(|live| live.image_pull_secrets.clone());
            }
        }
    }
}

fn has_pull_secret(workload: &impl WorkloadObject, name: &str) -> bool {
    pods(workload).all(|pod| pod.image_pull_secrets.iter().flatten().any(|secret| secret.name == name))
}

fn images(workload: &impl WorkloadObject) -> Vec<&str> {
    let containers = pods(workload).flat_map(|pod| pod.containers.iter().chain(pod.init_containers.iter().flatten()));
    containers.filter_map(|container| container.image.as_deref()).collect()
}

fn pods(workload: &impl WorkloadObject) -> impl Iterator<Item = &PodSpec> {
    workload.templates().into_iter().filter_map(|template| template.spec.as_ref())
}

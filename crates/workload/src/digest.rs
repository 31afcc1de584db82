//! Which pod template a live Deployment runs, regardless of the pull secrets that were found for it.

use crate::ValidatedComponent;
use api_types::{annotations, names};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{LocalObjectReference, PodSpec, PodTemplateSpec};
use std::fmt;

const DIGITS: usize = 16;

/// Digest of a rendered pod template without discovered pull secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateDigest(String);

impl TemplateDigest {
    /// The digest of a template that holds no discovered pull secrets.
    pub fn of(template: &PodTemplateSpec) -> Self {
        let bytes = serde_json::to_vec(template).unwrap_or_else(|_| format!("{template:?}").into_bytes());
        Self(names::sha256_hex(&bytes, DIGITS))
    }

    /// The digest that a Deployment carries; `None` if it is not of our making.
    pub fn carried_by(deployment: &Deployment) -> Option<Self> {
        let carried = deployment.metadata.annotations.as_ref()?.get(annotations::TEMPLATE_DIGEST)?;
        Some(Self(carried.clone()))
    }
}

impl fmt::Display for TemplateDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Keeps the pull secrets of the live Deployment, as long as everything else of its template is as rendered.
///
/// A Secret that appears or vanishes must not roll running pods. They change with the next template, which rolls pods
/// anyway.
/// A live Deployment without a digest comes from another operator; there, the same images need the same secrets. Live
/// secrets that lack one of the author's are never kept.
pub fn keep_live_pull_secrets(rendered: &mut Deployment, valid: &ValidatedComponent<'_>, live: Option<&Deployment>) {
    let Some(live) = live else { return };
    let same_template = match TemplateDigest::carried_by(live) {
        Some(digest) => TemplateDigest::carried_by(rendered) == Some(digest),
        None => images(rendered).eq(images(live)),
    };
    let kept = pod(live).and_then(|pod| pod.image_pull_secrets.clone()).unwrap_or_default();
    let complete = valid.declared_pull_secrets().all(|declared| kept.iter().any(|secret| secret.name == declared));
    if same_template && complete {
        set_pull_secrets(rendered, kept);
    }
}

fn set_pull_secrets(deployment: &mut Deployment, secrets: Vec<LocalObjectReference>) {
    if let Some(pod) = deployment.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()) {
        pod.image_pull_secrets = (!secrets.is_empty()).then_some(secrets);
    }
}

fn pod(deployment: &Deployment) -> Option<&PodSpec> {
    deployment.spec.as_ref()?.template.spec.as_ref()
}

fn images(deployment: &Deployment) -> impl Iterator<Item = &str> {
    let pod = pod(deployment);
    let containers = pod.into_iter().flat_map(|pod| pod.containers.iter().chain(pod.init_containers.iter().flatten()));
    containers.filter_map(|container| container.image.as_deref())
}

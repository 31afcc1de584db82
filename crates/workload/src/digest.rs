//! Which pod template a live Deployment runs, regardless of the pull secrets that were found for it.

use crate::ValidatedComponent;
use api_types::{annotations, names};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition};
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
/// anyway. Pods that never came up may lack just that Secret: a Deployment that never served takes what appears.
/// A live Deployment without a digest comes from another operator; there, the same images need the same secrets. Live
/// secrets that lack one of the author's are never kept.
pub fn keep_live_pull_secrets(rendered: &mut Deployment, valid: &ValidatedComponent<'_>, live: Option<&Deployment>) {
    let Some(live) = live else { return };
    let same_template = match TemplateDigest::carried_by(live) {
        Some(digest) => TemplateDigest::carried_by(rendered) == Some(digest),
        None => images(rendered).eq(images(live)),
    };
    let complete = valid.declared_pull_secrets().all(|declared| has_pull_secret(live, declared));
    let nothing_new = pull_secrets(rendered).all(|secret| has_pull_secret(live, &secret.name));
    if same_template && complete && (nothing_new || has_served(live)) {
        let kept = pull_secrets(live).cloned().collect();
        set_pull_secrets(rendered, kept);
    }
}

/// Whether pods of a Deployment serve, or have served: the end of a rollout shows in the conditions even when pods fail
/// later.
fn has_served(live: &Deployment) -> bool {
    let Some(status) = &live.status else { return false };
    let tells = |condition: &DeploymentCondition| {
        (condition.type_ == "Available" && condition.status == "True")
            || (condition.type_ == "Progressing" && condition.reason.as_deref() == Some("NewReplicaSetAvailable"))
    };
    status.available_replicas.is_some_and(|available| available > 0) || status.conditions.iter().flatten().any(tells)
}

fn has_pull_secret(deployment: &Deployment, name: &str) -> bool {
    pull_secrets(deployment).any(|secret| secret.name == name)
}

fn pull_secrets(deployment: &Deployment) -> impl Iterator<Item = &LocalObjectReference> {
    pod(deployment).into_iter().flat_map(|pod| pod.image_pull_secrets.iter().flatten())
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

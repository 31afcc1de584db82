//! The Deployment of a component, and its pod template.

use std::collections::BTreeMap;

use api_types::{annotations, labels};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::PodTemplateSpec,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};

use crate::{RenderInput, TemplateDigest, ValidatedComponent, metadata::some, pod, pull_secrets};

/// The Deployment that runs a component.
///
/// It carries the digest of its template, see [`keep_live_pull_secrets`](crate::keep_live_pull_secrets()).
pub fn render_deployment(input: &RenderInput<'_>, valid: &ValidatedComponent<'_>) -> Deployment {
    let mut template = template_without_discovered_secrets(input, valid);
    let digest = TemplateDigest::of(&[&template]);
    add_pull_secrets(&mut template, input, valid);
    let mut all_annotations = valid.workload_annotations();
    all_annotations.insert(annotations::TEMPLATE_DIGEST.to_owned(), digest.to_string());
    Deployment {
        metadata: valid.object_meta(valid.name.to_owned(), valid.workload_labels(), all_annotations),
        spec: Some(DeploymentSpec {
            replicas: Some(valid.replicas(input)),
            selector: LabelSelector {
                match_labels: Some(BTreeMap::from([(labels::SELECTOR.to_owned(), valid.name.to_owned())])),
                match_expressions: None,
            },
            strategy: Some(valid.strategy.to_deployment_strategy()),
            template,
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

fn template_without_discovered_secrets(input: &RenderInput<'_>, valid: &ValidatedComponent<'_>) -> PodTemplateSpec {
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: some(valid.pod_labels(input)),
            annotations: some(valid.pod_annotations(input)),
            ..ObjectMeta::default()
        }),
        spec: Some(pod::render(input, valid, None)),
    }
}

/// Adds discovered pull secrets, unless the user switched their discovery off.
pub(crate) fn add_pull_secrets(
    template: &mut PodTemplateSpec,
    input: &RenderInput<'_>,
    valid: &ValidatedComponent<'_>,
) {
    if valid.annotation(annotations::DISABLE_PULL_SECRET_DISCOVERY) == Some(labels::TRUE) {
        return;
    }
    if let Some(spec) = &mut template.spec {
        pull_secrets::add_pull_secrets(spec, input.pull_secrets);
    }
}

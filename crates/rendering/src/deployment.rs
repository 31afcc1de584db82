//! The Deployment of a component with its pod template, and the HorizontalPodAutoscaler of a component whose
//! `autoscaling` in v1alpha1 is enabled.

use std::collections::BTreeMap;

use api_types::{annotations, conversion::preserved::PreservedAutoscaling, labels};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        autoscaling::v2::{CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec},
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

/// Renders the autoscaler of `target`.
pub fn render_autoscaler(
    metadata: ObjectMeta,
    target: CrossVersionObjectReference,
    rules: PreservedAutoscaling,
) -> HorizontalPodAutoscaler {
    let PreservedAutoscaling { min_replicas, max_replicas, behavior, metrics, .. } = rules;
    HorizontalPodAutoscaler {
        metadata,
        spec: HorizontalPodAutoscalerSpec {
            scale_target_ref: target,
            min_replicas,
            max_replicas,
            behavior,
            // An empty list is the same as none to the API server, which adds its default.
            metrics: metrics.filter(|metrics| !metrics.is_empty()),
        },
        status: None,
    }
}

//! The Deployment of a component with its pod template, and the HorizontalPodAutoscaler of a component whose
//! `autoscaling` in v1alpha1 is enabled.

use std::collections::BTreeMap;

use api_types::{annotations, conversion::preserved::PreservedAutoscaling, labels};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        autoscaling::v2::{CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec},
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};

use crate::{RenderInput, ValidatedComponent, digest::digest_of, metadata::pod_template, pod};

/// The Deployment that runs a component.
///
/// It carries the digest of its template, see [`keep_live_pull_secrets`](crate::keep_live_pull_secrets()).
pub fn render_deployment(input: &RenderInput<'_>, valid: &ValidatedComponent<'_>) -> Deployment {
    let pod = pod::render(input, valid, None);
    let mut template = pod_template(valid.pod_labels(input), valid.pod_annotations(input), pod);
    let digest = digest_of(&template);
    pod::add_pull_secrets(template.spec.get_or_insert_default(), input, valid);
    let mut all_annotations = valid.workload_annotations();
    all_annotations.insert(annotations::TEMPLATE_DIGEST.to_owned(), digest);
    let selector = BTreeMap::from([(labels::SELECTOR.to_owned(), valid.name.to_owned())]);
    Deployment {
        metadata: valid.object_meta(valid.name.to_owned(), valid.workload_labels(), all_annotations),
        spec: Some(DeploymentSpec {
            replicas: Some(valid.replicas(input)),
            selector: LabelSelector { match_labels: Some(selector), match_expressions: None },
            strategy: Some(valid.strategy.to_deployment_strategy()),
            template,
            ..DeploymentSpec::default()
        }),
        status: None,
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

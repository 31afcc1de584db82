//! The HorizontalPodAutoscaler of a component whose `autoscaling` in v1alpha1 is enabled.

use api_types::conversion::preserved::autoscaling::PreservedAutoscaling;
use k8s_openapi::{
    api::autoscaling::v2::{CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

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

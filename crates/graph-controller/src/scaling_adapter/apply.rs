//! Writes the replicas of a component to its graph.

use api_types::{
    conversion::preserved::{PreservedAutoscaling, legacy::PreservedGraph},
    v1beta1::DynamoGraphDeployment,
};
use controller_kit::{
    apply::{Applier, RequestError},
    failure::Class,
};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::model::{ComponentScale, NoEffect, ScaleOutcome, ScalingAdapterObserved, ScalingAdapterPlan};

/// Scales the component, if the plan says so.
pub(super) async fn apply(
    applier: &Applier,
    observed: &ScalingAdapterObserved,
    plan: &Result<ScalingAdapterPlan, NoEffect>,
) -> ScaleOutcome {
    let Ok(ScalingAdapterPlan { scale: Some(planned), .. }) = plan else { return ScaleOutcome::Unchanged };
    match scale(applier, observed, planned).await {
        Ok(true) => ScaleOutcome::Scaled,
        Ok(false) => ScaleOutcome::Unchanged,
        Err(error) if error.class() == Class::Transient => ScaleOutcome::Failed(error),
        Err(error) => ScaleOutcome::Rejected(error.to_string()),
    }
}

/// Tests that the component still has an adapter: by its own field, or by the v1alpha1 field that implies one.
fn enabled(graph: &DynamoGraphDeployment, component: &str, at: &str) -> Value {
    let saved = graph.annotations().get(PreservedGraph::ANNOTATION);
    let is_autoscaled = PreservedAutoscaling::of_graph(graph.annotations()).contains_key(component);
    let (path, value) = match saved.filter(|_| is_autoscaled) {
        Some(saved) => {
            (format!("/metadata/annotations/{}", PreservedGraph::ANNOTATION.replace('/', "~1")), json!(saved))
        }
        None => (format!("{at}/scalingAdapter"), json!({})),
    };
    json!({ "op": "test", "path": path, "value": value })
}

/// Sets the replicas of the component. Returns whether the graph was changed.
async fn scale(
    applier: &Applier,
    observed: &ScalingAdapterObserved,
    scale: &ComponentScale,
) -> Result<bool, RequestError> {
    let Some(graph) = &observed.graph else { return Ok(false) };
    let ComponentScale { index, component, to, .. } = scale;
    let at = format!("/spec/components/{index}");
    // The list may have changed since it was read; another component must not get these replicas.
    let operations = vec![
        json!({ "op": "test", "path": format!("{at}/name"), "value": component }),
        enabled(graph, component, &at),
        json!({ "op": "add", "path": format!("{at}/replicas"), "value": to }),
    ];
    let uid = observed.adapter.metadata.uid.as_deref().unwrap_or_default();
    applier.edit_spec(graph, uid, operations).await
}

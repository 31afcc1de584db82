//! Validates an adapter: the graph, the component and the right to scale it. Pure.

use super::model::{NoEffect, ScaledComponent, ScalingAdapterObserved};

/// Finds the component that an adapter scales.
///
/// # Errors
/// The reason why the adapter has no effect.
pub fn validate(observed: &ScalingAdapterObserved) -> Result<ScaledComponent<'_>, NoEffect> {
    let target = &observed.adapter.spec.dgd_ref;
    let no_target = |message: String| NoEffect { reason: "NoTarget", message };
    let Some(graph) = &observed.graph else {
        return Err(no_target(format!("there is no DynamoGraphDeployment {} in this namespace", target.name)));
    };
    let found = graph.spec.components.iter().enumerate().find(|(_, c)| c.name == target.component_name);
    let Some((index, component)) = found else {
        let message = format!("DynamoGraphDeployment {} has no component {}", target.name, target.component_name);
        return Err(no_target(message));
    };
    if component.scaling_adapter.is_none() {
        return Err(no_target(format!(
            "component {} of DynamoGraphDeployment {} has no scalingAdapter: its replicas are those of the graph",
            component.name, target.name
        )));
    }
    if let Some(other) = &observed.preceded_by {
        let message = format!(
            "component {} of DynamoGraphDeployment {} is scaled by DynamoGraphDeploymentScalingAdapter {other}: delete \
             one of the two",
            component.name, target.name
        );
        return Err(NoEffect { reason: "AnotherAdapterScales", message });
    }
    Ok(ScaledComponent { graph, index, component })
}

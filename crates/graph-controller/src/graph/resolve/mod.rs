//! Determines the graph as it is reconciled, from the caches alone. Pure.

use std::collections::BTreeMap;

use api_types::v1beta1::{ComponentSpec, DynamoGraphDeployment, DynamoGraphDeploymentSpec};
use rendering::{WorkloadProvider, device_claims::ContainerClaim};

use super::{
    legacy,
    model::{ClusterApis, GraphObserved, GraphObstacle},
    provider,
    settings::GraphSettings,
    validate::validate,
};

/// Sets the provider of a graph's workloads, and its spec as it is reconciled: translated from the legacy API,
/// configured, scaled by adapters.
///
/// # Errors
/// No workload provider can be chosen, or the graph of the legacy API has violations. Nothing is set then.
pub fn resolve(observed: &mut GraphObserved, settings: &GraphSettings) -> Result<(), GraphObstacle> {
    let provider = provider::choose(observed, settings)?;
    let (mut spec, legacy) = legacy::translate(&observed.graph, observed.build.as_ref())?.unzip();
    // On Grove, the upstream operator leaves `DYN_DEPLOYMENT_CONFIG` to the engines.
    if provider == WorkloadProvider::Component {
        spec = legacy::configured(spec.as_ref().unwrap_or(&observed.graph.spec))?.or(spec);
    }
    let unscaled = spec.as_ref().unwrap_or(&observed.graph.spec);
    if let Some(components) = scaled(observed, &unscaled.components) {
        let scaled = DynamoGraphDeploymentSpec { components, ..unscaled.clone() };
        // The scaling adapter reports a count that its component cannot have; here the count has no effect.
        if is_valid(observed, provider, &scaled, settings) {
            spec = Some(scaled);
        }
    }
    if let Some(spec) = spec {
        observed.graph.spec = spec;
    }
    (observed.provider, observed.legacy) = (provider, legacy.unwrap_or_default());
    Ok(())
}

/// Whether a spec of the graph has no violation. What the cluster lacks is an obstacle and no violation.
fn is_valid(
    cached: &GraphObserved,
    provider: WorkloadProvider,
    spec: &DynamoGraphDeploymentSpec,
    settings: &GraphSettings,
) -> bool {
    let (metadata, spec) = (cached.graph.metadata.clone(), spec.clone());
    let graph = DynamoGraphDeployment { metadata, spec, status: None };
    let served = ClusterApis { leader_worker_sets: true, ..cached.served };
    validate(&GraphObserved { provider, served, ..GraphObserved::new(graph) }, settings).is_ok()
}

/// The components with the counts of their scaling adapters; `None` if that changes nothing. The adapter is the source
/// of truth: a count that is set on the graph must not take workers away until it is reverted.
fn scaled(cached: &GraphObserved, components: &[ComponentSpec]) -> Option<Vec<ComponentSpec>> {
    let count_of = |component: &ComponentSpec| {
        let live = cached.adapters.iter().find(|live| {
            let target = &live.spec.dgd_ref;
            target.component_name == component.name && Some(&target.name) == cached.graph.metadata.name.as_ref()
        })?;
        let is_scaled = component.scaling_adapter.is_some()
            && cached.is_owner(live)
            && live.metadata.deletion_timestamp.is_none()
            && live.spec.replicas != component.desired_replicas();
        is_scaled.then_some(live.spec.replicas)
    };
    let scale = |component: &ComponentSpec| match count_of(component) {
        Some(count) => ComponentSpec { replicas: Some(count), ..component.clone() },
        None => component.clone(),
    };
    components.iter().any(|component| count_of(component).is_some()).then(|| components.iter().map(scale).collect())
}

/// Claims whose GPUs must be counted before a component on Grove can be rendered, by component.
pub fn gpu_claims(observed: &GraphObserved, settings: &GraphSettings) -> BTreeMap<String, Vec<ContainerClaim>> {
    let claims = |component: &ComponentSpec| {
        component.pod_spec().is_some_and(|pod| pod.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()))
    };
    let valid = observed.graph.spec.components.iter().any(claims).then(|| validate(observed, settings).ok());
    let claims = valid.flatten().map(|valid| valid.gpu_claims).unwrap_or_default();
    claims.into_iter().map(|(component, claims)| (component.to_owned(), claims)).collect()
}

#[cfg(test)]
mod tests;

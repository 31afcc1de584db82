//! Determines from the caches alone what a reconcile must read past them. Pure.

use std::borrow::Cow;

use api_types::v1beta1::{ComponentSpec, DynamoGraphDeployment, DynamoGraphDeploymentSpec};
use rendering::WorkloadProvider;

use super::{
    legacy,
    model::{
        ClusterApis, GraphNeeds, GraphObserved, GraphObstacle, GraphTarget, GroveNeeds, TopologyNeed, ValidationContext,
    },
    provider,
    settings::GraphSettings,
    validate::validate,
};

/// The graph as it is reconciled, and what must be read for it.
///
/// # Errors
/// No workload provider can be chosen, or the graph of the legacy API has violations.
pub fn needs(cached: &GraphObserved, settings: &GraphSettings) -> Result<GraphNeeds, GraphObstacle> {
    let target = target(cached, settings)?;
    let spec = target.spec.as_ref().unwrap_or(&cached.graph.spec);
    let leader_worker_sets =
        target.provider == WorkloadProvider::Component && spec.components.iter().any(ComponentSpec::is_multinode);
    let grove = (target.provider == WorkloadProvider::Grove).then(|| grove_needs(cached, spec, settings));
    Ok(GraphNeeds { leader_worker_sets, grove, target })
}

fn target(cached: &GraphObserved, settings: &GraphSettings) -> Result<GraphTarget, GraphObstacle> {
    let provider = provider::choose(cached, settings)?;
    let (translated, legacy) = legacy::translate(&cached.graph, cached.build.as_ref())?.unzip();
    let legacy = legacy.unwrap_or_default();
    let mut spec = translated.map_or(Cow::Borrowed(&cached.graph.spec), Cow::Owned);
    // On Grove, the upstream operator leaves `DYN_DEPLOYMENT_CONFIG` to the engines.
    if provider == WorkloadProvider::Component
        && let Some(configured) = legacy::configured(&spec)?
    {
        spec = Cow::Owned(configured);
    }
    if let Some(components) = scaled(cached, &spec.components) {
        let scaled = DynamoGraphDeploymentSpec { components, ..spec.clone().into_owned() };
        // The scaling adapter reports a count that its component cannot have; here the count has no effect.
        if validate(&with_spec(cached, &scaled), settings, context(cached, provider)).is_ok() {
            spec = Cow::Owned(scaled);
        }
    }
    let spec = match spec {
        Cow::Owned(spec) => Some(spec),
        Cow::Borrowed(_) => None,
    };
    Ok(GraphTarget { provider, spec, legacy })
}

/// A context in which the cluster lacks nothing: what it lacks is an obstacle and no violation.
fn context(cached: &GraphObserved, provider: WorkloadProvider) -> ValidationContext<'_> {
    let served = ClusterApis { leader_worker_sets: true, ..cached.served };
    ValidationContext { provider, served, ..ValidationContext::default() }
}

fn with_spec(cached: &GraphObserved, spec: &DynamoGraphDeploymentSpec) -> DynamoGraphDeployment {
    DynamoGraphDeployment { metadata: cached.graph.metadata.clone(), spec: spec.clone(), status: None }
}

/// The components with the counts of their scaling adapters; `None` if that changes nothing. The adapter is the source
/// of truth: a count that is set on the graph must not take workers away until it is reverted.
fn scaled(cached: &GraphObserved, components: &[ComponentSpec]) -> Option<Vec<ComponentSpec>> {
    let count_of = |component: &ComponentSpec| {
        let live = cached.adapters.iter().find(|live| {
            let target = &live.spec.dgd_ref;
            target.component_name == component.name && Some(&target.name) == cached.graph.metadata.name.as_ref()
        })?;
        let decides = component.scaling_adapter.is_some()
            && cached.is_owner(live)
            && live.metadata.deletion_timestamp.is_none()
            && live.spec.replicas != component.desired_replicas();
        decides.then_some(live.spec.replicas)
    };
    let scale = |component: &ComponentSpec| match count_of(component) {
        Some(count) => ComponentSpec { replicas: Some(count), ..component.clone() },
        None => component.clone(),
    };
    components.iter().any(|component| count_of(component).is_some()).then(|| components.iter().map(scale).collect())
}

fn grove_needs(cached: &GraphObserved, spec: &DynamoGraphDeploymentSpec, settings: &GraphSettings) -> GroveNeeds {
    let topology = spec.kv_transfer_policy().and_then(|policy| {
        Some(TopologyNeed {
            name: policy.cluster_topology_name.clone()?,
            domain: policy.domain.clone(),
            live_domains: cached.grove.rendered_domains(),
        })
    });
    let claims = |component: &ComponentSpec| {
        component.pod_spec().is_some_and(|pod| pod.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()))
    };
    let gpu_claims = spec.components.iter().any(claims).then(|| {
        let graph = with_spec(cached, spec);
        let valid = validate(&graph, settings, context(cached, WorkloadProvider::Grove)).ok()?;
        Some(valid.gpu_claims.iter().map(|(component, claims)| ((*component).to_owned(), claims.clone())).collect())
    });
    GroveNeeds {
        // Pods are not replaced because a scheduler was installed or removed.
        live_kai: cached.grove.uses_kai().filter(|_| settings.grove.kai.is_none()),
        topology,
        gpu_claims: gpu_claims.flatten().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;

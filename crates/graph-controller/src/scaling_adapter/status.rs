//! Status of an adapter. Pure.

use api_types::{
    labels,
    v1beta1::{ComponentKind, ComponentReplicaStatus, DynamoGraphDeploymentScalingAdapterStatus as Status},
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use super::{
    model::{ScaleOutcome, ScalingAdapterApplied, ScalingAdapterObserved},
    validate::ScaledComponent,
};

/// Status of an adapter whose graph is not changed.
pub fn of_target(observed: &ScalingAdapterObserved, target: &ScaledComponent<'_>) -> Status {
    let before = observed.adapter.status.clone().unwrap_or_default();
    let (name, graph) = (&target.component.name, &observed.adapter.spec.dgd_ref.name);
    let counted = target.graph.status.as_ref().and_then(|status| status.components.get(name));
    Status {
        replicas: counted.map_or(before.replicas, |counted| counted.replicas),
        selector: Some(selector(name, graph, counted)),
        last_scale_time: before.last_scale_time,
    }
}

/// Status after the writes; `None` if the adapter has no effect.
pub fn of_applied(applied: &ScalingAdapterApplied, now: Timestamp) -> Option<Status> {
    let status = &applied.plan.as_ref().ok()?.status;
    let scaled = matches!(applied.outcome, ScaleOutcome::Scaled).then_some(Time(now));
    Some(Status { last_scale_time: scaled.or(status.last_scale_time.clone()), ..status.clone() })
}

/// Selects one pod for each replica, because an autoscaler that goes by pods multiplies with their number: of a
/// LeaderWorkerSet, the leaders. Pods on Grove have no label of leaders only.
fn selector(component: &str, graph: &str, counted: Option<&ComponentReplicaStatus>) -> String {
    let all = format!("{}={component},{}={graph}", labels::COMPONENT, labels::GRAPH);
    match counted.map(|counted| counted.component_kind) {
        Some(ComponentKind::LeaderWorkerSet) => format!("{all},{}=0", labels::WORKER_INDEX),
        _ => all,
    }
}

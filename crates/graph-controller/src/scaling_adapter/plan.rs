//! Plans the replicas of the component that an adapter names, with a least pause between two changes of one component,
//! and the status until then. Pure.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use api_types::{
    labels,
    v1beta1::{ComponentKind, ComponentReplicaStatus, DynamoGraphDeploymentScalingAdapterStatus as Status},
};
use controller_kit::store::Key;

use super::{
    model::{ComponentScale, NoEffect, ScaledComponent, ScalingAdapterObserved, ScalingAdapterPlan},
    validate::validate,
};

/// Plans for an adapter that is not being deleted.
///
/// # Errors
/// The reason why the adapter has no effect.
pub fn plan(observed: &ScalingAdapterObserved) -> Result<ScalingAdapterPlan, NoEffect> {
    let target = validate(observed)?;
    let replicas = observed.adapter.spec.replicas;
    let scale = (target.component.desired_replicas() != replicas).then(|| ComponentScale {
        index: target.index,
        component: target.component.name.clone(),
        from: target.component.replicas,
        to: replicas,
    });
    let delayed = observed.pause.filter(|_| scale.is_some());
    let scale = scale.filter(|_| delayed.is_none());
    Ok(ScalingAdapterPlan { scale, delayed, status: unchanged_status(observed, &target) })
}

/// Status of an adapter whose graph is not changed.
fn unchanged_status(observed: &ScalingAdapterObserved, target: &ScaledComponent<'_>) -> Status {
    let before = observed.adapter.status.clone().unwrap_or_default();
    let (name, graph) = (&target.component.name, &observed.adapter.spec.dgd_ref.name);
    let counted = target.graph.status.as_ref().and_then(|status| status.components.get(name));
    Status {
        replicas: counted.map_or(before.replicas, |counted| counted.replicas),
        selector: Some(selector(name, graph, counted)),
        last_scale_time: before.last_scale_time,
    }
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

/// Least time between two changes of the replicas of one component.
pub const LEAST_PAUSE: Duration = Duration::from_secs(1);

/// Times of the last scaling of components.
#[derive(Debug, Default)]
pub struct Paces(HashMap<(Key, String), Instant>);

impl Paces {
    /// Returns the time for which a component must not be scaled yet; `None` if it may be scaled.
    pub fn pause(&self, graph: &Key, component: &str, now: Instant) -> Option<Duration> {
        let last = self.0.get(&(graph.clone(), component.to_owned()))?;
        LEAST_PAUSE.checked_sub(now.saturating_duration_since(*last)).filter(|rest| !rest.is_zero())
    }

    /// Records that a component was scaled.
    pub fn scaled(&mut self, graph: &Key, component: &str, now: Instant) {
        self.0.retain(|_, last| now.saturating_duration_since(*last) < LEAST_PAUSE);
        self.0.insert((graph.clone(), component.to_owned()), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_scaled_at_most_once_a_second() {
        let (mut paces, start) = (Paces::default(), Instant::now());
        let (graph, later) = (Key::new("team-a", "chat"), |millis| start + Duration::from_millis(millis));
        assert_eq!(paces.pause(&graph, "Decode", start), None);
        paces.scaled(&graph, "Decode", start);
        assert_eq!(paces.pause(&graph, "Decode", later(400)), Some(Duration::from_millis(600)));
        assert_eq!(paces.pause(&graph, "Prefill", later(400)), None);
        assert_eq!(paces.pause(&graph, "Decode", later(1_000)), None);
        paces.scaled(&graph, "Prefill", later(1_000));
        assert_eq!(paces.0.len(), 1, "the past is forgotten");
    }
}

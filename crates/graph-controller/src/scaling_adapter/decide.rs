//! What an adapter asks of its graph: pure.

use api_types::labels;
use api_types::v1beta1::{ComponentKind, ComponentReplicaStatus, DynamoGraphDeploymentScalingAdapterStatus as Status};
use controller_kit::events::EventType;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::Told;
use super::observe::Observed;

/// What shall be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The change of the graph, if it needs one.
    pub scale: Option<Scale>,
    /// The adapter's status, as long as the graph is not changed.
    status: Option<Status>,
    /// Why the adapter has no effect.
    pub idle: Option<String>,
}

/// What became of the change of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It needed none, or it is gone.
    Unchanged,
    /// The component has its replicas.
    Scaled,
    /// The API server does not take the change, in its words; trying again soon does not help.
    Refused(String),
}

/// A component that gets another number of replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Its place in the list of components.
    pub index: usize,
    /// Its name.
    pub component: String,
    /// Replicas that it has in the spec; none means one.
    pub from: Option<i32>,
    /// Replicas that it gets.
    pub to: i32,
}

/// Decides on an adapter that is not being deleted.
pub fn decide(observed: &Observed) -> Decision {
    let (wanted, target) = (observed.adapter.spec.replicas, &observed.adapter.spec.dgd_ref);
    let idle = |why: String| Decision { scale: None, status: None, idle: Some(why) };
    let Some(graph) = &observed.graph else {
        return idle(format!("there is no DynamoGraphDeployment {} in this namespace", target.name));
    };
    let found = graph.spec.components.iter().enumerate().find(|(_, c)| c.name == target.component_name);
    let Some((index, component)) = found else {
        return idle(format!("DynamoGraphDeployment {} has no component {}", target.name, target.component_name));
    };
    if component.scaling_adapter.is_none() {
        let note = "has no scalingAdapter: its replicas are those of the graph";
        return idle(format!("component {} of DynamoGraphDeployment {} {note}", component.name, target.name));
    }
    let scale = (component.wanted_replicas() != wanted).then(|| Scale {
        index,
        component: component.name.clone(),
        from: component.replicas,
        to: wanted,
    });
    let before = observed.adapter.status.clone().unwrap_or_default();
    let counted = graph.status.as_ref().and_then(|status| status.components.get(&component.name));
    let status = Status {
        replicas: counted.map_or(before.replicas, |counted| counted.replicas),
        selector: Some(selector(&component.name, &target.name, counted)),
        last_scale_time: before.last_scale_time,
    };
    Decision { scale, status: Some(status), idle: None }
}

/// Selects one pod for each replica, because an autoscaler that goes by pods multiplies with their number: of a LeaderWorkerSet,
/// the leaders. Pods on Grove have no label that tells leaders from the others.
fn selector(component: &str, graph: &str, counted: Option<&ComponentReplicaStatus>) -> String {
    let all = format!("{}={component},{}={graph}", labels::COMPONENT, labels::GRAPH);
    match counted.map(|counted| counted.component_kind) {
        Some(ComponentKind::LeaderWorkerSet) => format!("{all},{}=0", labels::WORKER_INDEX),
        _ => all,
    }
}

impl Decision {
    /// The adapter's status. `scaled` is when the graph was changed just now; none if it was not.
    pub fn status(&self, scaled: Option<Timestamp>) -> Option<Status> {
        let status = self.status.clone()?;
        Some(Status { last_scale_time: scaled.map(Time).or(status.last_scale_time), ..status })
    }

    /// What to tell about it and what became of it.
    pub fn event(&self, outcome: &Outcome) -> Option<Told> {
        let warning = |reason, note| Some(Told { type_: EventType::Warning, reason, note });
        if let Some(why) = &self.idle {
            return warning("NoTarget", why.clone());
        }
        let Scale { component, from, to, .. } = self.scale.as_ref()?;
        let from = from.unwrap_or(1);
        match outcome {
            Outcome::Unchanged => None,
            Outcome::Scaled => {
                let note = format!("component {component} goes from {from} to {to} replicas");
                Some(Told { type_: EventType::Normal, reason: "Scaled", note })
            }
            Outcome::Refused(why) => {
                let note = format!("component {component} cannot go from {from} to {to} replicas: {why}");
                warning("UpdateFailed", note)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::fixtures::graph_with;
    use serde_json::{Value, json};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn decided(replicas: i32, edit: impl FnOnce(&mut Value)) -> Decision {
        let graph = graph_with(|g| {
            g["spec"]["components"][1]["scalingAdapter"] = json!({});
            edit(g);
        });
        let adapter = serde_json::from_value(json!({
            "metadata": { "name": "chat-decode", "namespace": "team-a" },
            "spec": { "replicas": replicas, "dgdRef": { "name": "chat", "componentName": "Decode" } },
        }));
        decide(&Observed { adapter: adapter.unwrap(), graph: Some(graph) })
    }

    #[test]
    fn the_adapter_is_the_source_of_truth() {
        let decision = decided(7, |_| {});
        assert_eq!(decision.status(Some(NOW)).unwrap().last_scale_time, Some(Time(NOW)));
        assert_eq!(decision.scale, Some(Scale { index: 1, component: "Decode".into(), from: Some(4), to: 7 }));
        assert_eq!(decided(4, |_| {}).scale, None);
        assert_eq!(decided(1, |g| g["spec"]["components"][1]["replicas"] = json!(null)).scale, None, "none means one");
        assert_eq!(decided(0, |_| {}).scale.unwrap().to, 0, "zero is a number like any other");
    }

    #[test]
    fn the_status_counts_the_pods_that_there_are() {
        let counts = |g: &mut Value| {
            g["status"] = json!({ "state": "pending", "components": { "Decode": {
                "componentKind": "Deployment", "replicas": 2, "updatedReplicas": 2 } } });
        };
        let status = decided(4, counts).status(None).unwrap();
        assert_eq!((status.replicas, status.last_scale_time), (2, None));
        let selector = "nvidia.com/dynamo-component=Decode,nvidia.com/dynamo-graph-deployment-name=chat";
        assert_eq!(status.selector.as_deref(), Some(selector));
        let of_kind = |kind: &str| {
            let status = json!({ "state": "pending", "components": { "Decode": { "componentKind": kind, "replicas": 2,
                "updatedReplicas": 2 } } });
            decided(4, |g| g["status"] = status).status(None).unwrap().selector.unwrap()
        };
        // Defect: an autoscaler by CPU made nodeCount times as many replicas, because the pods of all nodes were selected.
        let leaders = format!("{selector},leaderworkerset.sigs.k8s.io/worker-index=0");
        assert_eq!(of_kind("LeaderWorkerSet"), leaders);
        assert_eq!(of_kind("PodCliqueScalingGroup"), selector);
    }

    #[test]
    fn an_adapter_without_effect_says_why() {
        let why = |edit: fn(&mut Value)| decided(7, edit).event(&Outcome::Unchanged).unwrap().note;
        assert!(why(|g| g["spec"]["components"][1]["scalingAdapter"] = json!(null)).contains("has no scalingAdapter"));
        assert!(why(|g| g["spec"]["components"][1]["name"] = json!("Other")).contains("has no component Decode"));
        let done = decided(7, |_| {}).event(&Outcome::Scaled).unwrap();
        assert_eq!(done.note, "component Decode goes from 4 to 7 replicas");
        assert_eq!(decided(7, |_| {}).event(&Outcome::Unchanged), None, "told when it is done");
    }

    #[test]
    fn a_refused_scale_is_told_and_has_no_time() {
        let decision = decided(7, |_| {});
        let told = decision.event(&Outcome::Refused("spec: too many".into())).unwrap();
        assert_eq!((told.type_, told.reason), (EventType::Warning, "UpdateFailed"));
        assert_eq!(told.note, "component Decode cannot go from 4 to 7 replicas: spec: too many");
        assert_eq!(decision.status(None).unwrap().last_scale_time, None);
    }
}

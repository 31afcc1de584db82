//! What an adapter asks of its graph: pure.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use api_types::{
    labels,
    v1beta1::{ComponentKind, ComponentReplicaStatus, DynamoGraphDeploymentScalingAdapterStatus as Status},
};
use controller_kit::{events::EventType, store::Key};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::Timestamp,
};

use super::{Told, observe::Observed};

/// What shall be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The change of the graph, if it needs one.
    pub scale: Option<Scale>,
    /// The adapter's status, as long as the graph is not changed.
    status: Option<Status>,
    /// Why the adapter has no effect.
    pub idle: Option<Idle>,
}

/// Why an adapter has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idle {
    /// Reason of the event: one CamelCase word.
    reason: &'static str,
    /// What is missing, or which adapter scales the component.
    note: String,
}

/// Least time between two changes of the replicas of one component.
pub const LEAST_PAUSE: Duration = Duration::from_secs(1);

/// When components were scaled last.
#[derive(Debug, Default)]
pub struct Paces(HashMap<(Key, String), Instant>);

impl Paces {
    /// How long a component must not be scaled yet; `None` if it may be scaled.
    pub fn rest(&self, graph: &Key, component: &str, now: Instant) -> Option<Duration> {
        let last = self.0.get(&(graph.clone(), component.to_owned()))?;
        LEAST_PAUSE.checked_sub(now.saturating_duration_since(*last)).filter(|rest| !rest.is_zero())
    }

    /// Takes in that a component was scaled.
    pub fn scaled(&mut self, graph: &Key, component: &str, now: Instant) {
        self.0.retain(|_, last| now.saturating_duration_since(*last) < LEAST_PAUSE);
        self.0.insert((graph.clone(), component.to_owned()), now);
    }
}

/// The name of the adapter that scales a component, of all that name it: the one that the graph of this uid owns, else
/// the oldest, else the first by name.
pub fn first_of<'a>(adapters: &'a [ObjectMeta], graph: Option<&str>) -> Option<&'a str> {
    let is_owned = |adapter: &ObjectMeta| {
        let owner = adapter.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        owner.is_some_and(|owner| Some(owner.uid.as_str()) == graph)
    };
    let alive = adapters.iter().filter(|adapter| adapter.deletion_timestamp.is_none());
    let first = alive.min_by_key(|adapter| (!is_owned(adapter), &adapter.creation_timestamp, &adapter.name));
    first.and_then(|first| first.name.as_deref())
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
    let without = |reason, note| Decision { scale: None, status: None, idle: Some(Idle { reason, note }) };
    let idle = |note: String| without("NoTarget", note);
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
    if let Some(other) = &observed.preceded_by {
        let note = format!(
            "component {} of DynamoGraphDeployment {} is scaled by DynamoGraphDeploymentScalingAdapter {other}: delete one of the two",
            component.name, target.name
        );
        return without("AnotherAdapterScales", note);
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

    /// The same without the change of the graph.
    pub fn held_back(self) -> Self {
        Self { scale: None, ..self }
    }

    /// What to tell about it and what became of it.
    pub fn event(&self, outcome: &Outcome) -> Option<Told> {
        let warning = |reason, note| Some(Told { type_: EventType::Warning, reason, note });
        if let Some(Idle { reason, note }) = &self.idle {
            return warning(*reason, note.clone());
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
    use serde_json::{Value, json};

    use super::*;
    use crate::graph::fixtures::graph_with;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn decided(replicas: i32, edit: impl FnOnce(&mut Value)) -> Decision {
        decide(&observed(replicas, edit))
    }

    fn observed(replicas: i32, edit: impl FnOnce(&mut Value)) -> Observed {
        let graph = graph_with(|g| {
            g["spec"]["components"][1]["scalingAdapter"] = json!({});
            edit(g);
        });
        let adapter = serde_json::from_value(json!({
            "metadata": { "name": "chat-decode", "namespace": "team-a" },
            "spec": { "replicas": replicas, "dgdRef": { "name": "chat", "componentName": "Decode" } },
        }));
        Observed { adapter: adapter.unwrap(), graph: Some(graph), preceded_by: None }
    }

    /// Found defect: two adapters for one component overwrote each other's replicas without end.
    #[test]
    fn one_adapter_scales_a_component_and_another_says_so() {
        let meta = |name: &str, second: i64, owner: Option<&str>, deleted: bool| {
            let owner = owner
                .map(|uid| json!({ "apiVersion": "x/v1", "kind": "X", "name": "x", "uid": uid, "controller": true }));
            let mut meta: ObjectMeta = serde_json::from_value(json!({ "name": name,
                "creationTimestamp": Timestamp::from_second(second).unwrap().to_string() }))
            .unwrap();
            meta.owner_references = owner.map(|owner| vec![serde_json::from_value(owner).unwrap()]);
            meta.deletion_timestamp = deleted.then_some(Time(NOW));
            meta
        };
        let (old, same, new) = (meta("b", 1, None, false), meta("a", 2, None, false), meta("z", 2, None, false));
        let (own, other) = (meta("own", 9, Some("u"), false), meta("0", 0, Some("of-another"), false));
        let table = [
            (vec![], None),
            (vec![same.clone(), old.clone(), new.clone()], Some("b")),
            (vec![new.clone(), same.clone()], Some("a")),
            (vec![old.clone(), own.clone(), same.clone()], Some("own")),
            (vec![old.clone(), other.clone()], Some("0")),
            (vec![own, other], Some("own")),
            (vec![meta("going", 0, Some("u"), true), same], Some("a")),
        ];
        for (adapters, expected) in table {
            assert_eq!(first_of(&adapters, Some("u")), expected, "{adapters:?}");
        }
        let mut observed = observed(7, |_| {});
        observed.preceded_by = Some("chat-decode".to_owned());
        let decision = decide(&observed);
        assert_eq!((decision.status(None), &decision.scale), (None, &None), "it writes nothing");
        let told = decision.event(&Outcome::Unchanged).unwrap();
        assert_eq!((told.type_, told.reason), (EventType::Warning, "AnotherAdapterScales"));
        assert!(told.note.contains("is scaled by DynamoGraphDeploymentScalingAdapter chat-decode"), "{}", told.note);
    }

    #[test]
    fn a_component_is_scaled_at_most_once_a_second() {
        let (mut paces, start) = (Paces::default(), Instant::now());
        let (graph, later) = (Key::new("team-a", "chat"), |millis| start + Duration::from_millis(millis));
        assert_eq!(paces.rest(&graph, "Decode", start), None);
        paces.scaled(&graph, "Decode", start);
        assert_eq!(paces.rest(&graph, "Decode", later(400)), Some(Duration::from_millis(600)));
        assert_eq!(paces.rest(&graph, "Prefill", later(400)), None);
        assert_eq!(paces.rest(&graph, "Decode", later(1_000)), None);
        paces.scaled(&graph, "Prefill", later(1_000));
        assert_eq!(paces.0.len(), 1, "what is past is forgotten");
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

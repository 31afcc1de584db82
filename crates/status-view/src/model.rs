//! The state of a graph or of a component, computed from what was read.

use std::collections::{BTreeMap, BTreeSet};

use api_types::{
    conditions::{AVAILABLE, READY, STALLED, is_current},
    gpus, labels,
    v1beta1::{
        ComponentReplicaStatus, ComponentSpec, DynamoComponentDeployment, DynamoGraphDeployment, RollingUpdatePhase,
    },
};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Condition};
use kube::ResourceExt;
use serde::Serialize;

use crate::pods::{PodPhase, component_of, has_ended, is_ready, shortfall};

/// One component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComponentState {
    /// Name in the graph.
    pub component: String,
    /// Role.
    pub role: String,
    /// Live revisions of a worker, the oldest first. Any of them may be the target of a rollout.
    pub revisions: Vec<String>,
    /// Desired replicas.
    pub desired: i32,
    /// Pods or groups that exist.
    pub replicas: i32,
    /// Those that are ready.
    pub ready: i32,
    /// Those of the target revision and the latest spec.
    pub updated: i32,
    /// Its pods by phase, such as `2 ready, 1 starting`.
    pub pods: String,
    /// GPUs of its pods.
    pub gpus: u64,
    /// The first thing that keeps it from being ready.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub waits_for: String,
}

/// State of a graph or a component in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct State {
    /// `graph` or `component`.
    #[serde(skip)]
    pub kind: &'static str,
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// `state` of a graph's status.
    pub state: String,
    /// Whether it is ready at its latest generation.
    pub ready: bool,
    /// Whether it cannot go on until something is changed.
    pub stalled: bool,
    /// Whether workers change to another revision.
    pub rollout: bool,
    /// Reason and message of `Ready`, or of `Stalled`.
    pub message: String,
    /// Components.
    pub components: Vec<ComponentState>,
}

/// Data that is read of one component.
struct Parts<'a> {
    spec: &'a ComponentSpec,
    counts: Option<&'a ComponentReplicaStatus>,
    /// DynamoComponentDeployments of all revisions.
    objects: Vec<&'a DynamoComponentDeployment>,
    pods: Vec<&'a Pod>,
}

impl State {
    /// Of a graph, with its components and pods.
    pub fn of_graph(graph: &DynamoGraphDeployment, components: &[DynamoComponentDeployment], pods: &[Pod]) -> Self {
        let status = graph.status.clone().unwrap_or_default();
        let update = status.rolling_update.as_ref().and_then(|update| update.phase);
        let parts = graph.spec.components.iter().map(|spec| {
            let objects: Vec<_> = components.iter().filter(|one| one.spec.component.name == spec.name).collect();
            let names: BTreeSet<String> = objects.iter().map(|one| one.name_any()).collect();
            let is_own = |pod: &&Pod| match component_of(pod) {
                Some(name) if names.contains(name) => true,
                _ => pod.labels().get(labels::COMPONENT).is_some_and(|name| *name == spec.name),
            };
            Parts {
                spec,
                counts: status.components.get(&spec.name),
                objects,
                pods: pods.iter().filter(is_own).collect(),
            }
        });
        Self {
            kind: "graph",
            state: status.state.as_str().to_owned(),
            rollout: matches!(update, Some(RollingUpdatePhase::InProgress | RollingUpdatePhase::Pending)),
            components: parts.map(|parts| ComponentState::of(&parts)).collect(),
            ..Self::of(graph, status.observed_generation, &status.conditions)
        }
    }

    /// Of a component without a graph, with its pods.
    pub fn of_component(component: &DynamoComponentDeployment, pods: &[Pod]) -> Self {
        let status = component.status.clone().unwrap_or_default();
        let spec = &component.spec.component;
        let parts =
            Parts { spec, counts: status.component.as_ref(), objects: vec![component], pods: pods.iter().collect() };
        Self {
            kind: "component",
            components: vec![ComponentState::of(&parts)],
            ..Self::of(component, status.observed_generation, &status.conditions)
        }
    }

    fn of(object: &impl ResourceExt, observed: Option<i64>, conditions: &[Condition]) -> Self {
        let is_current = is_current(object.meta().generation, observed);
        let condition = |type_| conditions.iter().find(|one| one.type_ == type_);
        let holds = |type_| condition(type_).filter(|one| one.status == "True");
        let stalled = holds(STALLED).filter(|_| is_current);
        let message = match stalled.or_else(|| condition(READY)) {
            Some(one) => format!("{}: {}", one.reason, one.message),
            None => "no controller has reported a status yet".to_owned(),
        };
        Self {
            name: object.name_any(),
            namespace: object.namespace().unwrap_or_default(),
            state: "pending".to_owned(),
            ready: holds(READY).is_some() && is_current && object.meta().deletion_timestamp.is_none(),
            stalled: stalled.is_some(),
            message,
            ..Self::default()
        }
    }

    /// Workers of the target revision, and desired ones.
    pub(crate) fn progress(&self) -> (i32, i32) {
        let workers = || self.components.iter().filter(|one| !one.revisions.is_empty());
        (workers().map(|one| one.updated.min(one.desired)).sum(), workers().map(|one| one.desired).sum())
    }
}

impl ComponentState {
    fn of(parts: &Parts<'_>) -> Self {
        let Parts { spec, counts, .. } = *parts;
        let live = || parts.pods.iter().copied().filter(|pod| !has_ended(pod));
        let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        let ready = counts
            .and_then(ComponentReplicaStatus::serving)
            .unwrap_or_else(|| number(live().filter(|pod| is_ready(pod)).count()));
        let revision = |one: &&DynamoComponentDeployment| {
            let created = one.metadata.creation_timestamp.as_ref().map(|time| time.0);
            Some((created, one.labels().get(labels::WORKER_HASH)?.clone()))
        };
        let mut revisions: Vec<_> = parts.objects.iter().filter_map(revision).collect();
        revisions.sort();
        Self {
            component: spec.name.clone(),
            role: spec.type_.map_or_else(|| "-".to_owned(), |type_| type_.to_string()),
            revisions: revisions.into_iter().map(|(_, revision)| revision).collect(),
            desired: spec.desired_replicas(),
            replicas: counts.map_or_else(|| number(live().count()), |counts| counts.replicas),
            ready,
            updated: counts.map_or(0, |counts| counts.updated_replicas),
            pods: phases(&parts.pods),
            gpus: live().map(gpus::of_pod).sum(),
            waits_for: waits_for(parts, ready),
        }
    }
}

fn phases(pods: &[&Pod]) -> String {
    let mut counts = BTreeMap::<_, usize>::new();
    for phase in pods.iter().filter_map(|pod| PodPhase::of(pod)) {
        *counts.entry(phase).or_default() += 1;
    }
    let counts = counts.iter().map(|(phase, count)| format!("{count} {phase}"));
    counts.collect::<Vec<_>>().join(", ")
}

/// Returns the reason why a component is not ready: as reported by its status or by its pods, or the ready and desired
/// replicas.
fn waits_for(parts: &Parts<'_>, ready: i32) -> String {
    let statuses = || parts.objects.iter().filter_map(|one| one.status.as_ref());
    let find = |type_: &str, status: &str| {
        let mut conditions = statuses().flat_map(|status| &status.conditions);
        conditions.find(|one| one.type_ == type_ && one.status == status)
    };
    if let Some(stalled) = find(STALLED, "True") {
        return reported(stalled);
    }
    let late = |pod: &&&Pod| !matches!(PodPhase::of(pod), None | Some(PodPhase::Ready | PodPhase::Ending));
    if let Some(shortfall) = parts.pods.iter().filter(late).find_map(|pod| shortfall(pod)) {
        return shortfall;
    }
    let desired = parts.spec.desired_replicas();
    if ready >= desired {
        return String::new();
    }
    let unready = find(READY, "False").or_else(|| find(AVAILABLE, "False"));
    unready.map_or_else(|| format!("{ready} of {desired} replicas"), reported)
}

fn reported(condition: &Condition) -> String {
    let Condition { reason, message, .. } = condition;
    format!("{reason}: {message}").trim_end_matches([':', ' ']).to_owned()
}

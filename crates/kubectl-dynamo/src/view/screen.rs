//! The state of one graph: a screen, or one line.

use std::collections::BTreeSet;

use api_types::{
    conditions::{READY, STALLED},
    labels,
    v1beta1::{DynamoComponentDeployment, RollingUpdatePhase},
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde::Serialize;

use super::model::Family;
use crate::{
    diagnosis::{Subject, component_of, has_ended, is_ready},
    gpus,
    output::{Style, Table, one_line},
};

/// Cells of a bar.
const WIDTH: usize = 30;

/// One component of a graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComponentRow {
    /// Name in the graph.
    pub component: String,
    /// Role.
    pub role: String,
    /// Live revisions of a worker, the newest last.
    pub revisions: Vec<String>,
    /// Desired replicas.
    pub desired: i32,
    /// Pods or groups that exist.
    pub replicas: i32,
    /// Those that are ready.
    pub ready: i32,
    /// Those of the latest spec.
    pub updated: i32,
    /// GPUs of its pods.
    pub gpus: u64,
}

/// State of a graph in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GraphState {
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// `state` of its status.
    pub state: String,
    /// Whether it is ready at its latest generation.
    pub ready: bool,
    /// Whether it cannot go on until something is changed.
    pub stalled: bool,
    /// Whether a new revision is taking over.
    pub rollout: bool,
    /// Reason and message of `Ready`, or of `Stalled`.
    pub message: String,
    /// Components.
    pub components: Vec<ComponentRow>,
}

/// The state of a graph.
pub fn rows(family: &Family) -> GraphState {
    let subject = Subject::of_graph(&family.graph);
    let status = family.graph.status.clone().unwrap_or_default();
    let holds = |type_| subject.condition(type_).filter(|one| one.status == "True");
    let stalled = holds(STALLED).filter(|_| subject.is_current());
    let shown = stalled.or_else(|| subject.condition(READY));
    let update = status.rolling_update.as_ref().and_then(|update| update.phase);
    let components = family.graph.spec.components.iter().map(|spec| {
        let counts = status.components.get(&spec.name);
        let own = || family.components.iter().filter(|component| component.spec.component.name == spec.name);
        let names: BTreeSet<String> = own().map(ResourceExt::name_any).collect();
        let is_own = |pod: &&Pod| match component_of(pod) {
            Some(name) if names.contains(name) => true,
            _ => pod.labels().get(labels::COMPONENT).is_some_and(|name| *name == spec.name),
        };
        let pods: Vec<_> = family.pods.iter().filter(is_own).filter(|pod| !has_ended(pod)).collect();
        let revision = |one: &DynamoComponentDeployment| {
            let created = one.metadata.creation_timestamp.as_ref().map(|time| time.0);
            Some((created, one.labels().get(labels::WORKER_HASH)?.clone()))
        };
        let mut revisions: Vec<_> = own().filter_map(revision).collect();
        revisions.sort();
        let live = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        let adapter = family.adapters.iter().find(|one| one.spec.dgd_ref.component_name == spec.name);
        ComponentRow {
            component: spec.name.clone(),
            role: spec.type_.map(|type_| type_.to_string()).unwrap_or_else(|| "-".to_owned()),
            revisions: revisions.into_iter().map(|(_, revision)| revision).collect(),
            desired: adapter.map_or(spec.wanted_replicas(), |adapter| adapter.spec.replicas),
            replicas: counts.map_or(live(pods.len()), |counts| counts.replicas),
            ready: counts
                .and_then(|counts| counts.ready_replicas.or(counts.available_replicas))
                .unwrap_or_else(|| live(pods.iter().filter(|pod| is_ready(pod)).count())),
            updated: counts.map_or(0, |counts| counts.updated_replicas),
            gpus: pods.iter().map(|pod| gpus::of_pod(pod)).sum(),
        }
    });
    GraphState {
        name: subject.name.clone(),
        namespace: subject.namespace.clone(),
        state: status.state.as_str().to_owned(),
        ready: holds(READY).is_some() && subject.is_current() && subject.deleted.is_none(),
        stalled: stalled.is_some(),
        rollout: matches!(update, Some(RollingUpdatePhase::InProgress | RollingUpdatePhase::Pending)),
        message: shown.map(|one| format!("{}: {}", one.reason, one.message)).unwrap_or_default(),
        components: components.collect(),
    }
}

/// The state as a screen: heading, components, rollout.
pub fn screen(state: &GraphState, wide: bool, style: Style) -> String {
    let word = match state {
        GraphState { ready: true, .. } => style.good("ready"),
        GraphState { stalled: true, .. } => style.bad("stalled"),
        _ => style.pending(&state.state),
    };
    let mut text = format!("{} {}/{}: {word}\n", style.strong("graph"), state.namespace, state.name);
    if !state.ready {
        text.push_str(&format!("{}\n", one_line(&state.message)));
    }
    text.push('\n');
    let headings = ["COMPONENT", "TYPE", "READY", "UPDATED", "GPUS", "REVISIONS"];
    let mut table = Table::new(if wide { &headings } else { &headings[..5] });
    for one in &state.components {
        let cells = [
            one.component.clone(),
            one.role.clone(),
            format!("{}/{}", one.ready, one.desired),
            one.updated.to_string(),
            one.gpus.to_string(),
            one.revisions.join(" -> "),
        ];
        table.row(cells.into_iter().take(if wide { 6 } else { 5 }));
    }
    text.push_str(&table.text());
    if state.rollout {
        let (updated, desired) = progress(state);
        let filled = usize::try_from(updated).unwrap_or(0) * WIDTH / usize::try_from(desired.max(1)).unwrap_or(1);
        let filled = filled.min(WIDTH);
        let bar = format!("{}{}", "#".repeat(filled), "-".repeat(WIDTH - filled));
        text.push_str(&format!("\nrollout [{bar}] {updated}/{desired} workers are of the new revision\n"));
    }
    text
}

/// The state in one line, for logs.
pub fn line(state: &GraphState) -> String {
    let word = match state {
        GraphState { ready: true, .. } => "ready",
        GraphState { stalled: true, .. } => "stalled",
        _ => &state.state,
    };
    let components = state.components.iter().map(|one| format!("{} {}/{}", one.component, one.ready, one.desired));
    let rollout = match state.rollout {
        true => {
            let (updated, desired) = progress(state);
            format!("; rollout {updated}/{desired}")
        }
        false => String::new(),
    };
    let message = if state.stalled { format!("; {}", state.message) } else { String::new() };
    one_line(&format!(
        "{}/{} {word}: {}{rollout}{message}",
        state.namespace,
        state.name,
        components.collect::<Vec<_>>().join(", ")
    ))
}

/// New and desired workers.
fn progress(state: &GraphState) -> (i32, i32) {
    let workers = || state.components.iter().filter(|one| !one.revisions.is_empty());
    (workers().map(|one| one.updated.min(one.desired)).sum(), workers().map(|one| one.desired).sum())
}

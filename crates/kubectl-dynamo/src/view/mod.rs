//! A graph with its children, and the graphs of a namespace or of all, as trees, tables and lines. Pure.

mod history;
#[cfg(test)]
mod tests;
mod top;
mod tree;

use api_types::{
    conditions::{READY, STALLED},
    gpus,
    v1beta1::{ComponentSpec, DynamoComponentDeployment, DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter},
};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use serde::Serialize;
use status_view::{State, Table};

pub use self::{
    history::{history, history_table},
    top::{usage, usage_table},
    tree::{tree, tree_text},
};
use crate::diagnosis::{ObservedWorkload, Subject};

/// Time between two moments as kubectl has it: `45s`, `12m`, `5h`, `3d`.
pub fn age(now: Timestamp, since: Option<Timestamp>) -> String {
    let Some(since) = since else { return "-".to_owned() };
    match now.as_second().saturating_sub(since.as_second()).max(0) {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7200 => format!("{}m", seconds / 60),
        seconds @ 7200..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// A graph and its children.
#[derive(Clone, Debug)]
pub struct Family {
    /// The graph.
    pub graph: DynamoGraphDeployment,
    /// Its components, of all revisions.
    pub components: Vec<DynamoComponentDeployment>,
    /// Their workloads.
    pub workloads: Vec<ObservedWorkload>,
    /// Its scaling adapters.
    pub adapters: Vec<DynamoGraphDeploymentScalingAdapter>,
    /// Its pods.
    pub pods: Vec<Pod>,
}

impl Family {
    /// The state of the graph.
    pub fn state(&self) -> State {
        State::of_graph(&self.graph, &self.components, &self.pods)
    }
}

/// A graph in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// State, as one word.
    pub state: String,
    /// Components of which all pods are ready.
    pub ready: usize,
    /// Components.
    pub components: usize,
    /// GPUs that all desired replicas request.
    pub gpus: u64,
    /// Reason of `Ready`.
    pub reason: String,
    #[serde(skip)]
    created: Option<Timestamp>,
}

/// A graph in one line.
pub fn summary(graph: &DynamoGraphDeployment) -> Summary {
    let subject = Subject::of_graph(graph);
    let status = graph.status.clone().unwrap_or_default();
    let holds = |type_: &str| subject.condition(type_).is_some_and(|one| one.status == "True") && subject.is_current();
    let is_ready = |spec: &&ComponentSpec| {
        let counts = status.components.get(&spec.name);
        let ready = counts.and_then(|counts| counts.serving()).unwrap_or_default();
        ready >= spec.desired_replicas()
    };
    let of_component = |spec: &ComponentSpec| {
        let pods = i64::from(spec.desired_replicas()) * i64::from(spec.node_count());
        let each = spec.pod_spec().map_or(0, gpus::of_spec);
        u64::try_from(pods).unwrap_or(0) * each
    };
    Summary {
        state: match () {
            () if subject.deleted.is_some() => "deleting".to_owned(),
            () if holds(READY) => "ready".to_owned(),
            () if holds(STALLED) => "stalled".to_owned(),
            () => status.state.as_str().to_owned(),
        },
        ready: graph.spec.components.iter().filter(is_ready).count(),
        components: graph.spec.components.len(),
        gpus: graph.spec.components.iter().map(of_component).sum(),
        reason: subject.condition(READY).map(|ready| ready.reason.clone()).unwrap_or_default(),
        created: graph.metadata.creation_timestamp.as_ref().map(|time| time.0),
        namespace: subject.namespace,
        name: subject.name,
    }
}

/// Graphs as a table.
pub fn list_table(graphs: &[Summary], all_namespaces: bool, wide: bool, now: Timestamp) -> String {
    let mut headings = vec!["NAMESPACE", "NAME", "STATE", "COMPONENTS", "GPUS", "AGE", "REASON"];
    if !wide {
        headings.pop();
    }
    let skipped = usize::from(!all_namespaces);
    let mut table = Table::new(&headings[skipped..]);
    for one in graphs {
        let cells = [
            one.namespace.clone(),
            one.name.clone(),
            one.state.clone(),
            format!("{}/{}", one.ready, one.components),
            one.gpus.to_string(),
            age(now, one.created),
            one.reason.clone(),
        ];
        table.row(cells.into_iter().take(headings.len()).skip(skipped));
    }
    table.text()
}

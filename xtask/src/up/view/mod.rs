//! What there is to see of a graph or a component, as lines of text. Made from what was observed, without looking
//! again.

use api_types::{
    conditions,
    v1beta1::{ComponentReplicaStatus, ComponentSpec, ComponentType},
};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Condition};

/// A graph, or a component that stands alone.
#[derive(Debug, Default)]
pub(super) struct View {
    /// `graph <namespace>/<name>`.
    pub(super) title: String,
    /// Generation of its spec.
    pub(super) generation: i64,
    pub(super) conditions: Vec<Condition>,
    pub(super) components: Vec<ComponentView>,
}

/// One component.
#[derive(Debug, Default)]
pub(super) struct ComponentView {
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) wanted: i32,
    pub(super) counts: Option<ComponentReplicaStatus>,
    pub(super) pods: Vec<Pod>,
    /// Conditions of the objects that run it.
    pub(super) conditions: Vec<Condition>,
}

impl View {
    /// Whether it is Ready as it is now, and not as it was before its last change.
    pub(super) fn is_ready(&self) -> bool {
        self.condition(conditions::READY).is_some_and(|ready| {
            ready.status == "True" && ready.observed_generation.is_none_or(|observed| observed >= self.generation)
        })
    }

    fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == kind)
    }

    /// A line for the whole, a table of its components, and a line for each condition that is not as it should be.
    pub(super) fn lines(&self) -> Vec<String> {
        let state = if self.is_ready() { "Ready" } else { "not Ready" };
        let mut lines = vec![format!("{}: {state}", self.title)];
        lines.extend(table(&self.components).into_iter().map(|row| format!("  {row}")));
        lines.extend(self.troubles().into_iter().map(|trouble| format!("  {trouble}")));
        lines
    }

    /// What it waits for, as its conditions tell.
    fn troubles(&self) -> Vec<String> {
        if self.conditions.is_empty() {
            return vec!["no controller has looked at it yet".to_owned()];
        }
        let stalled = self.condition(conditions::STALLED).filter(|stalled| is_trouble(stalled));
        // `Ready` often repeats why it is stalled.
        let repeats = |condition: &Condition| {
            condition.type_ == conditions::READY && stalled.is_some_and(|stalled| stalled.message == condition.message)
        };
        let troubles = self.conditions.iter().filter(|condition| is_trouble(condition) && !repeats(condition));
        troubles.map(reported).collect()
    }
}

impl ComponentView {
    /// A component as its spec has it.
    pub(super) fn of(spec: &ComponentSpec) -> Self {
        Self {
            name: spec.name.clone(),
            kind: spec.type_.map_or("-", ComponentType::as_str),
            wanted: spec.wanted_replicas(),
            ..Self::default()
        }
    }

    fn ready(&self) -> i32 {
        self.counts.as_ref().and_then(|counts| counts.ready_replicas).unwrap_or_default()
    }

    /// `2 ready, 1 starting`.
    fn pod_counts(&self) -> String {
        let mut counts = [("ready", 0), ("starting", 0), ("unscheduled", 0), ("ending", 0), ("failed", 0)];
        for pod in &self.pods {
            counts[state(pod) as usize].1 += 1;
        }
        let present = counts.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{count} {name}"));
        let text = present.collect::<Vec<_>>().join(", ");
        if text.is_empty() { "-".to_owned() } else { text }
    }

    /// The first thing that keeps it from being ready.
    fn waits_for(&self) -> String {
        let stalled = self.conditions.iter().find(|c| c.type_ == conditions::STALLED && c.status == "True");
        if let Some(stalled) = stalled {
            return reported(stalled);
        }
        let pods = self.pods.iter().filter(|pod| !matches!(state(pod), PodState::Ready | PodState::Ending));
        if let Some(reason) = pods.into_iter().find_map(trouble_of_pod) {
            return reason;
        }
        if self.ready() >= self.wanted {
            return String::new();
        }
        let unready = [conditions::READY, conditions::AVAILABLE]
            .iter()
            .find_map(|kind| self.conditions.iter().find(|c| c.type_ == *kind && c.status != "True"));
        unready.map_or_else(|| format!("{} of {} replicas", self.ready(), self.wanted), reported)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PodState {
    Ready,
    Starting,
    Unscheduled,
    Ending,
    Failed,
}

fn state(pod: &Pod) -> PodState {
    if pod.metadata.deletion_timestamp.is_some() {
        return PodState::Ending;
    }
    let status = pod.status.as_ref();
    let is = |kind: &str, value: &str| {
        let mut conditions = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.any(|condition| condition.type_ == kind && condition.status == value)
    };
    match status.and_then(|status| status.phase.as_deref()) {
        Some("Failed") => PodState::Failed,
        _ if is("Ready", "True") => PodState::Ready,
        _ if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()) => PodState::Starting,
        _ => PodState::Unscheduled,
    }
}

/// Why a pod does not run: the scheduler's reason, or that of a container.
fn trouble_of_pod(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let scheduled = status.conditions.iter().flatten().find(|c| c.type_ == "PodScheduled" && c.status == "False");
    let waiting = || {
        let mut containers = status.container_statuses.iter().flatten();
        containers.find_map(|container| container.state.as_ref()?.waiting.clone())
    };
    let (reason, message) = match scheduled {
        Some(condition) => (condition.reason.clone(), condition.message.clone()),
        None => waiting().map(|waiting| (waiting.reason, waiting.message))?,
    };
    let message = message.map(|message| format!(": {message}")).unwrap_or_default();
    Some(format!("pod {name}: {}{message}", reason.unwrap_or_default()))
}

/// `Ready` should be true and `Stalled` false; other types say nothing that these do not.
fn is_trouble(condition: &Condition) -> bool {
    match condition.type_.as_str() {
        conditions::READY => condition.status != "True",
        conditions::STALLED => condition.status == "True",
        _ => false,
    }
}

fn reported(condition: &Condition) -> String {
    let Condition { type_, status, reason, message, .. } = condition;
    format!("{type_}={status} {reason}: {message}").trim_end_matches([':', ' ']).to_owned()
}

fn table(components: &[ComponentView]) -> Vec<String> {
    let head = ["COMPONENT", "TYPE", "READY", "PODS", "WAITS FOR"].map(str::to_owned);
    let rows = components.iter().map(|component| {
        let ready = format!("{}/{}", component.ready(), component.wanted);
        [component.name.clone(), component.kind.to_owned(), ready, component.pod_counts(), component.waits_for()]
    });
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    let mut widths = [0; 5];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |row: &[String; 5]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests;

//! Plans the restarts that `spec.restart` requests.
//!
//! A restart sets an annotation of the pod template of a component, which rolls its pods in place; it makes no new
//! revision. Live components carry the annotation, so the progress is recomputed from them and not lost with the
//! status.

use std::collections::BTreeMap;

use api_types::{
    annotations::RESTART_AT,
    conditions,
    v1beta1::{
        DynamoComponentDeployment, DynamoGraphDeployment, Restart, RestartPhase, RestartStatus, RestartStrategyType,
    },
};
use controller_kit::conditions::is_true;
use kube::ResourceExt;

use crate::graph::model::{GraphObserved, GraphPlan, is_current};

/// Sets the annotations in the planned components, and the progress in the plan. Runs after the rest is planned.
pub fn plan_restart(observed: &GraphObserved, plan: &mut GraphPlan) {
    let live: BTreeMap<String, &DynamoComponentDeployment> = observed.present().map(|d| (d.name_any(), d)).collect();
    let states: Vec<_> = plan.components.iter().map(|desired| RestartState::of(desired, &live)).collect();
    let restart = self::plan(&observed.graph, &states, plan.rollout.in_progress());
    let marks: Vec<Option<String>> = states.iter().map(|state| restart.mark_of(state).map(str::to_owned)).collect();
    plan.restart = restart.status;
    for (desired, mark) in plan.components.iter_mut().zip(marks) {
        if let Some(mark) = mark {
            let template = desired.spec.component.pod_template.get_or_insert_default();
            let annotations = template.metadata.get_or_insert_default().annotations.get_or_insert_default();
            annotations.insert(RESTART_AT.to_owned(), mark);
        }
    }
}

/// Progress of one component in the restart.
pub(super) struct RestartState<'a> {
    /// Name of the component.
    pub(super) component: String,
    /// Whether its object does not exist yet: its pods will be new anyway.
    pub(super) is_new: bool,
    /// The restart that the annotation of its live object names.
    pub(super) mark: Option<&'a str>,
    /// Whether its live object is rolled out.
    pub(super) done: bool,
}

impl<'a> RestartState<'a> {
    fn of(desired: &DynamoComponentDeployment, live: &BTreeMap<String, &'a DynamoComponentDeployment>) -> Self {
        let live = live.get(&desired.name_any()).copied();
        Self {
            component: desired.spec.component.name.clone(),
            is_new: live.is_none(),
            mark: live.and_then(|d| d.spec.component.pod_annotation(RESTART_AT)),
            done: live.is_some_and(|d| {
                is_current(d) && d.status.as_ref().is_some_and(|s| is_true(&s.conditions, conditions::AVAILABLE))
            }),
        }
    }
}

/// The restart of all components.
pub(super) struct RestartPlan<'a> {
    /// Progress of the restart.
    pub(super) status: Option<RestartStatus>,
    /// Its id, and the components whose annotation must name it.
    marked: Option<(&'a str, Vec<String>)>,
}

impl RestartPlan<'_> {
    /// The annotation of a component. One that is not due keeps its last annotation: removing it would restart its
    /// pods.
    pub(super) fn mark_of<'b>(&'b self, state: &'b RestartState<'_>) -> Option<&'b str> {
        let new = self.marked.as_ref().filter(|(_, names)| names.contains(&state.component)).map(|(id, _)| *id);
        new.or(state.mark)
    }
}

/// Plans one step. `rolling`: workers of another revision come up beside those that serve.
pub(super) fn plan<'a>(
    graph: &'a DynamoGraphDeployment,
    states: &[RestartState<'_>],
    rolling: bool,
) -> RestartPlan<'a> {
    let before = graph.status.as_ref().and_then(|status| status.restart.clone());
    let Some(restart) = &graph.spec.restart else {
        let status = before.filter(|status| status.phase.as_ref().is_some_and(is_final));
        return RestartPlan { status, marked: None };
    };
    let id = restart.id.as_str();
    let is_parallel = restart.strategy.as_ref().is_some_and(|s| s.type_ == RestartStrategyType::Parallel);
    let order = if is_parallel { states.iter().collect() } else { order(restart, states) };
    let is_named = |state: &RestartState<'_>, some: &[&RestartState<'_>]| {
        some.iter().any(|other| other.component == state.component)
    };
    let names = |some: &[&RestartState<'_>]| {
        let all = states.iter().filter(|state| state.is_new || is_named(state, some));
        all.map(|state| state.component.clone()).collect()
    };
    let known = before.filter(|status| status.observed_id.as_deref() == Some(id));
    match known.as_ref().and_then(|status| status.phase.as_ref()) {
        Some(RestartPhase::Completed) => return RestartPlan { status: known, marked: Some((id, names(&order))) },
        Some(RestartPhase::Superseded | RestartPhase::Failed) => return RestartPlan { status: known, marked: None },
        _ => {}
    }
    let said = |phase, in_progress: Vec<String>| {
        let in_progress = Some(in_progress).filter(|names| !names.is_empty());
        Some(RestartStatus { observed_id: Some(id.to_owned()), phase: Some(phase), in_progress })
    };
    if rolling {
        // New workers start anyway, and two causes for a change of pods at once are one too many.
        return RestartPlan { status: said(RestartPhase::Superseded, Vec::new()), marked: None };
    }
    let is_done = |state: &RestartState<'_>| state.is_new || (state.mark == Some(id) && state.done);
    let Some(next) = order.iter().position(|state| !is_done(state)) else {
        return RestartPlan { status: said(RestartPhase::Completed, Vec::new()), marked: Some((id, names(&order))) };
    };
    let (mut open, begun): (Vec<_>, _) = if is_parallel {
        (order.iter().filter(|state| !is_done(state)).map(|state| state.component.clone()).collect(), &order[..])
    } else {
        (vec![order[next].component.clone()], &order[..=next])
    };
    open.sort();
    RestartPlan { status: said(RestartPhase::Restarting, open), marked: Some((id, names(begun))) }
}

fn is_final(phase: &RestartPhase) -> bool {
    matches!(phase, RestartPhase::Completed | RestartPhase::Failed | RestartPhase::Superseded)
}

/// The components in the order of the spec, else by name. Names of no component are skipped; components that the order
/// does not name are not restarted.
fn order<'a, 'b>(restart: &Restart, states: &'a [RestartState<'b>]) -> Vec<&'a RestartState<'b>> {
    let given = restart.strategy.as_ref().and_then(|s| s.order.as_deref()).filter(|order| !order.is_empty());
    match given {
        Some(names) => names.iter().filter_map(|name| states.iter().find(|state| state.component == *name)).collect(),
        None => {
            let mut all: Vec<_> = states.iter().collect();
            all.sort_by(|a, b| a.component.cmp(&b.component));
            all
        }
    }
}

#[cfg(test)]
mod tests;

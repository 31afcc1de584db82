//! Restarts that an author asks for with `spec.restart`: which components are told to start anew, and how far it is.
//!
//! A component is told by an annotation of its pod template, which rolls its pods in place; it makes no new generation. What
//! has been told can be read from the components themselves, so nothing is lost with the status.

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

use super::{Decision, is_current};
use crate::graph::observe::Observed;

/// Decides on the restart, after everything else is decided: writes the annotation into the components, and the progress into
/// the decision.
pub fn decide_restart(observed: &Observed, decision: &mut Decision) {
    let live: BTreeMap<String, &DynamoComponentDeployment> = observed.present().map(|d| (d.name_any(), d)).collect();
    let told: Vec<Told<'_>> = decision.components.iter().map(|wanted| Told::of(wanted, &live)).collect();
    let plan = plan(&observed.graph, &told, decision.rollout.in_progress());
    let marks: Vec<Option<String>> = told.iter().map(|told| plan.mark_of(told).map(str::to_owned)).collect();
    decision.restart = plan.status;
    for (wanted, mark) in decision.components.iter_mut().zip(marks) {
        if let Some(mark) = mark {
            let template = wanted.spec.component.pod_template.get_or_insert_default();
            let annotations = template.metadata.get_or_insert_default().annotations.get_or_insert_default();
            annotations.insert(RESTART_AT.to_owned(), mark);
        }
    }
}

/// One component, and what it has been told.
pub(super) struct Told<'a> {
    /// Its name.
    pub(super) component: String,
    /// Whether its object is still to be made: its pods will be new anyway.
    pub(super) is_new: bool,
    /// The restart that its live object has been told of.
    pub(super) mark: Option<&'a str>,
    /// Whether everything that its live object has been told has been carried out.
    pub(super) done: bool,
}

impl<'a> Told<'a> {
    fn of(wanted: &DynamoComponentDeployment, live: &BTreeMap<String, &'a DynamoComponentDeployment>) -> Self {
        let live = live.get(&wanted.name_any()).copied();
        Self {
            component: wanted.spec.component.name.clone(),
            is_new: live.is_none(),
            mark: live.and_then(mark_in),
            done: live.is_some_and(|d| {
                is_current(d) && d.status.as_ref().is_some_and(|s| is_true(&s.conditions, conditions::AVAILABLE))
            }),
        }
    }
}

fn mark_in(d: &DynamoComponentDeployment) -> Option<&str> {
    let metadata = d.spec.component.pod_template.as_ref()?.metadata.as_ref()?;
    metadata.annotations.as_ref()?.get(RESTART_AT).map(String::as_str)
}

/// Who is told of which restart.
pub(super) struct Plan<'a> {
    /// How far it is.
    pub(super) status: Option<RestartStatus>,
    /// The restart, and the components that shall have been told of it.
    tell: Option<(&'a str, Vec<String>)>,
}

impl Plan<'_> {
    /// What a component's pod template says. One that is not told anything new keeps what it was told last: taking that away
    /// would start its pods anew.
    pub(super) fn mark_of<'b>(&'b self, told: &'b Told<'_>) -> Option<&'b str> {
        let new = self.tell.as_ref().filter(|(_, names)| names.contains(&told.component)).map(|(id, _)| *id);
        new.or(told.mark)
    }
}

/// Plans one step. `rolling` says that workers of another generation come beside those that serve.
pub(super) fn plan<'a>(graph: &'a DynamoGraphDeployment, told: &[Told<'_>], rolling: bool) -> Plan<'a> {
    let before = graph.status.as_ref().and_then(|status| status.restart.clone());
    let Some(restart) = &graph.spec.restart else {
        return Plan { status: before.filter(|status| status.phase.as_ref().is_some_and(is_final)), tell: None };
    };
    let id = restart.id.as_str();
    let is_parallel = restart.strategy.as_ref().is_some_and(|s| s.type_ == RestartStrategyType::Parallel);
    let order = if is_parallel { told.iter().collect() } else { order(restart, told) };
    let is_named = |told: &Told<'_>, some: &[&Told<'_>]| some.iter().any(|other| other.component == told.component);
    let names = |some: &[&Told<'_>]| {
        let all = told.iter().filter(|told| told.is_new || is_named(told, some));
        all.map(|told| told.component.clone()).collect()
    };
    let known = before.filter(|status| status.observed_id.as_deref() == Some(id));
    match known.as_ref().and_then(|status| status.phase.as_ref()) {
        Some(RestartPhase::Completed) => return Plan { status: known, tell: Some((id, names(&order))) },
        Some(RestartPhase::Superseded | RestartPhase::Failed) => return Plan { status: known, tell: None },
        _ => {}
    }
    let said = |phase, in_progress: Vec<String>| {
        let in_progress = Some(in_progress).filter(|names| !names.is_empty());
        Some(RestartStatus { observed_id: Some(id.to_owned()), phase: Some(phase), in_progress })
    };
    if rolling {
        // New workers start anyway, and two causes for a change of pods at once are one too many.
        return Plan { status: said(RestartPhase::Superseded, Vec::new()), tell: None };
    }
    let is_done = |told: &Told<'_>| told.is_new || (told.mark == Some(id) && told.done);
    let Some(next) = order.iter().position(|told| !is_done(told)) else {
        return Plan { status: said(RestartPhase::Completed, Vec::new()), tell: Some((id, names(&order))) };
    };
    let (open, begun) = if is_parallel {
        (order.iter().filter(|told| !is_done(told)).map(|told| told.component.clone()).collect(), &order[..])
    } else {
        (vec![order[next].component.clone()], &order[..=next])
    };
    Plan { status: said(RestartPhase::Restarting, sorted(open)), tell: Some((id, names(begun))) }
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

fn is_final(phase: &RestartPhase) -> bool {
    matches!(phase, RestartPhase::Completed | RestartPhase::Failed | RestartPhase::Superseded)
}

/// The components one after the other: as the author says, else by name. Names that no component has are left out, and
/// components that the author does not name are not restarted.
fn order<'a, 'b>(restart: &Restart, told: &'a [Told<'b>]) -> Vec<&'a Told<'b>> {
    let given = restart.strategy.as_ref().and_then(|s| s.order.as_deref()).filter(|order| !order.is_empty());
    match given {
        Some(names) => names.iter().filter_map(|name| told.iter().find(|told| told.component == *name)).collect(),
        None => {
            let mut all: Vec<_> = told.iter().collect();
            all.sort_by(|a, b| a.component.cmp(&b.component));
            all
        }
    }
}

#[cfg(test)]
mod tests;

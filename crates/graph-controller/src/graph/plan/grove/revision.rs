//! Desired worker revision of a graph on Grove, from its PodCliqueSet alone.
//!
//! All workers of a graph change revision together. Here there is only one revision at a time: Grove replaces the pods
//! of the last one by those of the next, within the same cliques.

use api_types::{annotations, grove::PodCliqueSet, names::RevisionSuffix};
use kube::ResourceExt;

use super::{super::revision, live, render, restart_states};
use crate::graph::{
    grove_readiness::revision_of,
    model::{Observed, ValidGraph},
};

/// The revision that the spec asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroveTarget {
    /// Its suffix; `None` if the graph has no workers, or workers older than revisions.
    pub suffix: Option<RevisionSuffix>,
    /// Its fingerprint.
    pub fingerprint: String,
    /// The user has changed nothing about the workers since they were made.
    pub unchanged: bool,
}

/// Finds the revision that the spec asks for.
///
/// 1. What is live has our fingerprint of the spec: its revision stays.
/// 2. What is live was made by another operator, or under another recipe, and holds what the spec asks for: its
///    revision stays, so that taking over replaces no pod.
/// 3. Else it is a new one.
pub fn target(graph: &ValidGraph<'_>, observed: &Observed) -> GroveTarget {
    let fingerprint = revision::fingerprint(graph);
    let new = |suffix| GroveTarget { suffix, fingerprint: fingerprint.clone(), unchanged: false };
    if graph.workers().next().is_none() {
        return new(None);
    }
    let Some(set) = observed.grove.set() else { return new(Some(RevisionSuffix::of(&fingerprint, 0))) };
    let suffix = suffix_of(graph, set);
    let same = GroveTarget { suffix: suffix.clone(), unchanged: true, ..new(None) };
    let stays = match set.annotations().get(annotations::GENERATION_FINGERPRINT) {
        Some(known) if *known == fingerprint => true,
        Some(known) if revision::is_current_recipe(known) => false,
        _ => holds(graph, observed, set, &GroveTarget { unchanged: is_as_reported(observed), ..same.clone() }),
    };
    if stays {
        return same;
    }
    let mut free = (0..).map(|attempt| RevisionSuffix::of(&fingerprint, attempt));
    new(free.find(|free| Some(free) != suffix.as_ref()))
}

/// Whether the status speaks of the present spec: then an operator has carried it out, and programs that it wrote into
/// pods are those for this spec.
fn is_as_reported(observed: &Observed) -> bool {
    let reported = observed.graph.status.as_ref().and_then(|status| status.observed_generation);
    reported.is_some() && reported == observed.graph.metadata.generation
}

/// The revision of the live workers; `None` if they are older than revisions, or of several.
pub fn suffix_of(graph: &ValidGraph<'_>, set: &PodCliqueSet) -> Option<RevisionSuffix> {
    let mut suffixes = graph.workers().map(|worker| live::clique_of(set, &worker.name).and_then(revision_of));
    let first = suffixes.next()??;
    suffixes.all(|suffix| suffix.as_ref() == Some(&first)).then_some(first)
}

/// Whether all live workers run exactly what the spec asks for.
fn holds(graph: &ValidGraph<'_>, observed: &Observed, set: &PodCliqueSet, target: &GroveTarget) -> bool {
    let states = restart_states(graph, observed);
    let marks: Vec<_> = states.iter().map(|state| state.mark).collect();
    let Ok(Some(rendered)) = render(graph, observed, target, &marks) else { return false };
    graph.workers().all(|worker| {
        let desired = live::cliques_of(&rendered.set, &worker.name);
        let mut all = desired.peekable();
        all.peek().is_some()
            && all.all(|desired| {
                let found = set.spec.template.cliques.iter().find(|found| found.name == desired.name);
                found.is_some_and(|found| live::runs_the_same(desired, found))
            })
    })
}

//! What of a graph may not change.

use std::collections::BTreeSet;

use api_types::annotations;

use super::super::{
    Facts, Request,
    field::Findings,
    identity,
    kind::Kind,
    shared::{self, Change},
    view::{Component, Graph},
};

const KIND: &str = Kind::Graph.name();

/// Checks the change from one graph to another.
pub(in crate::admission) fn check_update(
    new: &Graph<'_>,
    old: &Graph<'_>,
    request: &Request,
    facts: &Facts,
    out: &mut Findings,
) {
    provider(new, old, request, facts, out);
    components(new, old, out);
    let change = Change { owner: KIND, may_scale: identity::may_scale(request, facts) };
    for component in new.components() {
        if let Some(earlier) = old.component(component.name()) {
            shared::check_update(&component, &earlier, change, out);
            shared::power_limit_update(&component, &earlier, out);
        }
    }
}

/// The program that runs a graph is chosen once, and not by users.
fn provider(new: &Graph<'_>, old: &Graph<'_>, request: &Request, facts: &Facts, out: &mut Findings) {
    let [now, before] = [new, old].map(|graph| graph.annotation(annotations::WORKLOAD_PROVIDER));
    if before.is_set() {
        if now.given() != before.given() {
            out.immutable(&now, format!("put back {:?}, or delete the graph and create it anew", before.text()));
        }
    } else if now.is_set() && !identity::may_choose_provider(request, facts) {
        out.forbidden(&now, "the operator chooses what runs a graph; remove the annotation");
    }
}

fn components(new: &Graph<'_>, old: &Graph<'_>, out: &mut Findings) {
    let [now, before] = [new, old].map(|graph| graph.components().iter().map(Component::name).collect::<BTreeSet<_>>());
    let list = |names: Vec<&&str>| names.into_iter().copied().collect::<Vec<_>>().join(", ");
    let (added, removed) = (list(now.difference(&before).collect()), list(before.difference(&now).collect()));
    let changes: Vec<String> = [("adds", added), ("removes", removed)]
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(verb, names)| format!("{verb} {names}"))
        .collect();
    if !changes.is_empty() {
        let detail = format!(
            "the components of a graph stay, and this {}; set replicas to 0 to stop one, or delete the graph and create it anew",
            changes.join(" and ")
        );
        out.forbidden(&new.spec().field("components"), detail);
    }
}

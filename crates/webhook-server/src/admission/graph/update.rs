//! What of a graph may not change.

use std::collections::BTreeSet;

use api_types::{
    annotations,
    v1beta1::{KvTransferEnforcement, RollingUpdatePhase},
    violations,
};
use serde_json::Value;

use super::super::{
    Facts, Request,
    field::{Findings, Node},
    identity,
    kind::Kind,
    ratchet::is_same,
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
    let anew = violations::anew(KIND);
    provider(new, old, request, facts, out);
    let (spec, before) = (new.spec(), old.spec());
    shared::provider_override_update(&spec.field("providerOverride"), &before.field("providerOverride"), &anew, out);
    components(new, old, out);
    let change = Change { owner: KIND, may_scale: identity::may_scale(request, facts) };
    for component in new.components() {
        if let Some(earlier) = old.component(component.name()) {
            shared::check_update(&component, &earlier, change, out);
            shared::power_limit_update(&component, &earlier, out);
        }
    }
    framework(&spec.field("backendFramework"), &before.field("backendFramework"), &anew, out);
    let (constraint, earlier) = (spec.field("topologyConstraint"), before.field("topologyConstraint"));
    if !is_same(Some(constraint.value()), Some(earlier.value())) {
        out.immutable(&constraint, &anew);
    }
    transfer_policy(&spec, &before, &anew, out);
    restart(new, old, out);
}

/// The engine family stays, in graphs and in single components.
pub(in crate::admission) fn framework(new: &Node<'_>, old: &Node<'_>, anew: &str, out: &mut Findings) {
    if new.text() != old.text() {
        out.immutable(new, anew);
        out.warn(format!("{}: another engine reads other commands and settings than those of this object", new.path()));
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

fn transfer_policy(new: &Node<'_>, old: &Node<'_>, anew: &str, out: &mut Findings) {
    let place = ["experimental", "kvTransferPolicy"];
    let explicit = |spec: &Node<'_>| {
        let mut policy = spec.fields(&place).value().clone();
        if let Value::Object(fields) = &mut policy
            && fields.get("enforcement").is_none_or(|enforcement| enforcement.is_null() || enforcement == "")
        {
            fields.insert("enforcement".to_owned(), serde_json::json!(KvTransferEnforcement::Required));
        }
        policy
    };
    if !is_same(Some(&explicit(new)), Some(&explicit(old))) {
        out.immutable(&new.fields(&place), anew);
    }
}

/// A restart in the middle of an update would start pods that are about to go.
fn restart(new: &Graph<'_>, old: &Graph<'_>, out: &mut Findings) {
    let phase = old.status().fields(&["rollingUpdate", "phase"]);
    if !matches!(phase.parse(), Some(RollingUpdatePhase::Pending | RollingUpdatePhase::InProgress)) {
        return;
    }
    let [now, before] = [new, old].map(|graph| graph.spec().fields(&["restart", "id"]));
    if now.text() != before.text() {
        out.invalid(&now, violations::RESTART_IN_UPDATE);
    }
}

//! The Dynamo namespace of a graph, `<namespace>-<graph>`. Namespace and graph may both have hyphens, so two graphs can
//! have the same one. Their workers would then serve each other's requests, and the end of one would clear the other
//! away.

use api_types::names;

use super::super::{
    Facts, Found, Lookup, Operation,
    field::{Findings, Node},
    request::is_dns_subdomain,
    view::Graph,
};

/// Whether all components of a graph are in the global Dynamo namespace.
fn is_global(graph: &Graph<'_>) -> bool {
    graph.components().iter().all(|component| component.field("globalDynamoNamespace").is_true())
}

/// The Dynamo namespace that a graph uses; none if all its components are in the global one, or if servers are not
/// shared.
fn used(graph: &Graph<'_>, facts: &Facts) -> Option<String> {
    let is_used = facts.shared_servers && !is_global(graph) && !graph.name().is_empty();
    let used = is_used.then(|| names::dynamo_namespace(graph.namespace(), graph.name(), false));
    // A longer one is refused.
    used.filter(|used| used.len() <= names::LABEL_MAX)
}

/// The graphs that would have the same Dynamo namespace, one for each hyphen in it. Names with dots, which become
/// hyphens, are not looked up: that would take a list of all graphs.
pub(in crate::admission) fn lookups(graph: &Graph<'_>, facts: &Facts) -> Vec<Lookup> {
    let Some(used) = used(graph, facts) else { return Vec::new() };
    let others = used.match_indices('-').map(|(end, _)| (&used[..end], &used[end + 1..]));
    let others = others.filter(|other| *other != (graph.namespace(), graph.name()));
    let others = others.filter(|(namespace, name)| is_dns_subdomain(namespace) && is_dns_subdomain(name));
    let lookup = |(namespace, name): (&str, &str)| Lookup::Graph { namespace: namespace.into(), name: name.into() };
    others.map(lookup).collect()
}

/// Whether another graph has the Dynamo namespace.
fn is_taken(graph: &Graph<'_>, facts: &Facts) -> bool {
    let is_user = |lookup: &Lookup| match facts.found.get(lookup) {
        Some(Found::Object(other)) => !is_global(&Graph::new(Node::root(other))),
        Some(Found::Missing | Found::Unreadable(_)) | None => false,
    };
    lookups(graph, facts).iter().any(is_user)
}

/// Why it is unknown whether another graph has the Dynamo namespace.
fn unknown(graph: &Graph<'_>, facts: &Facts) -> Option<String> {
    lookups(graph, facts).iter().find_map(|lookup| match facts.found.get(lookup) {
        Some(Found::Unreadable(error)) => Some(error.clone()),
        _ => None,
    })
}

/// The other graph is not named: it may be that of another tenant.
fn conflict(graph: &Graph<'_>, facts: &Facts) -> Option<String> {
    let used = used(graph, facts).filter(|_| is_taken(graph, facts))?;
    Some(format!("the Dynamo namespace {used:?}, made from namespace and name, is that of another graph"))
}

/// A graph must not come into the Dynamo namespace of another one. One that exists does not wait for what cannot be
/// read.
pub(super) fn check(graph: &Graph<'_>, operation: Operation, facts: &Facts, out: &mut Findings) {
    let name = graph.metadata().field("name");
    if let Some(conflict) = conflict(graph, facts) {
        out.invalid(&name, format!("{conflict}; choose another name"));
    } else if let Some(error) = unknown(graph, facts).filter(|_| operation == Operation::Create) {
        out.invalid(&name, format!("graphs with the same Dynamo namespace could not be read: {error}; try again"));
    }
}

/// Graphs that share one already go on.
pub(super) fn warn(graph: &Graph<'_>, facts: &Facts, out: &mut Findings) {
    if let Some(conflict) = conflict(graph, facts) {
        out.warn(format!(
            "metadata.name: {conflict}; their workers may serve each other's requests: create one of them anew with another name"
        ));
    }
}

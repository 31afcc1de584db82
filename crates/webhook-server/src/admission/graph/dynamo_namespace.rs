//! The Dynamo namespace of a graph, `<namespace>-<graph>`. Namespace and graph may both have hyphens, so two graphs can
//! have the same one. Their workers would then serve each other's requests, and the end of one would clear the other
//! away.

use api_types::{names, v1beta1::DynamoGraphDeployment, violations::Violation};
use rendering::rules::Findings;

use super::super::{Facts, Found, Lookup, Operation, request::is_dns_subdomain, subject};

/// Whether all components of a graph are in the global Dynamo namespace.
fn is_global(graph: &DynamoGraphDeployment) -> bool {
    graph.spec.components.iter().all(|component| component.global_dynamo_namespace)
}

fn name_of(graph: &DynamoGraphDeployment) -> (&str, &str) {
    let metadata = &graph.metadata;
    (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

/// The Dynamo namespace that a graph uses; none if all its components are in the global one, or if servers are not
/// shared.
fn used(graph: &DynamoGraphDeployment, facts: &Facts) -> Option<String> {
    let (namespace, name) = name_of(graph);
    let is_used = facts.shared_servers && !is_global(graph) && !name.is_empty();
    let used = is_used.then(|| names::dynamo_namespace(namespace, name, false));
    // A longer one is refused.
    used.filter(|used| used.len() <= names::LABEL_MAX)
}

/// The graphs that would have the same Dynamo namespace, one for each hyphen in it. Names with dots, which become
/// hyphens, are not looked up: that would take a list of all graphs.
pub(super) fn lookups(graph: &DynamoGraphDeployment, facts: &Facts) -> Vec<Lookup> {
    let Some(used) = used(graph, facts) else { return Vec::new() };
    let others = used.match_indices('-').map(|(end, _)| (&used[..end], &used[end + 1..]));
    let others = others.filter(|other| *other != name_of(graph));
    let others = others.filter(|(namespace, name)| is_dns_subdomain(namespace) && is_dns_subdomain(name));
    let lookup = |(namespace, name): (&str, &str)| Lookup::Graph { namespace: namespace.into(), name: name.into() };
    others.map(lookup).collect()
}

/// Whether another graph has the Dynamo namespace.
fn is_taken(graph: &DynamoGraphDeployment, facts: &Facts) -> bool {
    let is_user = |lookup: &Lookup| match facts.found.get(lookup) {
        Some(Found::Object(other)) => !is_global(&subject::graph(other).0),
        Some(Found::Missing | Found::Unreadable(_)) | None => false,
    };
    lookups(graph, facts).iter().any(is_user)
}

/// Why it is unknown whether another graph has the Dynamo namespace.
fn unknown(graph: &DynamoGraphDeployment, facts: &Facts) -> Option<String> {
    lookups(graph, facts).iter().find_map(|lookup| match facts.found.get(lookup) {
        Some(Found::Unreadable(error)) => Some(error.clone()),
        _ => None,
    })
}

/// The other graph is not named: it may be that of another tenant.
fn conflict(graph: &DynamoGraphDeployment, facts: &Facts) -> Option<String> {
    let used = used(graph, facts).filter(|_| is_taken(graph, facts))?;
    Some(format!("the Dynamo namespace {used:?}, made from namespace and name, is that of another graph"))
}

/// A graph must not come into the Dynamo namespace of another one. One that exists does not wait for what cannot be
/// read.
pub(super) fn check(graph: &DynamoGraphDeployment, operation: Operation, facts: &Facts, out: &mut Findings) {
    let conflict = conflict(graph, facts).map(|conflict| (conflict, "choose another name"));
    let unknown = || {
        let error = unknown(graph, facts).filter(|_| operation == Operation::Create)?;
        Some((format!("graphs with the same Dynamo namespace could not be read: {error}"), "try again"))
    };
    let violation = conflict.or_else(unknown);
    out.extend(
        violation.map(|(message, remedy)| Violation::invalid("metadata.name", name_of(graph).1, message, remedy)),
    );
}

/// Graphs that share one already go on.
pub(super) fn warn(graph: &DynamoGraphDeployment, facts: &Facts, out: &mut Findings) {
    if let Some(conflict) = conflict(graph, facts) {
        let remedy = "their workers may serve each other's requests: create one of them anew with another name";
        out.warn("metadata.name", format!("{conflict}; {remedy}"));
    }
}

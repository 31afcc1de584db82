//! DynamoGraphDeployments: the facts that the rules about graphs depend on, and the rule about Dynamo namespaces.
//!
//! The Dynamo namespace of a graph is `<namespace>-<graph>`. Namespace and graph may both have hyphens, so two graphs
//! can have the same one. Their workers would then serve each other's requests, and the end of one would clear the
//! other away.

mod alpha;

use std::collections::BTreeSet;

pub(super) use alpha::{component as alpha_component, graph as alpha_graph};
use api_types::{names, v1beta1::DynamoGraphDeployment, violations::Violation};
use controller_kit::request::is_object_name;
use rendering::{
    rules,
    rules::{Findings, GraphRuleContext, Topology},
};

use super::{Facts, Lookup, Operation, field::FieldNode, subject};

/// The objects that the rules for a graph read. Topologies are checked when a graph is created.
pub(super) fn lookups(object: &serde_json::Value, operation: Operation, facts: &Facts) -> Vec<Lookup> {
    let graph = subject::graph(object);
    let mut lookups = dynamo_namespace_lookups(&graph, facts);
    if facts.features.grove && operation == Operation::Create {
        let names: BTreeSet<&str> = rules::topologies(&graph.spec).filter(|name| is_object_name(name)).collect();
        lookups.extend(names.into_iter().map(binding));
    }
    lookups
}

fn binding(name: &str) -> Lookup {
    Lookup::TopologyBinding { name: name.to_owned() }
}

/// Checks a graph as it is.
pub(super) fn check(graph: &DynamoGraphDeployment, operation: Operation, facts: &Facts, out: &mut Findings) {
    check_dynamo_namespace(graph, operation, facts, out);
    let find = |name: &str| topology(name, facts);
    let is_new = operation == Operation::Create;
    let context = GraphRuleContext { features: &facts.features, is_new, topology: Some(&find) };
    rules::graph::check(graph, &context, out);
}

fn topology(name: &str, facts: &Facts) -> Topology {
    match facts.object(&binding(name)) {
        Ok(Some(binding)) => {
            let levels = FieldNode::root(binding).fields(&["spec", "levels"]);
            Topology::Domains(levels.items().map(|level| level.field("domain").text().to_owned()).collect())
        }
        Ok(None) => Topology::Missing,
        Err(reason) => Topology::Unreadable(reason.to_owned()),
    }
}

/// Warns about what will not work although the graph is admitted.
pub(super) fn warn(graph: &DynamoGraphDeployment, operation: Operation, facts: &Facts, out: &mut Findings) {
    // Graphs that share a Dynamo namespace already go on.
    if operation == Operation::Update
        && let Some(conflict) = conflict(graph, facts)
    {
        let remedy = "their workers may serve each other's requests: create one of them anew with another name";
        out.warn("metadata.name", format!("{conflict}; {remedy}"));
    }
    rules::graph::warn(graph, &facts.features, out);
}

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
fn dynamo_namespace_lookups(graph: &DynamoGraphDeployment, facts: &Facts) -> Vec<Lookup> {
    let Some(used) = used(graph, facts) else { return Vec::new() };
    let others = used.match_indices('-').map(|(end, _)| (&used[..end], &used[end + 1..]));
    let others = others.filter(|other| *other != name_of(graph));
    let others = others.filter(|(namespace, name)| is_object_name(namespace) && is_object_name(name));
    let lookup = |(namespace, name): (&str, &str)| Lookup::Graph { namespace: namespace.into(), name: name.into() };
    others.map(lookup).collect()
}

/// That another graph has the Dynamo namespace. It is not named: it may be that of another tenant.
fn conflict(graph: &DynamoGraphDeployment, facts: &Facts) -> Option<String> {
    let is_user = |lookup: &Lookup| matches!(facts.object(lookup), Ok(Some(it)) if !is_global(&subject::graph(it)));
    let used = used(graph, facts).filter(|_| dynamo_namespace_lookups(graph, facts).iter().any(is_user))?;
    Some(format!("the Dynamo namespace {used:?}, made from namespace and name, is that of another graph"))
}

/// A graph must not come into the Dynamo namespace of another one. One that exists does not wait for what cannot be
/// read.
fn check_dynamo_namespace(graph: &DynamoGraphDeployment, operation: Operation, facts: &Facts, out: &mut Findings) {
    let conflict = conflict(graph, facts).map(|conflict| (conflict, "choose another name"));
    let unknown = || {
        let lookups = dynamo_namespace_lookups(graph, facts);
        let error = lookups.iter().find_map(|lookup| facts.object(lookup).err());
        let error = error.filter(|_| operation == Operation::Create)?;
        Some((format!("graphs with the same Dynamo namespace could not be read: {error}"), "try again"))
    };
    let violation = conflict.or_else(unknown);
    out.extend(
        violation.map(|(message, remedy)| Violation::invalid("metadata.name", name_of(graph).1, message, remedy)),
    );
}

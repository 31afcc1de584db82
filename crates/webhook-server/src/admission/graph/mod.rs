//! DynamoGraphDeployments: what the rules about graphs depend on.

mod alpha;
mod archive;
mod dynamo_namespace;

use std::collections::BTreeSet;

pub(super) use alpha::{component as alpha_component, graph as alpha_graph};
use api_types::v1beta1::DynamoGraphDeployment;
use rendering::rules::{self, Context, Findings, Topology, graph::Permissions};

use super::{Facts, Found, Lookup, Operation, Request, field::Node, request, request::is_dns_subdomain, subject};

/// The objects that the rules for a graph read. Topologies are checked when a graph is created.
pub(super) fn lookups(object: &serde_json::Value, operation: Operation, facts: &Facts) -> Vec<Lookup> {
    let (graph, _) = subject::graph(object);
    let mut lookups = dynamo_namespace::lookups(&graph, facts);
    if facts.features.grove && operation == Operation::Create {
        let names: BTreeSet<&str> = rules::topologies(&graph.spec).filter(|name| is_dns_subdomain(name)).collect();
        lookups.extend(names.into_iter().map(binding));
    }
    lookups
}

fn binding(name: &str) -> Lookup {
    Lookup::TopologyBinding { name: name.to_owned() }
}

/// Checks a graph as it is.
pub(super) fn check(graph: &DynamoGraphDeployment, operation: Operation, facts: &Facts, out: &mut Findings) {
    dynamo_namespace::check(graph, operation, facts, out);
    let find = |name: &str| topology(name, facts);
    let is_new = operation == Operation::Create;
    let context = Context { features: &facts.features, is_new, topology: Some(&find) };
    rules::graph::check(graph, &context, out);
}

fn topology(name: &str, facts: &Facts) -> Topology {
    match facts.found.get(&binding(name)) {
        Some(Found::Object(binding)) => {
            let levels = Node::root(binding).fields(&["spec", "levels"]);
            Topology::Domains(levels.items().map(|level| level.field("domain").text().to_owned()).collect())
        }
        Some(Found::Unreadable(reason)) => Topology::Unreadable(reason.clone()),
        Some(Found::Missing) | None => Topology::Missing,
    }
}

/// Warns about what will not work although the graph is admitted.
pub(super) fn warn(graph: &DynamoGraphDeployment, operation: Operation, facts: &Facts, out: &mut Findings) {
    if operation == Operation::Update {
        dynamo_namespace::warn(graph, facts, out);
    }
    rules::graph::warn(graph, &facts.features, out);
}

/// Checks the change from one graph to another.
pub(super) fn check_update(
    new: &DynamoGraphDeployment,
    old: &DynamoGraphDeployment,
    request: &Request,
    facts: &Facts,
    out: &mut Findings,
) {
    let permissions = Permissions {
        may_scale: request::may_scale(request, facts),
        may_choose_provider: request::may_choose_provider(request, facts),
    };
    rules::graph::check_update(new, old, permissions, out);
}

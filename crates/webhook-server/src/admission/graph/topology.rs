//! Placement in the topology of the cluster, by Grove.

use std::collections::BTreeSet;

use super::super::{
    Facts, Found, Lookup, Operation,
    field::{Findings, Node},
    provider_override::{self, Scope},
    request::is_dns_subdomain,
    view::{Graph, Pathway},
};

const BINDING: &str = "ClusterTopologyBinding";

/// The topologies that a new graph names.
pub(in crate::admission) fn lookups(graph: &Graph<'_>) -> Vec<Lookup> {
    let spec = graph.spec();
    let places: [&[&str]; 2] =
        [&["topologyConstraint", "clusterTopologyName"], &["experimental", "kvTransferPolicy", "clusterTopologyName"]];
    let names: BTreeSet<String> = places.map(|place| spec.fields(place).text().to_owned()).into();
    names.into_iter().filter(|name| is_dns_subdomain(name)).map(|name| Lookup::TopologyBinding { name }).collect()
}

pub(super) fn check(graph: &Graph<'_>, pathway: &Pathway, operation: Operation, facts: &Facts, out: &mut Findings) {
    // Topologies change while graphs live; what was admitted with one stays.
    let facts = Some(facts).filter(|_| operation == Operation::Create && pathway.is_grove());
    constraints(graph, facts, out);
    transfer_policy(graph, pathway, facts, out);
}

fn constraints(graph: &Graph<'_>, facts: Option<&Facts>, out: &mut Findings) {
    let whole = graph.spec().field("topologyConstraint");
    let components = graph.components();
    let parts: Vec<Node<'_>> =
        components.iter().map(|component| component.field("topologyConstraint")).filter(Node::is_set).collect();
    if !whole.is_set() && parts.is_empty() {
        return;
    }
    not_twice(graph, out);
    let domain = whole.field("packDomain");
    let Some(levels) = levels(&whole.field("clusterTopologyName"), facts, out) else { return };
    let widest = if domain.text().is_empty() { None } else { levels.find(&domain, out) };
    for part in parts {
        let narrow = levels.find(&part.field("packDomain"), out);
        if let (Some(widest), Some(narrow)) = (widest, narrow)
            && narrow < widest
        {
            let detail =
                format!("is wider than the graph's domain {:?}; name the same or a narrower one", domain.text());
            out.invalid(&part.field("packDomain"), detail);
        }
    }
}

/// Placement is said in one way only.
fn not_twice(graph: &Graph<'_>, out: &mut Findings) {
    let provider = graph.provider();
    let mut fragments = vec![(graph.spec().field("providerOverride"), Scope::Root)];
    let components = graph.components();
    fragments.extend(components.iter().flat_map(provider_override::of_component));
    for (fragment, scope) in fragments {
        if provider_override::writes_topology(&fragment, scope, provider) {
            out.forbidden(
                &fragment.field("value"),
                "topologyConstraint says where pods may run already; use one of the two",
            );
        }
    }
}

fn transfer_policy(graph: &Graph<'_>, pathway: &Pathway, facts: Option<&Facts>, out: &mut Findings) {
    let policy = graph.spec().fields(&["experimental", "kvTransferPolicy"]);
    let name = policy.field("clusterTopologyName");
    if name.text().is_empty() {
        return;
    }
    if let Some(reason) = pathway.reason() {
        out.forbidden(&name, reason);
    }
    if let Some(levels) = levels(&name, facts, out) {
        levels.find(&policy.field("domain"), out);
    }
}

/// The domains of a topology, from the widest to the narrowest.
struct Levels {
    topology: String,
    domains: Vec<String>,
}

impl Levels {
    /// Position of a domain.
    fn find(&self, domain: &Node<'_>, out: &mut Findings) -> Option<usize> {
        let position = self.domains.iter().position(|known| known == domain.text());
        if position.is_none() {
            let known = self.domains.join(", ");
            out.invalid(domain, format!("is no domain of {BINDING} {:?}; use one of: {known}", self.topology));
        }
        position
    }
}

/// Reads the topology of that name. Without facts there is nothing to hold the graph against.
fn levels(name: &Node<'_>, facts: Option<&Facts>, out: &mut Findings) -> Option<Levels> {
    let facts = facts.filter(|_| !name.text().is_empty())?;
    match facts.found.get(&Lookup::TopologyBinding { name: name.text().to_owned() }) {
        Some(Found::Object(binding)) => {
            let levels = Node::root(binding).fields(&["spec", "levels"]);
            let domains = levels.items().map(|level| level.field("domain").text().to_owned()).collect();
            Some(Levels { topology: name.text().to_owned(), domains })
        }
        Some(Found::Unreadable(reason)) => {
            out.invalid(name, format!("{BINDING} could not be read: {reason}; try again"));
            None
        }
        Some(Found::Missing) | None => {
            out.invalid(name, format!("there is no {BINDING} of that name; create it, or name one that exists"));
            None
        }
    }
}

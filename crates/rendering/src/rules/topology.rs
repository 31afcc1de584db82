//! Placement in the topology of the cluster, by Grove.

use api_types::v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentSpec};

use super::{Context, Findings, ProviderChoice, Topology, findings::component_path, fragment};

const BINDING: &str = "ClusterTopologyBinding";
const WHOLE: &str = "spec.topologyConstraint";
const POLICY: &str = "spec.experimental.kvTransferPolicy";

/// Names of the topologies that a graph refers to.
pub fn topologies(spec: &DynamoGraphDeploymentSpec) -> impl Iterator<Item = &str> {
    let whole = spec.topology_constraint.as_ref().map(|whole| whole.cluster_topology_name.as_str());
    whole.into_iter().chain(of_policy(spec).map(|(name, _)| name)).filter(|name| !name.is_empty())
}

/// Topology and domain of the KV-transfer policy.
fn of_policy(spec: &DynamoGraphDeploymentSpec) -> Option<(&str, &str)> {
    let policy = spec.experimental.as_ref()?.kv_transfer_policy.as_ref()?;
    Some((policy.cluster_topology_name.as_deref().filter(|name| !name.is_empty())?, &policy.domain))
}

pub(super) fn check(
    graph: &DynamoGraphDeployment,
    lacks_grove: Option<&str>,
    context: &Context<'_>,
    out: &mut Findings,
) {
    // Topologies change while graphs live; what was admitted with one stays.
    let find = context.topology.filter(|_| context.is_new && lacks_grove.is_none());
    constraints(graph, find, out);
    let Some((topology, domain)) = of_policy(&graph.spec) else { return };
    let path = format!("{POLICY}.clusterTopologyName");
    if let Some(reason) = lacks_grove {
        out.forbidden(path.as_str(), reason);
    }
    if let Some(domains) = domains(path, topology, find, out) {
        position(&format!("{POLICY}.domain"), domain, topology, &domains, out);
    }
}

type Find<'a> = &'a dyn Fn(&str) -> Topology;

fn constraints(graph: &DynamoGraphDeployment, find: Option<Find<'_>>, out: &mut Findings) {
    let spec = &graph.spec;
    let parts: Vec<_> = spec
        .components
        .iter()
        .enumerate()
        .filter_map(|(index, component)| {
            let domain = &component.topology_constraint.as_ref()?.pack_domain;
            Some((format!("{}.topologyConstraint.packDomain", component_path(index, component)), domain))
        })
        .collect();
    if spec.topology_constraint.is_none() && parts.is_empty() {
        return;
    }
    not_twice(graph, out);
    let Some(whole) = spec.topology_constraint.as_ref().filter(|whole| !whole.cluster_topology_name.is_empty()) else {
        return;
    };
    let topology = whole.cluster_topology_name.as_str();
    let Some(domains) = domains(format!("{WHOLE}.clusterTopologyName"), topology, find, out) else { return };
    let domain = whole.pack_domain.as_deref().filter(|domain| !domain.is_empty());
    let widest = domain.and_then(|domain| position(&format!("{WHOLE}.packDomain"), domain, topology, &domains, out));
    for (path, part) in parts {
        let narrow = position(&path, part, topology, &domains, out);
        if let (Some(widest), Some(narrow), Some(domain)) = (widest, narrow, domain)
            && narrow < widest
        {
            let text = format!("is wider than the graph's domain {domain:?}; name the same or a narrower one");
            out.invalid(path, part.as_str(), text);
        }
    }
}

/// Placement is stated in one way only.
fn not_twice(graph: &DynamoGraphDeployment, out: &mut Findings) {
    let provider = ProviderChoice::of(&graph.metadata);
    for (path, fragment, place) in fragment::of_graph(&graph.spec) {
        if fragment::writes_topology(fragment, place, provider) {
            let text = "topologyConstraint says where pods may run already; use one of the two";
            out.forbidden(format!("{path}.value"), text);
        }
    }
}

/// The position of a domain in its topology.
fn position(path: &str, domain: &str, topology: &str, domains: &[String], out: &mut Findings) -> Option<usize> {
    let position = domains.iter().position(|known| known == domain);
    if position.is_none() {
        let known = domains.join(", ");
        out.invalid(path, domain, format!("is no domain of {BINDING} {topology:?}; use one of: {known}"));
    }
    position
}

/// The domains of the topology of that name. Without `find` the graph is not compared with the cluster.
fn domains(path: String, name: &str, find: Option<Find<'_>>, out: &mut Findings) -> Option<Vec<String>> {
    match find?(name) {
        Topology::Domains(domains) => return Some(domains),
        Topology::Unreadable(reason) => {
            out.invalid(path, name, format!("{BINDING} could not be read: {reason}; try again"));
        }
        Topology::Missing => {
            out.invalid(path, name, format!("there is no {BINDING} of that name; create it, or name one that exists"));
        }
    }
    None
}

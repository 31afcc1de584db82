//! Fragments of Grove's own objects in a graph: their permitted places, their permitted contents, and the placement in
//! the topology of the cluster by Grove.

use api_types::{
    annotations, grove,
    v1beta1::{ComponentSpec, DynamoGraphDeployment, DynamoGraphDeploymentSpec, ProviderOverride},
    violations::Violation,
};
use serde_json::Value;

use super::{Findings, GraphRuleContext, ProviderChoice, Topology, component_path};
use crate::{
    NodeRole, WorkloadProvider,
    grove::roles::{ChildKind, child_of, shares_memory_between_pods},
};

const SET: &str = "PodCliqueSet";
const CLIQUE: &str = "PodCliqueTemplateSpec";
const SCALING_GROUP: &str = "PodCliqueScalingGroupConfig";
/// The only part of Grove's objects that graphs may write.
pub(crate) const CONSTRAINT: &str = "topologyConstraint";

/// The place of a fragment, which determines the object that it is a fragment of.
#[derive(Debug, Clone, Copy)]
pub enum FragmentPlace<'a> {
    /// The graph itself.
    Root,
    /// A component.
    Component(&'a ComponentSpec),
    /// One of the roles of a component that spans nodes.
    Role(&'a ComponentSpec, NodeRole),
}

impl FragmentPlace<'_> {
    /// The kind that a fragment here is a fragment of.
    ///
    /// # Errors
    /// The reason why none is possible here, and the remedy.
    fn target(self) -> Result<&'static str, &'static str> {
        match self {
            Self::Root => Ok(SET),
            Self::Component(component) => Ok(match child_of(component) {
                ChildKind::PodCliqueScalingGroup => SCALING_GROUP,
                ChildKind::PodClique => CLIQUE,
            }),
            Self::Role(component, _) if !component.is_multinode() => {
                Err("leader and worker exist only in components that span nodes; set multinode.nodeCount, or remove it")
            }
            Self::Role(component, _) if shares_memory_between_pods(component) => {
                Err("roles cannot be overridden while GPU memory is shared between pods; remove it")
            }
            Self::Role(..) => Ok(CLIQUE),
        }
    }

    /// Path of the constraint within a fragment.
    pub(crate) fn path(self) -> &'static [&'static str] {
        match self {
            Self::Root => &["spec", "template", CONSTRAINT],
            Self::Component(_) | Self::Role(..) => &[CONSTRAINT],
        }
    }
}

/// A fragment with its path and place.
pub type Located<'a> = (String, &'a ProviderOverride, FragmentPlace<'a>);

/// All fragments of a graph.
pub fn of_graph(spec: &DynamoGraphDeploymentSpec) -> impl Iterator<Item = Located<'_>> {
    let root =
        spec.provider_override.iter().map(|root| ("spec.providerOverride".to_owned(), root, FragmentPlace::Root));
    let components = spec.components.iter().enumerate();
    root.chain(components.flat_map(|(index, component)| of_component(&component_path(index, component), component)))
}

/// All fragments of the component at the path `at`.
pub fn of_component<'a>(at: &str, component: &'a ComponentSpec) -> Vec<Located<'a>> {
    let multinode = component.multinode.as_ref();
    let leader = multinode.and_then(|multinode| multinode.leader.as_ref()?.provider_override.as_ref());
    let worker = multinode.and_then(|multinode| multinode.worker.as_ref()?.provider_override.as_ref());
    let all = [
        (".", component.provider_override.as_ref(), FragmentPlace::Component(component)),
        (".multinode.leader.", leader, FragmentPlace::Role(component, NodeRole::Leader)),
        (".multinode.worker.", worker, FragmentPlace::Role(component, NodeRole::Worker)),
    ];
    let field = |(below, fragment, place)| Some((format!("{at}{below}providerOverride"), fragment?, place));
    all.into_iter().filter_map(field).collect()
}

/// The target of a fragment that names none, if there is just one possibility.
pub fn default_target(
    fragment: &ProviderOverride,
    place: FragmentPlace<'_>,
    provider: ProviderChoice<'_>,
) -> Option<&'static str> {
    let is_open = fragment.target.as_deref().unwrap_or_default().is_empty();
    let is_known = provider.is_grove() && fragment.api_version == grove::API_VERSION;
    place.target().ok().filter(|_| is_open && is_known)
}

/// Checks a fragment at admission. The first violation of its place or target is the only one, because others would be
/// about another kind.
pub fn check(
    path: &str,
    fragment: &ProviderOverride,
    place: FragmentPlace<'_>,
    provider: ProviderChoice<'_>,
    out: &mut Findings,
) {
    let key = annotations::WORKLOAD_PROVIDER;
    let name = match provider {
        ProviderChoice::Selected(WorkloadProvider::Grove) => None,
        ProviderChoice::Unselected => {
            let text = format!(
                "the workload provider of the graph is not chosen yet; wait for the annotation {key}, then try again"
            );
            return out.forbidden(path, text);
        }
        ProviderChoice::Selected(WorkloadProvider::Component) => Some(annotations::PROVIDER_COMPONENT),
        ProviderChoice::Unknown(name) => Some(name),
    };
    if let Some(name) = name {
        let text = format!(
            "is for graphs that Grove runs, and annotation {key} of this one is {name:?}; remove the field, or create the \
             graph anew where Grove is available"
        );
        return out.forbidden(path, text);
    }
    let expected = match place.target() {
        Ok(expected) => expected,
        Err(text) => return out.forbidden(path, text),
    };
    match fragment.target.as_deref().unwrap_or_default() {
        "" => out.required(format!("{path}.target"), format!("write {expected}")),
        given if given != expected => out.extend([other_target(path, given, expected)]),
        _ => out.extend(contents(path, fragment, place)),
    }
}

/// Validates a fragment of a graph that runs on Grove. Without a webhook its target may be absent. Fragments of roles
/// that do not exist are without effect.
pub(crate) fn validate(path: &str, fragment: &ProviderOverride, place: FragmentPlace<'_>) -> Vec<Violation> {
    let Ok(expected) = place.target() else { return Vec::new() };
    let mut found = Vec::new();
    if fragment.api_version != grove::API_VERSION {
        let text = api_types::violations::supported(&[grove::API_VERSION]);
        found.push(Violation::invalid(format!("{path}.apiVersion"), fragment.api_version.as_str(), text, ""));
    }
    let given = fragment.target.as_deref().filter(|given| !given.is_empty() && *given != expected);
    found.extend(given.map(|given| other_target(path, given, expected)));
    found.extend(contents(path, fragment, place));
    found
}

fn other_target(path: &str, given: &str, expected: &str) -> Violation {
    let remedy = format!("write {expected}, or remove it");
    Violation::invalid(format!("{path}.target"), given, "is not what this component becomes in Grove", remedy)
}

/// Whether a fragment states where pods may run.
pub(super) fn writes_topology(
    fragment: &ProviderOverride,
    place: FragmentPlace<'_>,
    provider: ProviderChoice<'_>,
) -> bool {
    let given = fragment.target.as_deref().filter(|target| !target.is_empty());
    let way: &[&str] = match given.or_else(|| default_target(fragment, place, provider)) {
        Some(SET) => FragmentPlace::Root.path(),
        Some(CLIQUE | SCALING_GROUP) => &[CONSTRAINT],
        _ => return false,
    };
    let found = way.iter().try_fold(&fragment.value, |value, step| value.get(step));
    found.is_some_and(|constraint| !constraint.is_null())
}

/// Fields outside the constraint belong to the operator. Below it, unknown fields are possible: Grove may be newer.
fn contents(path: &str, fragment: &ProviderOverride, place: FragmentPlace<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let way = place.path();
    let (mut at, mut value) = (format!("{path}.value"), Some(&fragment.value));
    for step in way {
        let Some(fields) = object(&at, value, &mut found) else { return found };
        let mut foreign: Vec<&String> = fields.keys().filter(|key| key != step).collect();
        foreign.sort_unstable();
        for key in foreign {
            let remedy = format!("only {} may be overridden, remove it", way.join("."));
            found.push(Violation::forbidden(format!("{at}.{key}"), "is written by the operator", remedy));
        }
        value = fields.get(*step);
        at = format!("{at}.{step}");
    }
    if let Some(constraint) = object(&at, value, &mut found) {
        known_fields(&at, constraint, &mut found);
    }
    found
}

/// Known fields have known types.
fn known_fields(at: &str, constraint: &serde_json::Map<String, Value>, found: &mut Vec<Violation>) {
    let pack = constraint.get("pack").filter(|pack| !pack.is_null());
    if let Some(pack) = pack.filter(|pack| !pack.is_object()) {
        let text = "must be an object, such as {\"required\": \"rack\"}";
        found.push(Violation::invalid(format!("{at}.pack"), pack.clone(), text, ""));
    }
    let of_pack = |name: &str| (format!("pack.{name}"), pack.and_then(|pack| pack.get(name)));
    let own = |name: &str| (name.to_owned(), constraint.get(name));
    for (name, value) in [own("topologyName"), own("packDomain"), of_pack("required"), of_pack("preferred")] {
        if let Some(value) = value.filter(|value| !value.is_null() && !value.is_string()) {
            found.push(Violation::invalid(format!("{at}.{name}"), value.clone(), "must be a text", ""));
        }
    }
}

fn object<'a>(
    at: &str,
    value: Option<&'a Value>,
    found: &mut Vec<Violation>,
) -> Option<&'a serde_json::Map<String, Value>> {
    match value {
        None | Some(Value::Null) => {
            let text = "a fragment must contain the fields that it overrides";
            found.push(Violation::required(at, text, "write it, or remove providerOverride"));
        }
        Some(Value::Object(fields)) => return Some(fields),
        Some(other) => found.push(Violation::invalid(at, other.clone(), "must be an object", "")),
    }
    None
}

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
    let policy = spec.kv_transfer_policy()?;
    Some((policy.cluster_topology_name.as_deref().filter(|name| !name.is_empty())?, &policy.domain))
}

pub(super) fn check_topology(
    graph: &DynamoGraphDeployment,
    lacks_grove: Option<&str>,
    context: &GraphRuleContext<'_>,
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
    let parts = spec.components.iter().enumerate().filter_map(|(index, component)| {
        let domain = &component.topology_constraint.as_ref()?.pack_domain;
        Some((format!("{}.topologyConstraint.packDomain", component_path(index, component)), domain))
    });
    let parts: Vec<_> = parts.collect();
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
    for (path, fragment, place) in of_graph(&graph.spec) {
        if writes_topology(fragment, place, provider) {
            let text = "topologyConstraint already determines where pods may run; use one of the two";
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

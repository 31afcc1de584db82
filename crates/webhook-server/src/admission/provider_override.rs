//! Fragments of Grove's own objects in a graph: where they may stand, and what may stand in them.

use api_types::annotations;

use super::{
    field::{Findings, Node},
    view::{Component, Provider},
};

/// The only API version of Grove that fragments are taken for.
const GROVE_API: &str = api_types::grove::API_VERSION;
const SET: &str = "PodCliqueSet";
const CLIQUE: &str = "PodCliqueTemplateSpec";
const SCALING_GROUP: &str = "PodCliqueScalingGroupConfig";
/// The only part of Grove's objects that graphs may write.
const CONSTRAINT: &str = "topologyConstraint";

/// Where a fragment stands, which decides what it is a fragment of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scope<'c, 'a> {
    /// In the graph itself.
    Root,
    /// In a component.
    Component(&'c Component<'a>),
    /// In one of the roles of a component that spans nodes.
    Role(&'c Component<'a>),
}

impl Scope<'_, '_> {
    /// What a fragment here is a fragment of.
    ///
    /// # Errors
    /// Why none is possible here, and what to do.
    fn target(self) -> Result<&'static str, &'static str> {
        match self {
            Self::Root => Ok(SET),
            Self::Component(component) if component.uses_scaling_group() => Ok(SCALING_GROUP),
            Self::Component(_) => Ok(CLIQUE),
            Self::Role(component) if !component.is_multinode() => {
                Err("leader and worker exist only in components that span nodes; set multinode.nodeCount, or remove it")
            }
            Self::Role(component) if component.shares_memory_between_pods() => {
                Err("roles cannot be overridden while GPU memory is shared between pods; remove it")
            }
            Self::Role(_) => Ok(CLIQUE),
        }
    }
}

/// All fragments of a component, with their scopes.
pub(super) fn of_component<'c, 'a>(component: &'c Component<'a>) -> Vec<(Node<'a>, Scope<'c, 'a>)> {
    let role = |name| (component.fields(&["multinode", name, "providerOverride"]), Scope::Role(component));
    let own = (component.field("providerOverride"), Scope::Component(component));
    [own, role("leader"), role("worker")].into_iter().filter(|(node, _)| node.is_set()).collect()
}

/// The target of a fragment that names none, if there is just one possibility.
pub(super) fn default_target(
    fragment: &Node<'_>,
    scope: Scope<'_, '_>,
    provider: Provider<'_>,
) -> Option<&'static str> {
    let open = fragment.is_set() && fragment.field("target").text().is_empty();
    let known = provider == Provider::Grove && fragment.field("apiVersion").text() == GROVE_API;
    scope.target().ok().filter(|_| open && known)
}

/// Checks a fragment. The first violation ends the check, because what follows would be about something else.
pub(super) fn check(fragment: &Node<'_>, scope: Scope<'_, '_>, provider: Provider<'_>, out: &mut Findings) {
    let key = annotations::WORKLOAD_PROVIDER;
    match provider {
        Provider::Grove => {}
        Provider::Unselected => {
            let detail =
                format!("nobody has chosen yet what runs the graph; wait for the annotation {key}, then try again");
            return out.forbidden(fragment, detail);
        }
        Provider::Component | Provider::Unknown(_) => {
            let name = if let Provider::Unknown(name) = provider { name } else { annotations::PROVIDER_COMPONENT };
            let detail = format!(
                "is for graphs that Grove runs, and annotation {key} of this one is {name:?}; remove the field, or create the \
                 graph anew where Grove is available"
            );
            return out.forbidden(fragment, detail);
        }
    }
    let target = fragment.field("target");
    let expected = match scope.target() {
        Ok(expected) => expected,
        Err(detail) => return out.forbidden(fragment, detail),
    };
    if target.text().is_empty() {
        return out.required(&target, format!("write {expected}"));
    }
    if target.text() != expected {
        return out
            .invalid(&target, format!("is not what this component becomes in Grove; write {expected}, or remove it"));
    }
    value(&fragment.field("value"), expected, out);
}

/// Whether a fragment says where pods may run.
pub(super) fn writes_topology(fragment: &Node<'_>, scope: Scope<'_, '_>, provider: Provider<'_>) -> bool {
    let target = fragment.field("target").given().filter(|target| !target.is_empty());
    let target = target.or_else(|| default_target(fragment, scope, provider));
    let value = fragment.field("value");
    match target {
        Some(SET) => value.fields(&["spec", "template", CONSTRAINT]).is_set(),
        Some(CLIQUE | SCALING_GROUP) => value.field(CONSTRAINT).is_set(),
        _ => false,
    }
}

/// What is not the operator's own may be written; below it everything, because Grove may know more fields than we do.
fn value(value: &Node<'_>, target: &str, out: &mut Findings) {
    let way: &[&str] = if target == SET { &["spec", "template", CONSTRAINT] } else { &[CONSTRAINT] };
    let mut node = value.clone();
    for step in way {
        if !object(&node, out) {
            return;
        }
        for (key, _) in node.entries().filter(|(key, _)| key != step) {
            let only = way.join(".");
            out.forbidden(
                &node.field(key),
                format!("is written by the operator; only {only} may be overridden, remove it"),
            );
        }
        node = node.field(step);
    }
    if object(&node, out) {
        constraint(&node, out);
    }
}

/// Known fields have known types.
fn constraint(constraint: &Node<'_>, out: &mut Findings) {
    let pack = constraint.field("pack");
    if pack.is_set() && !pack.value().is_object() {
        out.invalid(&pack, "must be an object, such as {\"required\": \"rack\"}");
    }
    let names = [
        constraint.field("topologyName"),
        constraint.field("packDomain"),
        pack.field("required"),
        pack.field("preferred"),
    ];
    for name in names.iter().filter(|name| name.is_set() && name.given().is_none()) {
        out.invalid(name, "must be a text");
    }
}

fn object(node: &Node<'_>, out: &mut Findings) -> bool {
    if !node.is_set() {
        out.required(node, "a fragment must say what it overrides; write it, or remove providerOverride");
    } else if !node.value().is_object() {
        out.invalid(node, "must be an object");
    }
    node.value().is_object()
}

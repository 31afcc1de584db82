//! Where a graph and its components are placed: the typed constraints, and the fragments in Grove's own form.

use api_types::{
    grove::{API_VERSION, PodCliqueSetTemplate},
    v1beta1::{ComponentSpec, DynamoGraphDeploymentSpec, ProviderOverride},
    violations::Violation,
};
use serde_json::{Map, Value, json};

use super::roles::{ChildKind, child_of};
use crate::{LEADER_CLIQUE, WORKER_CLIQUE};

const CONSTRAINT: &str = "topologyConstraint";
const SET: &str = "PodCliqueSet";
const CLIQUE: &str = "PodCliqueTemplateSpec";
const GROUP: &str = "PodCliqueScalingGroupConfig";

/// The constraint of the whole set.
pub(super) fn of_graph(spec: &DynamoGraphDeploymentSpec) -> Option<Value> {
    let given = spec.topology_constraint.as_ref()?;
    constraint(&given.cluster_topology_name, given.pack_domain.as_deref()?)
}

/// The constraint of a component's clique or scaling group. It takes the topology's name from the set's constraint, and
/// bears it itself where the set has none.
pub(super) fn of_component(spec: &DynamoGraphDeploymentSpec, component: &ComponentSpec) -> Option<Value> {
    let given = component.topology_constraint.as_ref()?;
    let unpacked = spec.topology_constraint.as_ref().filter(|g| g.pack_domain.as_deref().is_none_or(str::is_empty));
    constraint(unpacked.map_or("", |graph| &graph.cluster_topology_name), &given.pack_domain)
}

fn constraint(topology: &str, domain: &str) -> Option<Value> {
    if domain.is_empty() {
        return None;
    }
    let mut constraint = json!({ "pack": { "required": domain } });
    if !topology.is_empty() {
        constraint["topologyName"] = topology.into();
    }
    Some(constraint)
}

/// Whether anything is said about where the graph is placed.
pub fn has_topology(spec: &DynamoGraphDeploymentSpec) -> bool {
    let typed = spec.topology_constraint.is_some() || spec.components.iter().any(|c| c.topology_constraint.is_some());
    typed || fragments(spec).next().is_some()
}

/// Puts the user's fragments in the place of what was rendered there, as a whole: two constraints cannot be merged.
pub(super) fn apply_overrides(template: &mut PodCliqueSetTemplate, spec: &DynamoGraphDeploymentSpec) {
    for fragment in fragments(spec) {
        let Some(value) = fragment.constraint() else { continue };
        let place = match &fragment.place {
            Place::Set => Some(&mut template.topology_constraint),
            Place::Group(name) => {
                let group = template.pod_clique_scaling_groups.iter_mut().find(|group| group.name == *name);
                group.map(|group| &mut group.topology_constraint)
            }
            Place::Clique(name) => {
                let clique = template.cliques.iter_mut().find(|clique| clique.name == *name);
                clique.map(|clique| &mut clique.topology_constraint)
            }
        };
        if let Some(place) = place {
            *place = Some(value.clone());
        }
    }
}

/// The violations in the user's fragments.
pub(super) fn check(spec: &DynamoGraphDeploymentSpec) -> Vec<Violation> {
    fragments(spec).flat_map(|fragment| fragment.violations()).collect()
}

/// Where a fragment belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Set,
    Group(String),
    Clique(String),
}

impl Place {
    fn target(&self) -> &'static str {
        match self {
            Self::Set => SET,
            Self::Group(_) => GROUP,
            Self::Clique(_) => CLIQUE,
        }
    }

    /// Path of the constraint within a fragment for this place. Nothing else may be there.
    fn path(&self) -> &'static [&'static str] {
        match self {
            Self::Set => &["spec", "template", CONSTRAINT],
            Self::Group(_) | Self::Clique(_) => &[CONSTRAINT],
        }
    }
}

struct Fragment<'a> {
    field: String,
    given: &'a ProviderOverride,
    place: Place,
}

fn fragments(spec: &DynamoGraphDeploymentSpec) -> impl Iterator<Item = Fragment<'_>> {
    let root = spec.provider_override.iter().map(|given| Fragment {
        field: "spec.providerOverride".to_owned(),
        given,
        place: Place::Set,
    });
    root.chain(spec.components.iter().flat_map(of_one_component))
}

fn of_one_component(component: &ComponentSpec) -> Vec<Fragment<'_>> {
    let at = format!("spec.components[{}]", component.name);
    let name = component.name.to_lowercase();
    let own_place = match child_of(component) {
        ChildKind::PodClique => Place::Clique(name.clone()),
        ChildKind::PodCliqueScalingGroup => Place::Group(name.clone()),
    };
    let own = component.provider_override.as_ref().map(|given| (String::new(), given, own_place));
    let multinode = component.multinode.as_ref();
    let leader = multinode.and_then(|m| m.leader.as_ref()?.provider_override.as_ref());
    let worker = multinode.and_then(|m| m.worker.as_ref()?.provider_override.as_ref());
    let of_role = |field: &str, given, suffix: &str| {
        (format!(".multinode.{field}"), given, Place::Clique(format!("{name}-{suffix}")))
    };
    let roles = [
        leader.map(|given| of_role("leader", given, LEADER_CLIQUE)),
        worker.map(|given| of_role("worker", given, WORKER_CLIQUE)),
    ];
    let all = own.into_iter().chain(roles.into_iter().flatten());
    all.map(|(below, given, place)| Fragment { field: format!("{at}{below}.providerOverride"), given, place }).collect()
}

impl<'a> Fragment<'a> {
    fn constraint(&self) -> Option<&'a Value> {
        self.place.path().iter().try_fold(&self.given.value, |value, key| value.get(key))
    }

    fn violations(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut violation = |below: &str, value: &str, problem: String, remedy: String| {
            found.push(Violation::invalid(format!("{}.{below}", self.field), value, problem, remedy));
        };
        if self.given.api_version != API_VERSION {
            let remedy = format!("write {API_VERSION}");
            violation("apiVersion", &self.given.api_version, "is not Grove's".to_owned(), remedy);
        }
        let target = self.place.target();
        if let Some(other) = self.given.target.as_deref().filter(|given| *given != target) {
            violation("target", other, format!("is not {target}"), format!("write {target}, or leave it out"));
        }
        let mut at = "value".to_owned();
        let mut level = Some(&self.given.value);
        for key in self.place.path() {
            let Some(fields) = level.and_then(Value::as_object) else { break };
            for foreign in foreign(fields, key) {
                let problem = "cannot be overridden".to_owned();
                violation(&format!("{at}.{foreign}"), "", problem, format!("remove it; only {key} may stand here"));
            }
            at = format!("{at}.{key}");
            level = fields.get(*key);
        }
        if self.constraint().is_none_or(|constraint| !constraint.is_object()) {
            let path = format!("value.{}", self.place.path().join("."));
            violation(&path, "", "is missing, or is no object".to_owned(), "give the constraint".to_owned());
        }
        found
    }
}

fn foreign<'a>(fields: &'a Map<String, Value>, key: &'a str) -> impl Iterator<Item = &'a String> {
    fields.keys().filter(move |field| *field != key)
}

#[cfg(test)]
mod tests;

//! Placement of a graph and its components: the typed constraints, and the fragments in Grove's own form.

use api_types::{
    grove::PodCliqueSetTemplate,
    v1beta1::{ComponentSpec, DynamoGraphDeploymentSpec},
    violations::Violation,
};
use serde_json::{Value, json};

use super::roles::{ChildKind, child_of};
use crate::{
    LEADER_CLIQUE, NodeRole, WORKER_CLIQUE,
    rules::fragment::{self, Place},
};

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
    typed || fragment::of_graph(spec).next().is_some()
}

/// Puts the user's fragments in the place of what was rendered there, as a whole: two constraints cannot be merged.
pub(super) fn apply_overrides(template: &mut PodCliqueSetTemplate, spec: &DynamoGraphDeploymentSpec) {
    for (_, fragment, place) in fragment::of_graph(spec) {
        let Some(value) = place.path().iter().try_fold(&fragment.value, |value, key| value.get(key)) else { continue };
        let place = match part(place) {
            TopologyPart::Set => Some(&mut template.topology_constraint),
            TopologyPart::Group(name) => {
                let group = template.pod_clique_scaling_groups.iter_mut().find(|group| group.name == name);
                group.map(|group| &mut group.topology_constraint)
            }
            TopologyPart::Clique(name) => {
                let clique = template.cliques.iter_mut().find(|clique| clique.name == name);
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
    fragment::of_graph(spec).flat_map(|(path, given, place)| fragment::validate(&path, given, place)).collect()
}

/// The part of a PodCliqueSet that a fragment is laid over.
enum TopologyPart {
    Set,
    Group(String),
    Clique(String),
}

fn part(place: Place<'_>) -> TopologyPart {
    let clique =
        |component: &ComponentSpec, suffix| TopologyPart::Clique(format!("{}-{suffix}", component.name.to_lowercase()));
    match place {
        Place::Root => TopologyPart::Set,
        Place::Component(component) => match child_of(component) {
            ChildKind::PodClique => TopologyPart::Clique(component.name.to_lowercase()),
            ChildKind::PodCliqueScalingGroup => TopologyPart::Group(component.name.to_lowercase()),
        },
        Place::Role(component, NodeRole::Leader) => clique(component, LEADER_CLIQUE),
        Place::Role(component, NodeRole::Worker) => clique(component, WORKER_CLIQUE),
    }
}

#[cfg(test)]
mod tests;

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
    rules::fragment::{self, FragmentPlace},
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
        if let Some(constraint) = constraint_at(place, template) {
            *constraint = Some(value.clone());
        }
    }
}

/// The constraint of the part of a PodCliqueSet that a fragment is laid over, if the set has that part.
fn constraint_at<'a>(
    place: FragmentPlace<'_>,
    template: &'a mut PodCliqueSetTemplate,
) -> Option<&'a mut Option<Value>> {
    let clique = match place {
        FragmentPlace::Root => return Some(&mut template.topology_constraint),
        FragmentPlace::Component(component) => {
            let name = component.name.to_lowercase();
            if child_of(component) == ChildKind::PodCliqueScalingGroup {
                let group = template.pod_clique_scaling_groups.iter_mut().find(|group| group.name == name)?;
                return Some(&mut group.topology_constraint);
            }
            name
        }
        FragmentPlace::Role(component, role) => {
            let suffix = if role == NodeRole::Leader { LEADER_CLIQUE } else { WORKER_CLIQUE };
            format!("{}-{suffix}", component.name.to_lowercase())
        }
    };
    let clique = template.cliques.iter_mut().find(|other| other.name == clique)?;
    Some(&mut clique.topology_constraint)
}

/// The violations in the user's fragments.
pub(super) fn check(spec: &DynamoGraphDeploymentSpec) -> Vec<Violation> {
    fragment::of_graph(spec).flat_map(|(path, given, place)| fragment::validate(&path, given, place)).collect()
}

#[cfg(test)]
mod tests;

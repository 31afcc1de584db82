//! State of a graph on Grove, as Grove reports it: readiness of components, and the objects made for them. Pure.

use api_types::{
    grove::{ON_DELETE, PodCliqueSet, PodCliqueTemplate},
    labels, names,
    names::RevisionSuffix,
    v1beta1::{ComponentReplicaStatus, ComponentSpec},
};
use kube::ResourceExt;
use rendering::grove::{ChildKind, Classification, GroveReadiness, child_of, clique_readiness, group_readiness};

use crate::graph::model::{Child, GraphObserved};

/// Readiness of a component, as Grove reports it. Counts may be complete and of the previous template: Grove reports
/// the template they are of, and does not count pods that drain.
pub fn readiness(observed: &GraphObserved, set: &str, component: &ComponentSpec) -> GroveReadiness {
    let name = names::grove_child(set, &component.name);
    let mut readiness = match child_of(component) {
        ChildKind::PodClique => clique_readiness(&name, named(&observed.grove.cliques, &name)),
        ChildKind::PodCliqueScalingGroup => group_readiness(&name, named(&observed.grove.groups, &name)),
    };
    let live = observed.grove.set();
    let accepted = live.and_then(|set| set.status.as_ref()?.current_generation_hash.as_ref());
    let on_delete = live.and_then(|set| set.spec.update_strategy.as_ref()).is_some_and(|s| s.type_ == ON_DELETE);
    let updating = |message| Some((Classification::Updating, message));
    match &mut readiness.not_ready {
        None => {
            let left = observed.running_pods.get(&component.name).filter(|_| component.desired_replicas() == 0);
            if let Some(left) = left {
                readiness.not_ready =
                    updating(format!("{} pods that are no longer desired are still there", left.count));
            } else if accepted.is_some_and(|accepted| readiness.revision.is_behind(accepted)) {
                let message = "Grove has not confirmed yet that its pods have the current template";
                readiness.not_ready = updating(message.to_owned());
            }
        }
        Some((Classification::Updating, message)) if on_delete => {
            let ComponentReplicaStatus { replicas, updated_replicas, .. } = readiness.replicas;
            if updated_replicas < replicas {
                *message += "; with the update strategy OnDelete, Grove replaces a pod when it is deleted";
            }
        }
        Some(_) => {}
    }
    readiness
}

fn named<'a, K: ResourceExt>(all: &'a [K], name: &str) -> Option<&'a K> {
    all.iter().find(|one| one.name_any() == name)
}

/// Whether Grove has completed a reconcile of the latest spec of a set.
pub fn is_observed(set: &PodCliqueSet) -> bool {
    let observed = set.status.as_ref().and_then(|status| status.observed_generation);
    observed.is_some_and(|observed| observed >= set.metadata.generation.unwrap_or(0))
}

/// The clique or scaling group of a component.
pub fn child(observed: &GraphObserved, set: &str, component: &ComponentSpec) -> Option<Child> {
    let name = names::grove_child(set, &component.name);
    match child_of(component) {
        ChildKind::PodClique => {
            named(&observed.grove.cliques, &name).map(|clique| Child::PodClique(Box::new(clique.clone())))
        }
        ChildKind::PodCliqueScalingGroup => {
            named(&observed.grove.groups, &name).map(|group| Child::PodCliqueScalingGroup(Box::new(group.clone())))
        }
    }
}

/// The cliques of a component.
pub fn cliques_of<'a>(set: &'a PodCliqueSet, component: &str) -> impl Iterator<Item = &'a PodCliqueTemplate> {
    let cliques = set.spec.template.cliques.iter();
    cliques.filter(move |clique| clique.labels.get(labels::COMPONENT).is_some_and(|name| name == component))
}

/// The worker revision of a clique.
pub fn revision_of(clique: &PodCliqueTemplate) -> Option<RevisionSuffix> {
    clique.labels.get(labels::WORKER_HASH).filter(|value| !value.is_empty()).map(RevisionSuffix::from_label)
}

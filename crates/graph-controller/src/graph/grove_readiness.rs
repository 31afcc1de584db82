//! Computes the readiness of components on Grove. Pure.

use api_types::{
    grove::{ON_DELETE, PodCliqueSet, PodCliqueTemplate},
    labels,
    names::{self, RevisionSuffix},
    v1beta1::{ComponentReplicaStatus, ComponentSpec},
};
use kube::ResourceExt;
use rendering::grove::{
    ChildKind, Classification, GroveReadiness, NotReadyYet, child_of, clique_readiness, group_readiness,
};

use super::model::{Child, Observed};

/// Readiness of a component, as Grove reports it. Counts may be complete and of the previous template: Grove reports
/// the template they are of, and does not count pods that drain.
pub fn readiness(observed: &Observed, set: &str, component: &ComponentSpec) -> GroveReadiness {
    let mut readiness = counted(observed, set, component);
    let live = observed.grove.set();
    let accepted = live.and_then(|set| set.status.as_ref()?.current_generation_hash.as_ref());
    let on_delete = live.and_then(|set| set.spec.update_strategy.as_ref()).is_some_and(|s| s.type_ == ON_DELETE);
    let updating = |message| Some(NotReadyYet { classification: Classification::Updating, message });
    match &mut readiness.not_ready {
        None => {
            let left = observed.grove.running_pods.get(&component.name).filter(|_| component.desired_replicas() == 0);
            if let Some(left) = left {
                readiness.not_ready = updating(format!("{left} pods that are no longer desired are still there"));
            } else if accepted.is_some_and(|accepted| readiness.revision.is_behind(accepted)) {
                let message = "Grove has not confirmed yet that its pods have the current template";
                readiness.not_ready = updating(message.to_owned());
            }
        }
        Some(why) if on_delete && why.classification == Classification::Updating => {
            let ComponentReplicaStatus { replicas, updated_replicas, .. } = readiness.replicas;
            if updated_replicas < replicas {
                why.message += "; with the update strategy OnDelete, Grove replaces a pod when it is deleted";
            }
        }
        Some(_) => {}
    }
    readiness
}

fn counted(observed: &Observed, set: &str, component: &ComponentSpec) -> GroveReadiness {
    let name = names::grove_child(set, &component.name);
    match (child(observed, set, component), child_of(component)) {
        (Some(Child::PodClique(clique)), _) => clique_readiness(&name, Some(&clique)),
        (Some(Child::PodCliqueScalingGroup(group)), _) => group_readiness(&name, Some(&group)),
        (None, ChildKind::PodClique) => clique_readiness(&name, None),
        (None, ChildKind::PodCliqueScalingGroup) => group_readiness(&name, None),
    }
}

/// Whether Grove has completed a reconcile of the latest spec of a set.
pub fn is_observed(set: &PodCliqueSet) -> bool {
    let observed = set.status.as_ref().and_then(|status| status.observed_generation);
    observed.is_some_and(|observed| observed >= set.metadata.generation.unwrap_or(0))
}

/// The clique or scaling group of a component.
pub fn child(observed: &Observed, set: &str, component: &ComponentSpec) -> Option<Child> {
    let name = names::grove_child(set, &component.name);
    match child_of(component) {
        ChildKind::PodClique => {
            let clique = observed.grove.cliques.iter().find(|clique| clique.name_any() == name)?;
            Some(Child::PodClique(Box::new(clique.clone())))
        }
        ChildKind::PodCliqueScalingGroup => {
            let group = observed.grove.groups.iter().find(|group| group.name_any() == name)?;
            Some(Child::PodCliqueScalingGroup(Box::new(group.clone())))
        }
    }
}

/// The worker revision of a clique.
pub fn revision_of(clique: &PodCliqueTemplate) -> Option<RevisionSuffix> {
    clique.labels.get(labels::WORKER_HASH).filter(|value| !value.is_empty()).map(RevisionSuffix::from_label)
}

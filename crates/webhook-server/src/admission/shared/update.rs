//! What of a component may not change, and who may change the rest.

use api_types::violations;

use super::super::{
    field::{Findings, Node},
    ratchet::is_same,
    view::Component,
};

/// Who changes a component, and what it belongs to.
#[derive(Debug, Clone, Copy)]
pub(in crate::admission) struct Change {
    /// Kind of the object that would have to be created anew.
    pub(in crate::admission) owner: &'static str,
    /// Whether replicas are this user's business although a scaling adapter owns them.
    pub(in crate::admission) may_scale: bool,
}

/// Checks the change of a component.
pub(in crate::admission) fn check_update(new: &Component<'_>, old: &Component<'_>, change: Change, out: &mut Findings) {
    let anew = violations::anew(change.owner);
    provider_overrides(new, old, &anew, out);
    if new.is_multinode() != old.is_multinode() {
        out.invalid(&new.field("multinode"), format!("{}; {anew}", violations::NODES_STAY));
    }
    let adapter = new.field("scalingAdapter").is_set() || old.field("scalingAdapter").is_set();
    if adapter && !change.may_scale && new.replicas() != old.replicas() {
        let detail = format!(
            "belongs to the component's scaling adapter, which has set {}; scale the DynamoGraphDeploymentScalingAdapter, and \
             leave replicas out of the manifest",
            old.replicas()
        );
        out.forbidden(&new.field("replicas"), detail);
    }
    let (constraint, before) = (new.field("topologyConstraint"), old.field("topologyConstraint"));
    if !is_same(Some(constraint.value()), Some(before.value())) {
        out.immutable(&constraint, &anew);
    }
    engines(new, old, &anew, out);
}

/// What a fragment is a fragment of stays.
fn provider_overrides(new: &Component<'_>, old: &Component<'_>, anew: &str, out: &mut Findings) {
    let places: [&[&str]; 3] = [
        &["providerOverride"],
        &["multinode", "leader", "providerOverride"],
        &["multinode", "worker", "providerOverride"],
    ];
    for place in places {
        provider_override(&new.fields(place), &old.fields(place), anew, out);
    }
}

/// Checks the change of a fragment, wherever it stands.
pub(in crate::admission) fn provider_override(new: &Node<'_>, old: &Node<'_>, anew: &str, out: &mut Findings) {
    if !new.is_set() || !old.is_set() {
        return;
    }
    for field in ["apiVersion", "target"] {
        if new.field(field).text() != old.field(field).text() {
            out.immutable(&new.field(field), anew);
        }
    }
}

/// How pods are laid out cannot change under them.
fn engines(new: &Component<'_>, old: &Component<'_>, anew: &str, out: &mut Findings) {
    if new.shares_memory_between_pods() != old.shares_memory_between_pods() {
        let mode = new.experimental("gpuMemoryService").field("mode");
        out.invalid(&mode, format!("{}; {anew}", violations::MEMORY_STAYS));
    }
    let failover = new.experimental("failover");
    if new.fails_over_between_pods() != old.fails_over_between_pods() {
        out.invalid(&failover, format!("{}; {anew}", violations::FAILOVER_STAYS));
    } else if new.fails_over_between_pods() && new.shadows() != old.shadows() {
        out.immutable(&failover.field("numShadows"), anew);
    }
    if new.forces_scaling_group() != old.forces_scaling_group() {
        out.immutable(&new.fields(&["experimental", "grove", "forceScalingGroup"]), anew);
    }
}

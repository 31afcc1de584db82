//! What of a component may not change beside what CEL keeps, and who may change the rest.

use api_types::violations;

use super::super::{field::Findings, view::Component};

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
    let adapter = new.field("scalingAdapter").is_set() || old.field("scalingAdapter").is_set();
    if adapter && !change.may_scale && new.replicas() != old.replicas() {
        let detail = format!(
            "belongs to the component's scaling adapter, which has set {}; scale the DynamoGraphDeploymentScalingAdapter, and \
             leave replicas out of the manifest",
            old.replicas()
        );
        out.forbidden(&new.field("replicas"), detail);
    }
    // v1alpha1 keeps it in an annotation, which CEL does not see.
    if new.forces_scaling_group() != old.forces_scaling_group() {
        let forced = new.fields(&["experimental", "grove", "forceScalingGroup"]);
        out.immutable(&forced, violations::anew(change.owner));
    }
}

//! Plans the replicas of the component that an adapter names. Pure.

use super::{
    model::{Observed, Plan, Scale},
    status,
    validate::validate,
};

/// Plans for an adapter that is not being deleted.
pub fn plan(observed: &Observed) -> Plan {
    let target = match validate(observed) {
        Ok(target) => target,
        Err(no_effect) => return Plan::Idle(no_effect),
    };
    let replicas = observed.adapter.spec.replicas;
    let scale = (target.component.desired_replicas() != replicas).then(|| Scale {
        index: target.index,
        component: target.component.name.clone(),
        from: target.component.replicas,
        to: replicas,
    });
    let delayed = observed.pause.filter(|_| scale.is_some());
    let scale = scale.filter(|_| delayed.is_none());
    Plan::Follow { scale, delayed, status: status::of_target(observed, &target) }
}

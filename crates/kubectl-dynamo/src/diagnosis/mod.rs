//! Why an object is not ready. Pure: from what was observed, and the time.
//!
//! Pods are judged by `rendering::diagnose`, by which the controllers write conditions, and what the status says is
//! taken from it. This module adds the chain to the object with the cause, the remedy, and what only other objects
//! show: claims, quotas, nodes, programs of the operator.

mod adapters;
mod chain;
mod claims;
mod conditions;
mod model;
mod needs;
mod operator;
mod placement;
mod pods;
mod progress;
mod rules;
mod workloads;

#[cfg(test)]
mod tests;

use api_types::conditions::READY;
use k8s_openapi::jiff::Timestamp;

#[cfg(test)]
pub use self::model::ObjectName;
pub use self::{
    chain::owner_of,
    model::{
        Cause, Diagnosis, Marker, NodeFacts, Nodes, Observed, Program, Subject, Terminating, Warning, Weight, Workload,
    },
    needs::needs,
    operator::CONVERSION,
};

/// Diagnoses an object. A ready object may have causes: notices, and scaling adapters without effect.
pub fn diagnose(observed: &Observed, now: Timestamp) -> Diagnosis {
    let root = &observed.root;
    let condition = root.condition(READY);
    let ready = condition.is_some_and(|ready| ready.status == "True") && root.is_current() && root.deleted.is_none();
    let mut causes: Vec<Cause> = operator::unconverted(observed).into_iter().collect();
    causes.extend(operator::causes(observed, ready, now));
    causes.extend(pods::causes(observed, now));
    causes.extend(workloads::causes(observed));
    let said = conditions::causes(observed, &causes);
    causes.extend(said);
    causes.extend(progress::causes(observed));
    if causes.is_empty() && !ready {
        causes.push(conditions::unexplained(observed));
    }
    causes.extend(adapters::causes(observed));
    causes.sort_by_key(|cause| cause.weight);
    let summary = match condition {
        Some(condition) if condition.message.is_empty() => condition.reason.clone(),
        Some(condition) => format!("{}: {}", condition.reason, condition.message),
        None => "it has no condition Ready".to_owned(),
    };
    Diagnosis {
        object: root.object(),
        namespace: root.namespace.clone(),
        ready,
        summary,
        causes,
        not_read: observed.not_read.clone(),
    }
}

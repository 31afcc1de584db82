//! Diagnosis of objects that are not ready. Pure: computed from the observed state and the time.
//!
//! Pods are judged by `rendering::diagnose`, by which the controllers write conditions, and the content of the status
//! is taken from it. This module adds the chain of objects from the one that a diagnosis is about to the one with the
//! cause, the remedy, and causes that only other objects show: claims, quotas, nodes, programs of the operator.
//!
//! References of pods that are not ready are collected as well: objects whose absence may be the cause.

mod adapters;
mod conditions;
mod model;
mod operator;
mod placement;
mod pods;
mod rules;
#[cfg(test)]
mod tests;
mod workloads;

use std::collections::BTreeSet;

use api_types::{conditions::READY, grove};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::ResourceExt;
use status_view::pods::component_of;

pub(crate) use self::model::ObjectName;
pub use self::{
    model::{
        Cause, Diagnosis, DiagnosisInputs, InstallMarker, NamespaceWarning, NodeFacts, ObservedWorkload, Program,
        Subject, Weight,
    },
    operator::CONVERSION,
};
use crate::diagnosis::pods::facts;

/// Diagnoses an object. A ready object may have causes: notices, and scaling adapters without effect.
pub fn diagnose(observed: &DiagnosisInputs, now: Timestamp) -> Diagnosis {
    let root = &observed.root;
    let condition = root.condition(READY);
    let ready = condition.is_some_and(|ready| ready.status == "True") && root.is_current() && root.deleted.is_none();
    let mut causes: Vec<Cause> = operator::unconverted(observed).into_iter().collect();
    causes.extend(operator::causes(observed, ready, now));
    causes.extend(pods::causes(observed, now));
    causes.extend(workloads::causes(observed));
    let said = conditions::causes(observed, &causes);
    causes.extend(said);
    causes.extend(workloads::progress_causes(observed));
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

/// Kind of a component.
const COMPONENT: &str = "DynamoComponentDeployment";

/// Returns the owner of a pod other than a component: a clique of Grove, or the pod's owner if that is not a
/// ReplicaSet.
pub fn owner_of(pod: &Pod) -> Option<ObjectName> {
    let clique = pod.labels().get(grove::POD_CLIQUE).map(|clique| ObjectName::new("PodClique", clique));
    let owner = pod.owner_references().iter().find(|owner| owner.controller == Some(true));
    let owner = owner.filter(|owner| owner.kind != "ReplicaSet");
    clique.or_else(|| owner.map(|owner| ObjectName::new(&owner.kind, &owner.name)))
}

/// The chain to a component.
pub fn to_component(observed: &DiagnosisInputs, name: &str) -> Vec<ObjectName> {
    let mut chain = vec![observed.root.object()];
    let component = ObjectName::new(COMPONENT, name);
    if observed.components.iter().any(|known| known.name_any() == name) && chain.first() != Some(&component) {
        chain.push(component);
    }
    chain
}

/// The chain to a workload.
pub fn to_workload(observed: &DiagnosisInputs, kind: &str, name: &str, component: Option<&str>) -> Vec<ObjectName> {
    let mut chain = component.map_or_else(|| vec![observed.root.object()], |name| to_component(observed, name));
    chain.push(ObjectName::new(kind, name));
    chain
}

/// The chain to a pod.
pub fn to_pod(observed: &DiagnosisInputs, pod: &Pod) -> Vec<ObjectName> {
    let component = component_of(pod);
    let workload =
        observed.workloads.iter().find(|known| known.component.is_some() && known.component.as_deref() == component);
    let mut chain = match (workload, component) {
        (Some(workload), _) => to_workload(observed, &workload.kind, &workload.name, component),
        (None, Some(component)) => to_component(observed, component),
        (None, None) => vec![observed.root.object()],
    };
    if workload.is_none() {
        chain.extend(owner_of(pod));
    }
    chain.push(ObjectName::new("Pod", &pod.name_any()));
    chain
}

/// Names of objects.
#[derive(Debug, Default)]
pub struct NeededObjects {
    /// Secrets.
    pub secrets: BTreeSet<String>,
    /// ConfigMaps.
    pub config_maps: BTreeSet<String>,
    /// PersistentVolumeClaims.
    pub claims: BTreeSet<String>,
    /// ResourceClaims.
    pub device_claims: BTreeSet<String>,
}

/// Returns the objects to look up for a diagnosis of these pods.
pub fn needs(pods: &[Pod]) -> NeededObjects {
    let mut needs = NeededObjects::default();
    for pod in pods.iter().filter(|pod| !status_view::pods::is_ready(pod)) {
        needs.secrets.extend(facts::secrets(pod).chain(facts::pull_secrets(pod)).map(str::to_owned));
        needs.config_maps.extend(facts::config_maps(pod).map(str::to_owned));
        needs.claims.extend(placement::names(pod).map(str::to_owned));
        needs.device_claims.extend(facts::device_claims(pod).map(str::to_owned));
    }
    needs
}

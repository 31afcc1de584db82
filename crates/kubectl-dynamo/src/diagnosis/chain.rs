//! The objects from the one that a diagnosis is about to the one with a cause.

use api_types::grove;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use status_view::pods::component_of;

use super::model::{ObjectName, Observed};

/// Kind of a component.
const COMPONENT: &str = "DynamoComponentDeployment";

/// What a pod belongs to beside a component: a clique of Grove, or its owner if that is no ReplicaSet.
pub fn owner_of(pod: &Pod) -> Option<ObjectName> {
    let clique = pod.labels().get(grove::POD_CLIQUE).map(|clique| ObjectName::new("PodClique", clique));
    let owner = pod.owner_references().iter().find(|owner| owner.controller == Some(true));
    let owner = owner.filter(|owner| owner.kind != "ReplicaSet");
    clique.or_else(|| owner.map(|owner| ObjectName::new(&owner.kind, &owner.name)))
}

/// The chain to a component.
pub fn to_component(observed: &Observed, name: &str) -> Vec<ObjectName> {
    let mut chain = vec![observed.root.object()];
    let component = ObjectName::new(COMPONENT, name);
    if observed.components.iter().any(|known| known.name_any() == name) && chain.first() != Some(&component) {
        chain.push(component);
    }
    chain
}

/// The chain to a workload.
pub fn to_workload(observed: &Observed, kind: &str, name: &str, component: Option<&str>) -> Vec<ObjectName> {
    let mut chain = component.map_or_else(|| vec![observed.root.object()], |name| to_component(observed, name));
    chain.push(ObjectName::new(kind, name));
    chain
}

/// The chain to a pod.
pub fn to_pod(observed: &Observed, pod: &Pod) -> Vec<ObjectName> {
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

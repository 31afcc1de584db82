//! Plans the HorizontalPodAutoscaler of a standalone component whose `autoscaling` in v1alpha1 is enabled. It scales
//! the workload, because the component has no scale subresource. The graph controller makes those of graphs.

use std::collections::BTreeMap;

use api_types::{conversion::preserved::PreservedAutoscaling, labels, names, v1beta1::DynamoComponentDeployment};
use controller_kit::store::controller_owner;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        autoscaling::v2::{CrossVersionObjectReference, HorizontalPodAutoscaler},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Resource, ResourceExt};
use rendering::LeaderWorkerSet;

use crate::component::model::{ComponentObserved, WorkloadKind};

/// Plans the autoscaler; `None` if there must be none.
pub(super) fn autoscaler(component: &DynamoComponentDeployment) -> Option<HorizontalPodAutoscaler> {
    let rules = rules(component)?;
    let name = component.name_any();
    let label = (labels::OWN_COMPONENT.to_owned(), names::label_value(&component.spec.component.name));
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        namespace: component.namespace(),
        labels: Some(BTreeMap::from([label])),
        owner_references: component.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    };
    let target = match WorkloadKind::of(component) {
        WorkloadKind::Deployment => reference::<Deployment>(name),
        WorkloadKind::LeaderWorkerSet => reference::<LeaderWorkerSet>(names::leader_worker_set(&name)),
    };
    Some(rendering::render_autoscaler(metadata, target, rules))
}

/// Keeps the replicas that the autoscaler set. It does not act on a workload without replicas, so those are the user's.
pub fn keep_replicas(observed: &mut ComponentObserved) {
    let replicas = observed.live_workload().map_or(0, |live| live.desired_replicas());
    let spec = &observed.component.spec.component;
    if replicas > 0 && spec.desired_replicas() > 0 && rules(&observed.component).is_some() {
        observed.component.spec.component.replicas = Some(replicas);
    }
}

/// The rules of a component that is no part of a graph.
fn rules(component: &DynamoComponentDeployment) -> Option<PreservedAutoscaling> {
    let is_standalone = controller_owner(component).is_none();
    PreservedAutoscaling::of_component_deployment(component.annotations()).filter(|_| is_standalone)
}

fn reference<K: Resource<DynamicType = ()>>(name: String) -> CrossVersionObjectReference {
    CrossVersionObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: K::kind(&()).into_owned(),
        name,
    }
}

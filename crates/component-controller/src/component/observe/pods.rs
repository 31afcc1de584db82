//! Which pods are looked at when a component does not come up.

use crate::component::workload::WorkloadKind;
use api_types::{labels, names, v1beta1::DynamoComponentDeployment};
use controller_kit::pods::PodsOf;
use kube::ResourceExt;

/// The pods of a component.
pub fn pods_of(component: &DynamoComponentDeployment) -> PodsOf<'_> {
    let name = component.name_any();
    let selector = match WorkloadKind::of(component) {
        WorkloadKind::Deployment => format!("{}={name}", labels::SELECTOR),
        WorkloadKind::LeaderWorkerSet => format!("{}={}", labels::LEADER_WORKER_SET, names::leader_worker_set(&name)),
    };
    let metadata = &component.metadata;
    PodsOf {
        uid: metadata.uid.as_deref().unwrap_or_default(),
        namespace: metadata.namespace.as_deref().unwrap_or_default(),
        selector,
    }
}

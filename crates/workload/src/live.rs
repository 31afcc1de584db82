//! What runs the pods of a component, whatever its kind.

use api_types::v1beta1::ComponentReplicaStatus;
use k8s_openapi::{api::core::v1::PodTemplateSpec, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use crate::Readiness;

/// What runs the pods of a component: a Deployment or a LeaderWorkerSet.
pub trait Workload {
    /// Its metadata.
    fn object_meta(&self) -> &ObjectMeta;
    /// The templates of its pods.
    fn templates(&self) -> Vec<&PodTemplateSpec>;
    /// The same, to be changed.
    fn templates_mut(&mut self) -> Vec<&mut PodTemplateSpec>;
    /// Wanted replicas.
    fn wanted(&self) -> i32;
    /// The generation that its status speaks of, if it tells.
    fn observed_generation(&self) -> Option<i64>;
    /// Whether its pods serve, or have served: that shows even when pods fail later.
    fn has_served(&self) -> bool;
    /// Whether it serves with all of its wanted replicas, none of them old.
    fn readiness(&self) -> Readiness;
    /// Its replica counts, as the component's status states them.
    fn replica_status(&self, runtime_namespace: String) -> ComponentReplicaStatus;
}

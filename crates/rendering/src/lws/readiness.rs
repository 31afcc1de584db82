//! What a live LeaderWorkerSet says about its component. Its replicas are groups of pods.

use api_types::v1beta1::{ComponentKind, ComponentReplicaStatus};
use k8s_openapi::{api::core::v1::PodTemplateSpec, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use super::{LeaderWorkerSet, LeaderWorkerSetStatus, types::is_observed};
use crate::{NotReady, Readiness, Workload};

impl Workload for LeaderWorkerSet {
    fn object_meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn templates(&self) -> Vec<&PodTemplateSpec> {
        let template = &self.spec.leader_worker_template;
        template.leader_template.iter().chain([&template.worker_template]).collect()
    }

    fn templates_mut(&mut self) -> Vec<&mut PodTemplateSpec> {
        let template = &mut self.spec.leader_worker_template;
        template.leader_template.iter_mut().chain([&mut template.worker_template]).collect()
    }

    fn desired_replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    fn observed_generation(&self) -> Option<i64> {
        self.status.as_ref().and_then(|status| status.observed_generation)
    }

    fn has_served(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.ready_replicas > 0 || status.is_available())
    }

    fn readiness(&self) -> Readiness {
        why_not_ready(self).into()
    }

    /// A set does not count available groups.
    fn replica_status(&self, runtime_namespace: String) -> ComponentReplicaStatus {
        let none = LeaderWorkerSetStatus::default();
        let status = self.status.as_ref().unwrap_or(&none);
        ComponentReplicaStatus {
            component_kind: ComponentKind::LeaderWorkerSet,
            component_names: self.metadata.name.iter().cloned().collect(),
            runtime_namespace: Some(runtime_namespace),
            replicas: status.replicas,
            updated_replicas: status.updated_replicas,
            ready_replicas: Some(status.ready_replicas),
            available_replicas: None,
            scheduled_replicas: None,
        }
    }
}

impl LeaderWorkerSetStatus {
    fn is_available(&self) -> bool {
        self.conditions.iter().any(|condition| condition.type_ == "Available" && condition.status == "True")
    }
}

/// Groups of an older template do not count, and a status that speaks of an older spec does not either.
fn why_not_ready(set: &LeaderWorkerSet) -> Option<NotReady> {
    let desired = set.desired_replicas();
    let none = LeaderWorkerSetStatus::default();
    let status = set.status.as_ref().unwrap_or(&none);
    if !is_observed(set) {
        Some(NotReady::NotObserved)
    } else if status.updated_replicas < desired {
        Some(NotReady::Updating { updated: status.updated_replicas, desired })
    } else if status.ready_replicas < desired {
        Some(NotReady::Unavailable { available: status.ready_replicas, desired })
    } else if status.replicas != desired {
        Some(NotReady::Surplus { extra: status.replicas - desired })
    } else if desired > 0 && !status.is_available() {
        Some(NotReady::NoAvailableCondition)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// 2 desired at generation 3, and everything in order but for `status`.
    fn with(replicas: i32, status: serde_json::Value) -> Option<NotReady> {
        let mut all = json!({
            "replicas": replicas, "readyReplicas": replicas, "updatedReplicas": replicas, "observedGeneration": 3,
            "conditions": [{
                "type": "Available", "status": "True", "reason": "AllGroupsReady", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        });
        all.as_object_mut().unwrap().extend(status.as_object().unwrap().clone());
        let set = json!({
            "metadata": {"generation": 3},
            "spec": {"replicas": replicas, "leaderWorkerTemplate": {"workerTemplate": {}, "size": 2}},
            "status": all,
        });
        why_not_ready(&serde_json::from_value(set).unwrap())
    }

    #[test]
    fn every_way_of_not_being_ready_has_its_reason() {
        assert_eq!(with(2, json!({})), None);
        assert_eq!(with(2, json!({"observedGeneration": 2})), Some(NotReady::NotObserved));
        assert_eq!(with(2, json!({"updatedReplicas": 1})), Some(NotReady::Updating { updated: 1, desired: 2 }));
        assert_eq!(with(2, json!({"readyReplicas": 1})), Some(NotReady::Unavailable { available: 1, desired: 2 }));
        assert_eq!(with(2, json!({"replicas": 3})), Some(NotReady::Surplus { extra: 1 }));
        assert_eq!(with(2, json!({"conditions": []})), Some(NotReady::NoAvailableCondition));
    }

    #[test]
    fn zero_groups_are_ready_when_none_is_left() {
        assert_eq!(with(0, json!({"conditions": []})), None);
        assert_eq!(with(0, json!({"replicas": 1})), Some(NotReady::Surplus { extra: 1 }));
    }

    #[test]
    fn an_api_without_observed_generation_is_believed_while_no_template_changes() {
        assert_eq!(with(2, json!({"observedGeneration": null})), None);
    }
}

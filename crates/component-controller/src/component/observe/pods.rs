//! Diagnoses the pods of a component that does not become ready.

use api_types::{labels, names, v1beta1::DynamoComponentDeployment};
use controller_kit::pods::{EventWarning, PodDiagnostics, PodsOf};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use rendering::PodDiagnosis;

use crate::component::model::WorkloadKind;

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

/// Diagnoses why the pods of a component do not serve. Events are read only for what pods do not show: pods of groups
/// that are not created, and volumes. `replicas` is the desired count.
pub async fn diagnose(
    diagnostics: &PodDiagnostics<PodDiagnosis>,
    component: &DynamoComponentDeployment,
    replicas: i32,
    pods: &[Pod],
) -> Option<PodDiagnosis> {
    let namespace = component.namespace().unwrap_or_default();
    let desired = replicas.saturating_mul(component.spec.component.node_count());
    if WorkloadKind::of(component) == WorkloadKind::LeaderWorkerSet && lacks_pods(pods, desired) {
        let warnings = diagnostics.warnings(&namespace, "StatefulSet", "FailedCreate", None).await;
        if let Some(rejection) = rejection(&names::leader_worker_set(&component.name_any()), pods, &warnings) {
            return Some(rejection);
        }
    }
    diagnostics.diagnose(pods).await
}

fn lacks_pods(pods: &[Pod], desired: i32) -> bool {
    let there = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).count();
    i32::try_from(there).is_ok_and(|there| there < desired)
}

/// The latest rejection of pods of a LeaderWorkerSet, unless a pod was created since. One StatefulSet has its name and
/// creates the leaders; each leader has another, of that name and its number, for the other nodes.
fn rejection(set: &str, pods: &[Pod], warnings: &[EventWarning]) -> Option<PodDiagnosis> {
    let newest = pods.iter().filter_map(|pod| pod.metadata.creation_timestamp.as_ref()).map(|time| time.0).max();
    let is_ours = |name: &str| {
        name.strip_prefix(set).is_some_and(|rest| {
            rest.is_empty() || rest.strip_prefix('-').is_some_and(|number| number.parse::<u32>().is_ok())
        })
    };
    let latest = warnings.iter().find(|warning| is_ours(&warning.object) && warning.last >= newest)?;
    Some(PodDiagnosis::from_creation_warning(&format!("StatefulSet {}", latest.object), &latest.message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_latest_rejection_of_a_groups_pods_is_reported_until_a_pod_is_created() {
        let warning = |object: &str, second: i64| EventWarning {
            object: object.to_owned(),
            message: "create Pod w-0 in StatefulSet failed error: exceeded quota: gpus".to_owned(),
            last: Some(jiff::Timestamp::from_second(second).unwrap()),
        };
        let pod = |second: i64| -> Pod {
            let made = jiff::Timestamp::from_second(second).unwrap().to_string();
            serde_json::from_value(json!({ "metadata": { "creationTimestamp": made } })).unwrap()
        };
        let message_of =
            |object: &str, pods: &[Pod]| rejection("w-0", pods, &[warning(object, 100)]).map(|t| t.message);
        let message = "StatefulSet w-0: create Pod w-0 in StatefulSet failed error: exceeded quota: gpus";
        assert_eq!(message_of("w-0", &[]).as_deref(), Some(message));
        assert!(message_of("w-0-3", &[pod(100)]).is_some(), "the other nodes of a group");
        assert_eq!(message_of("w-0", &[pod(101)]), None, "an earlier event");
        for other in ["w-01", "w-0-a", "other", "w-1"] {
            assert_eq!(message_of(other, &[]), None, "{other}");
        }
        assert!(lacks_pods(&[pod(1)], 2) && !lacks_pods(&[pod(1), pod(1)], 2));
    }
}

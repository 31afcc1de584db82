//! Which pods are looked at when a component does not come up, and what is seen.

use api_types::{labels, names, v1beta1::DynamoComponentDeployment};
use controller_kit::{
    pods::{PodWatcher, PodsOf},
    warnings::Warning,
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use workload::Diagnosis;

use crate::component::workload::WorkloadKind;

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

/// Why the pods of a component do not serve. Events are looked at only where pods themselves cannot tell: groups of pods that
/// are not made, and volumes. `groups` is how many replicas are wanted.
pub async fn why(
    watcher: &PodWatcher<Diagnosis>,
    component: &DynamoComponentDeployment,
    groups: i32,
    pods: &[Pod],
) -> Option<Diagnosis> {
    let namespace = component.namespace().unwrap_or_default();
    let wanted = groups.saturating_mul(component.spec.component.node_count());
    if WorkloadKind::of(component) == WorkloadKind::LeaderWorkerSet && lacks_pods(pods, wanted) {
        let told = watcher.warnings(&namespace, "StatefulSet", "FailedCreate", None).await;
        if let Some(refusal) = refusal(&names::leader_worker_set(&component.name_any()), pods, &told) {
            return Some(refusal);
        }
    }
    watcher.diagnose(pods).await
}

fn lacks_pods(pods: &[Pod], wanted: i32) -> bool {
    let there = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).count();
    i32::try_from(there).is_ok_and(|there| there < wanted)
}

/// The latest refusal of pods of a LeaderWorkerSet, unless a pod was made since. One StatefulSet has its name and makes the
/// leaders; each leader has another, of that name and its number, for the other nodes.
fn refusal(set: &str, pods: &[Pod], told: &[Warning]) -> Option<Diagnosis> {
    let newest = pods.iter().filter_map(|pod| pod.metadata.creation_timestamp.as_ref()).map(|time| time.0).max();
    let is_ours = |name: &str| {
        name.strip_prefix(set).is_some_and(|rest| {
            rest.is_empty() || rest.strip_prefix('-').is_some_and(|number| number.parse::<u32>().is_ok())
        })
    };
    let latest = told.iter().find(|warning| is_ours(&warning.object) && warning.last >= newest)?;
    Some(Diagnosis::from_creation_warning(&format!("StatefulSet {}", latest.object), &latest.message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_latest_refusal_of_a_groups_pods_is_told_until_one_is_made() {
        let warning = |object: &str, second: i64| Warning {
            object: object.to_owned(),
            message: "create Pod w-0 in StatefulSet failed error: exceeded quota: gpus".to_owned(),
            last: Some(jiff::Timestamp::from_second(second).unwrap()),
        };
        let pod = |second: i64| -> Pod {
            let made = jiff::Timestamp::from_second(second).unwrap().to_string();
            serde_json::from_value(json!({ "metadata": { "creationTimestamp": made } })).unwrap()
        };
        let told = |object: &str, pods: &[Pod]| refusal("w-0", pods, &[warning(object, 100)]).map(|t| t.message);
        let message = "StatefulSet w-0: create Pod w-0 in StatefulSet failed error: exceeded quota: gpus";
        assert_eq!(told("w-0", &[]).as_deref(), Some(message));
        assert!(told("w-0-3", &[pod(100)]).is_some(), "the other nodes of a group");
        assert_eq!(told("w-0", &[pod(101)]), None, "it is of before");
        for other in ["w-01", "w-0-a", "other", "w-1"] {
            assert_eq!(told(other, &[]), None, "{other}");
        }
        assert!(lacks_pods(&[pod(1)], 2) && !lacks_pods(&[pod(1), pod(1)], 2));
    }
}

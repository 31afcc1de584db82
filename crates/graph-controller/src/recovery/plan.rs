//! Selects pods that cannot serve any more. Pure.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use api_types::{gpu_memory_service, grove, labels};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::ResourceExt;

/// Engines that work together: those of one place in one replica of a scaling group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Group {
    namespace: String,
    /// Values of [`grove::ENGINE_GROUP`].
    values: [String; 3],
}

impl Group {
    fn of(pod: &ObjectMeta) -> Option<Self> {
        let label = |key: &str| pod.labels.as_ref()?.get(key).cloned().filter(|value| !value.is_empty());
        let [group, replica, index] = grove::ENGINE_GROUP.map(label);
        let is_engine = label(labels::FAILOVER_ENGINE).as_deref() == Some(labels::TRUE);
        // Processes that are restored come back within their pod.
        let restored = label(labels::RESTORE_TARGET).as_deref() == Some(labels::TRUE);
        let values = [group?, replica?, index?];
        (is_engine && !restored).then(|| Self { namespace: pod.namespace.clone().unwrap_or_default(), values })
    }

    /// Whether a pod is of the group.
    pub(super) fn has(&self, pod: &ObjectMeta) -> bool {
        Self::of(pod).as_ref() == Some(self)
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [group, replica, index] = &self.values;
        write!(f, "{group}, replica {replica}, index {index}")
    }
}

/// Groups that restart, with the uids of the pods to delete. A retry after a rejected deletion keeps newer pods.
#[derive(Debug, Default)]
pub(super) struct GroupRestarts {
    to_delete: HashMap<Group, HashSet<String>>,
}

impl GroupRestarts {
    /// The pods to delete among the current `members`, because the one with uid `ended` has ended. A newer pod that has
    /// ended as well restarts the group again.
    pub(super) fn pods_to_delete(&mut self, group: &Group, ended: &str, members: &HashSet<String>) -> HashSet<String> {
        let to_delete = self.to_delete.entry(group.clone()).or_default();
        if !to_delete.contains(ended) {
            to_delete.clone_from(members);
        }
        to_delete.intersection(members).cloned().collect()
    }

    /// Ends the restart of a group.
    pub(super) fn end(&mut self, group: &Group) {
        self.to_delete.remove(group);
    }
}

/// The group of an engine that has ended and is not being deleted.
pub(super) fn lost_group(pod: &Pod) -> Option<Group> {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let ended = matches!(phase, Some("Failed" | "Succeeded"));
    Group::of(&pod.metadata).filter(|_| ended && pod.metadata.deletion_timestamp.is_none())
}

/// Whether the memory server of a restored pod has restarted. A pod without controller would not be created again.
pub(super) fn lost_gpu_memory(pod: &Pod) -> bool {
    let restored = pod.labels().get(labels::RESTORE_TARGET).is_some_and(|value| value == labels::TRUE);
    let made = pod.owner_references().iter().any(|owner| owner.controller == Some(true));
    let servers = pod.status.iter().flat_map(|status| status.init_container_statuses.iter().flatten());
    let mut servers = servers.filter(|container| container.name == gpu_memory_service::SERVER);
    restored && made && pod.metadata.deletion_timestamp.is_none() && servers.any(|server| server.restart_count > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(edit: impl FnOnce(&mut Value)) -> Pod {
        let mut pod = json!({
            "metadata": { "name": "p", "namespace": "n", "labels": {
                "nvidia.com/dynamo-failover-engine-group-member": "true", "grove.io/podcliquescalinggroup": "g",
                "grove.io/podcliquescalinggroup-replica-index": "0", "grove.io/podclique-pod-index": "1" } },
            "status": { "phase": "Failed" },
        });
        edit(&mut pod);
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn a_group_begins_anew_when_one_of_it_has_ended() {
        let lost = |edit: fn(&mut Value)| lost_group(&pod(edit)).is_some();
        assert!(lost(|_| {}));
        assert!(lost(|p| p["status"]["phase"] = json!("Succeeded")));
        assert!(!lost(|p| p["status"]["phase"] = json!("Running")));
        assert!(!lost(|p| p["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")));
        assert!(!lost(|p| p["metadata"]["labels"]["nvidia.com/snapshot-is-restore-target"] = json!("true")));
        assert!(!lost(|p| p["metadata"]["labels"]["nvidia.com/dynamo-failover-engine-group-member"] = json!("false")));
        let forget = |p: &mut Value| {
            p["metadata"]["labels"].as_object_mut().unwrap().remove("grove.io/podclique-pod-index").unwrap();
        };
        assert!(!lost(forget));
    }

    #[test]
    fn a_group_is_one_place_in_one_replica() {
        let group = lost_group(&pod(|_| {})).unwrap();
        let has = |edit: fn(&mut Value)| group.has(&pod(edit).metadata);
        assert!(has(|p| p["status"]["phase"] = json!("Running")));
        assert!(!has(|p| p["metadata"]["namespace"] = json!("other")));
        for key in grove::ENGINE_GROUP {
            let mut other = json!(pod(|_| {}));
            other["metadata"]["labels"][key] = json!("other");
            assert!(!group.has(&serde_json::from_value::<Pod>(other).unwrap().metadata), "{key}");
        }
    }

    /// Defect: one member whose deletion was refused made every retry delete the replacements of the others.
    #[test]
    fn a_retry_leaves_the_replacements_alone() {
        let group = lost_group(&pod(|_| {})).unwrap();
        let mut restarts = GroupRestarts::default();
        let set = |uids: &[&str]| uids.iter().map(|uid| (*uid).to_owned()).collect::<HashSet<_>>();
        assert_eq!(restarts.pods_to_delete(&group, "p", &set(&["p", "q", "r"])), set(&["p", "q", "r"]));
        let retried = restarts.pods_to_delete(&group, "p", &set(&["p", "q", "new"]));
        assert_eq!(retried, set(&["p", "q"]), "the deletion of q is refused");
        let all = set(&["p", "q", "new"]);
        assert_eq!(restarts.pods_to_delete(&group, "new", &all), all, "a replacement has ended, too");
        restarts.end(&group);
        assert_eq!(restarts.pods_to_delete(&group, "p", &all), all);
    }

    #[test]
    fn a_restored_pod_goes_when_its_memory_server_has_started_anew() {
        let restored = |restarts: i32, made: bool, label: &str| {
            let owner =
                json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": made }]);
            let server = json!([{ "name": "gms-server", "restartCount": restarts, "image": "", "imageID": "",
                "ready": true }]);
            let pod = json!({ "metadata": { "labels": { "nvidia.com/snapshot-is-restore-target": label },
                "ownerReferences": owner }, "status": { "initContainerStatuses": server } });
            lost_gpu_memory(&serde_json::from_value(pod).unwrap())
        };
        assert!(restored(1, true, "true"));
        assert!(!restored(0, true, "true") && !restored(1, false, "true") && !restored(1, true, "false"));
    }
}

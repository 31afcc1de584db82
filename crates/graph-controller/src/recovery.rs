//! Replaces pods that cannot serve any more and that no controller replaces: engines of a group that lost one, and
//! restored engines that lost their GPU memory.
//!
//! The selection of these pods is pure.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex},
};

use api_types::{gpu_memory_service, grove, labels};
use controller_kit::{
    apply::{Applier, RequestError},
    controller::Action,
    events::{Event, EventSink},
    store::{Key, Packed, Store},
    sync::locked,
};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Resource, ResourceExt};
use tracing::{debug, info, warn};

/// Replaces pods by deleting them; their controllers create new ones.
#[derive(Clone)]
pub struct Recovery {
    /// Writes.
    applier: Applier,
    /// Records events.
    events: EventSink,
    /// The pods.
    pods: Store<Packed<Pod>>,
    /// Groups that restart.
    restarts: Arc<Mutex<GroupRestarts>>,
}

impl Recovery {
    /// Writes through `applier`, and reads `pods`.
    pub fn new(applier: Applier, events: EventSink, pods: Store<Packed<Pod>>) -> Self {
        Self { applier, events, pods, restarts: Arc::default() }
    }

    /// Restarts all engines of a group of which one has ended. The rest of the group serves no requests, and holds
    /// memory and sockets that the next engines need.
    ///
    /// # Errors
    /// The API server rejects the request, or does not answer.
    pub async fn restart_group(&self, packed: Arc<Packed<Pod>>) -> Result<Action, RequestError> {
        let Ok(pod) = packed.unpack() else { return Ok(Action::AwaitChange) };
        let Some(group) = lost_group(&pod) else { return Ok(Action::AwaitChange) };
        let uid = pod.uid().unwrap_or_default();
        let here = self.pods.in_namespace(pod.metadata.namespace.as_deref().unwrap_or_default());
        let members: Vec<_> = here.iter().filter(|member| group.has(&member.metadata)).collect();
        let uids = members.iter().filter_map(|member| member.uid()).collect();
        let to_delete = locked(&self.restarts).pods_to_delete(&group, &uid, &uids);
        let mut to_delete: Vec<_> =
            members.into_iter().filter(|member| member.uid().is_some_and(|uid| to_delete.contains(&uid))).collect();
        // The ended one is deleted last: while it exists, a rejected deletion is retried.
        to_delete.sort_by_key(|member| member.uid().as_deref() == Some(&uid));
        let mut refused = None;
        let deleted = to_delete.len();
        for member in to_delete {
            if refused.is_some() && member.uid().as_deref() == Some(&uid) {
                break;
            }
            if let Err(error) = self.applier.delete_at_once(member.as_ref(), &uid).await {
                warn!(pod = %member.name_any(), %group, %error, "failed to delete a pod of a group that begins anew");
                refused.get_or_insert(error);
            }
        }
        if let Some(error) = refused {
            return Err(error);
        }
        locked(&self.restarts).end(&group);
        // Deletions of a pod that the cache does not have any more are not waited for.
        let cached = self.pods.get(&Key::of(packed.as_ref())).and_then(|cached| cached.uid());
        if cached.as_deref() != Some(&uid) {
            self.applier.forget(&uid);
        }
        info!(pod = %pod.name_any(), %group, deleted, "an engine has ended; its group begins anew");
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        let note = format!("the pod has ended ({phase}); all engines of {group} begin anew");
        self.events.publish(&pod.object_ref(&()), Event::warning("FailoverCascade", "Delete", note));
        Ok(Action::AwaitChange)
    }

    /// The server that holds a restored engine's memory has started anew: what the engine was restored with is gone,
    /// and only another restore brings it back.
    ///
    /// # Errors
    /// The API server rejects the request, or does not answer.
    pub async fn replace_after_gms_restart(&self, packed: Arc<Packed<Pod>>) -> Result<Action, RequestError> {
        let Ok(pod) = packed.unpack() else { return Ok(Action::AwaitChange) };
        if !lost_gpu_memory(&pod) {
            return Ok(Action::AwaitChange);
        }
        self.applier.delete(&pod, &pod.uid().unwrap_or_default()).await?;
        debug!(pod = %pod.name_any(), "replaced: its memory server started anew");
        let note = "the server of its GPU memory has started anew; the pod is replaced";
        self.events.publish(&pod.object_ref(&()), Event::warning("GpuMemoryLost", "Delete", note));
        Ok(Action::AwaitChange)
    }
}

/// Engines that work together: those of one place in one replica of a scaling group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct EngineGroup {
    namespace: String,
    /// Values of [`grove::ENGINE_GROUP`].
    values: [String; 3],
}

impl EngineGroup {
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
    fn has(&self, pod: &ObjectMeta) -> bool {
        Self::of(pod).as_ref() == Some(self)
    }
}

impl fmt::Display for EngineGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [group, replica, index] = &self.values;
        write!(f, "{group}, replica {replica}, index {index}")
    }
}

/// Groups that restart, with the uids of the pods to delete. A retry after a rejected deletion keeps newer pods.
#[derive(Debug, Default)]
struct GroupRestarts {
    to_delete: HashMap<EngineGroup, HashSet<String>>,
}

impl GroupRestarts {
    /// The pods to delete among the current `members`, because the one with uid `ended` has ended. A newer pod that has
    /// ended as well restarts the group again.
    fn pods_to_delete(&mut self, group: &EngineGroup, ended: &str, members: &HashSet<String>) -> HashSet<String> {
        let to_delete = self.to_delete.entry(group.clone()).or_default();
        if !to_delete.contains(ended) {
            to_delete.clone_from(members);
        }
        to_delete.intersection(members).cloned().collect()
    }

    /// Ends the restart of a group.
    fn end(&mut self, group: &EngineGroup) {
        self.to_delete.remove(group);
    }
}

/// The group of an engine that has ended and is not being deleted.
fn lost_group(pod: &Pod) -> Option<EngineGroup> {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let ended = matches!(phase, Some("Failed" | "Succeeded"));
    EngineGroup::of(&pod.metadata).filter(|_| ended && pod.metadata.deletion_timestamp.is_none())
}

/// Whether the memory server of a restored pod has restarted. A pod without controller would not be created again.
fn lost_gpu_memory(pod: &Pod) -> bool {
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

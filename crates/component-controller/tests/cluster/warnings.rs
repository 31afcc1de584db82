//! Causes of pods that do not start, of which only events exist. No controller runs LeaderWorkerSets here, and no
//! kubelet; the test itself says what they would.

use api_types::{labels, v1beta1::DynamoComponentDeployment};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use test_cluster::wait;

use crate::{
    harness::{Harness, LIMIT, condition, leader_worker_sets},
    nodes::{SET, spanning},
};

/// Before any pod of the test was made.
const LONG_AGO: &str = "2020-01-01T00:00:00Z";

/// Warns of an object, as one of Kubernetes' own programs does.
async fn warn(harness: &Harness, source: &str, reason: &str, message: &str, object: &Value) {
    let mut event = json!({
        "metadata": { "generateName": "warning-" }, "type": "Warning", "reason": reason, "message": message,
        "involvedObject": object, "source": { "component": source }, "count": 1,
        "firstTimestamp": LONG_AGO, "lastTimestamp": LONG_AGO,
    });
    event["involvedObject"]["namespace"] = json!(harness.namespace);
    let event: Event = serde_json::from_value(event).unwrap();
    harness.api().create(&PostParams::default(), &event).await.unwrap();
}

/// A pod of the component that its node sets up and does not get any further with.
async fn pod_being_set_up(harness: &Harness, name: &str) -> Pod {
    let pod = json!({
        "metadata": { "name": name, "labels": { labels::LEADER_WORKER_SET: SET } },
        "spec": {
            // No scheduler gives it a node, on which it would become ready.
            "schedulerName": "no-scheduler", "automountServiceAccountToken": false,
            "containers": [{ "name": "main", "image": "registry.example.com/vllm-runtime:1.5.0" }],
        },
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    // The namespace's account is not made by the controller.
    let make = async || harness.api().create(&PostParams::default(), &pod).await.map_err(|error| error.to_string());
    wait::until("the pod to be taken", LIMIT, make).await.unwrap();
    let waiting = json!({ "waiting": { "reason": "ContainerCreating" } });
    let container = json!({ "name": "main", "image": "registry.example.com/vllm-runtime:1.5.0", "imageID": "", "ready": false,
        "restartCount": 0, "state": waiting });
    let status = json!({ "status": { "phase": "Pending", "containerStatuses": [container] } });
    harness.api::<Pod>().patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap()
}

/// Waits until the component says why it is not ready.
async fn until_recorded(harness: &Harness, reason: &str, expected: &str) {
    harness
        .until(&format!("{reason}: {expected}"), |component: &DynamoComponentDeployment| {
            condition(component, "Reconciling")
                .is_some_and(|reported| reported.1 == reason && reported.2.contains(expected))
                && condition(component, "Ready").is_some_and(|ready| ready.0 == "False" && ready.2.contains(expected))
        })
        .await;
}

/// A namespace in which a StatefulSet of the component, and a foreign one, were refused a pod long ago; and what
/// was said of it. The component is still to be made: it is looked at some seconds later, and then ever more rarely.
async fn refused(prefix: &str) -> Option<(Harness, String)> {
    leader_worker_sets()?;
    let harness = Harness::new(prefix).await;
    let set = |name: &str| json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": name });
    let message = format!("create Pod {SET}-0 in StatefulSet {SET} failed error: exceeded quota: gpus");
    warn(&harness, "statefulset-controller", "FailedCreate", "create Pod of another owner failed", &set("other-0"))
        .await;
    warn(&harness, "statefulset-controller", "FailedCreate", &message, &set(SET)).await;
    Some((harness, message))
}

#[tokio::test]
async fn rejected_pods_of_a_group_are_reported_with_the_message_of_kubernetes() {
    let Some((harness, message)) = refused("refused").await else { return };
    harness.apply::<DynamoComponentDeployment>(&spanning()).await;
    until_recorded(&harness, "PodsRefused", &format!("StatefulSet {SET}: {message}")).await;
}

#[tokio::test]
async fn an_unmounted_volume_is_reported_with_the_message_of_kubernetes_and_no_older_rejection() {
    let Some((harness, _)) = refused("volume").await else { return };
    let leader = pod_being_set_up(&harness, "chat-worker-0-0").await;
    let about = |uid: &str| json!({ "apiVersion": "v1", "kind": "Pod", "name": leader.name_any(), "uid": uid });
    let missing = "MountVolume.SetUp failed for volume \"keys\" : secret \"keys\" not found";
    let earlier = "MountVolume.SetUp failed for volume \"model\" : of a pod that had this name before";
    warn(&harness, "kubelet", "FailedMount", earlier, &about("another")).await;
    warn(&harness, "kubelet", "FailedMount", missing, &about(&leader.uid().unwrap())).await;
    harness.apply::<DynamoComponentDeployment>(&spanning()).await;
    until_recorded(&harness, "VolumeNotMounted", &format!("pod chat-worker-0-0: {missing}")).await;
}

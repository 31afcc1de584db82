//! Pods that cannot serve any more are deleted, and no others.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Resource,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use test_cluster::wait;

use crate::harness::{Harness, LIMIT};

/// No scheduler binds it, so its status is what the test writes.
fn pod(name: &str, labels: Value) -> Value {
    json!({
        "metadata": { "name": name, "labels": labels },
        "spec": { "schedulerName": "no-scheduler", "automountServiceAccountToken": false,
            "containers": [{ "name": "main", "image": "registry.example.com/decode:1" }] },
    })
}

async fn make(harness: &Harness, pod: Value) {
    let pod: Pod = serde_json::from_value(pod).unwrap();
    // The namespace's account is not made by the controller.
    let look = async || harness.api().create(&PostParams::default(), &pod).await.map_err(|error| error.to_string());
    wait::until("the pod to be taken", LIMIT, look).await.unwrap();
}

async fn set_status(harness: &Harness, name: &str, status: Value) {
    let patch = Patch::Merge(json!({ "status": status }));
    harness.api::<Pod>().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test]
async fn a_group_that_has_lost_an_engine_begins_anew_and_others_go_on() {
    let Some(harness) = Harness::on_grove("cascade").await else { return };
    harness.start();
    let engine = |index: &str| {
        json!({ "nvidia.com/dynamo-failover-engine-group-member": "true", "grove.io/podcliquescalinggroup": "chat-0-decode",
            "grove.io/podcliquescalinggroup-replica-index": "0", "grove.io/podclique-pod-index": index })
    };
    for (name, index) in [("leader", "0"), ("worker", "0"), ("standby", "1")] {
        make(&harness, pod(name, engine(index))).await;
    }
    set_status(&harness, "worker", json!({ "phase": "Failed" })).await;
    harness.gone::<Pod>("leader").await;
    harness.gone::<Pod>("worker").await;
    assert!(harness.api::<Pod>().get("standby").await.unwrap().metadata.deletion_timestamp.is_none());
}

#[tokio::test]
async fn a_restored_pod_whose_memory_server_started_anew_is_replaced() {
    let harness = Harness::with_checkpoints("memory").await;
    let owner: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "owner" } })).unwrap();
    let owner = harness.api().create(&PostParams::default(), &owner).await.unwrap();
    for name in ["forgetful", "sound"] {
        let mut restored = pod(name, json!({ "nvidia.com/snapshot-is-restore-target": "true" }));
        restored["metadata"]["ownerReferences"] = json!([owner.controller_owner_ref(&()).unwrap()]);
        make(&harness, restored).await;
    }
    let server = |restarts: i32| {
        json!({ "initContainerStatuses": [{ "name": "gms-server", "image": "i", "imageID": "i", "ready": true,
            "restartCount": restarts }] })
    };
    set_status(&harness, "sound", server(0)).await;
    set_status(&harness, "forgetful", server(1)).await;
    harness.gone::<Pod>("forgetful").await;
    assert!(harness.api::<Pod>().get("sound").await.unwrap().metadata.deletion_timestamp.is_none());
}

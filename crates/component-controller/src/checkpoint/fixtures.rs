//! Checkpoints and their children for tests.

use api_types::{external::PodSnapshot, v1alpha1::DynamoCheckpoint};
use controller_kit::pods::JobWaits;
use k8s_openapi::{api::batch::v1::Job, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use rendering::checkpoint::{CheckpointConfig, CheckpointStorage, StorageLocation};
use serde_json::{Value, json};

use super::model::CheckpointObserved;

pub const JOB: &str = "checkpoint-job-0123-1";

fn owner() -> Value {
    json!([{ "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoCheckpoint", "name": "ckpt", "uid": "uid",
        "controller": true }])
}

/// The checkpoint `team/ckpt` with this status.
pub fn checkpoint(status: Value) -> DynamoCheckpoint {
    serde_json::from_value(json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoCheckpoint",
        "metadata": { "name": "ckpt", "namespace": "team", "uid": "uid", "generation": 1,
            "labels": { "nvidia.com/snapshot-checkpoint-id": "0123" } },
        "spec": { "identity": { "model": "m", "backendFramework": "vllm" },
            "job": { "podTemplateSpec": { "spec": { "containers": [
                { "name": "main", "image": "i", "command": ["engine"] }] } } } },
        "status": status,
    }))
    .unwrap()
}

/// Returns the live state: the checkpoint with this status, and nothing else; agents keep checkpoints.
pub fn observed(status: Value) -> CheckpointObserved {
    CheckpointObserved {
        checkpoint: checkpoint(status),
        namespace: "team".to_owned(),
        uid: "uid".to_owned(),
        id: "0123".to_owned(),
        elder: None,
        job: None,
        other_jobs: Vec::new(),
        cleanup: None,
        waits: JobWaits::default(),
        pod: None,
        is_captured: false,
        capture: None,
        serves_captures: true,
        location: StorageLocation::OfAgent(CheckpointStorage {
            claim: "claim".to_owned(),
            folder: "/checkpoints".to_owned(),
        }),
        claimed_gpus: Ok(0),
        config: Some(CheckpointConfig::default()),
    }
}

/// A Job of ours of that name, with a true condition of that type, if any.
pub fn job(name: &str, ended: &str) -> Job {
    let conditions =
        if ended.is_empty() { json!([]) } else { json!([{ "type": ended, "status": "True", "message": "m" }]) };
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "team", "uid": format!("uid-of-{name}"), "ownerReferences": owner(),
            "labels": { "nvidia.com/snapshot-checkpoint-id": "0123" } },
        "status": { "conditions": conditions },
    }))
    .unwrap()
}

/// The pod of the Job.
pub fn pod() -> ObjectMeta {
    ObjectMeta { name: Some("pod".to_owned()), uid: Some("pod-uid".to_owned()), ..ObjectMeta::default() }
}

/// Our PodSnapshot of that pod, with a true condition of that type, if any.
pub fn capture(condition: &str) -> PodSnapshot {
    let conditions = if condition.is_empty() {
        json!([])
    } else {
        json!([{ "type": condition, "status": "True", "reason": "r", "message": "said",
            "lastTransitionTime": "2026-01-01T00:00:00Z" }])
    };
    serde_json::from_value(json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "PodSnapshot",
        "metadata": { "name": "ckpt", "namespace": "team", "uid": "capture-uid", "ownerReferences": owner() },
        "spec": { "source": { "podRef": { "name": "pod", "uid": "pod-uid", "containers": ["main"] } } },
        "status": { "boundSnapshotContentName": "content", "conditions": conditions },
    }))
    .unwrap()
}

/// The status of a checkpoint whose Job was made.
pub fn creating() -> Value {
    json!({ "phase": "Creating", "jobName": JOB, "checkpointID": "0123" })
}

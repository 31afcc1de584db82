//! Checkpoints of engine processes: pods that are captured, and pods that start from what was captured.
//!
//! An agent on the node takes and restores the processes of a container. It finds its task in a pod's labels and
//! annotations, and meets the engine in a folder of the pod. The agent is not ours: names and files here are its
//! protocol.
//!
//! Identifiers of checkpoints are computed in this file.
//!
//! | file | what |
//! |---|---|
//! | `storage` | where it is kept |
//! | `model` | configuration, storage, and how pods start, as data |
//! | `start` | from what is known, how pods start |
//! | `restore` | pods that start from one, and the folder in which agent and engine meet |
//! | `captured_pod` | the pod that is captured for a component of a graph |
//! | `capture` | the Job whose pod is captured |
//! | `cleanup` | the Job that removes what a checkpoint kept |

mod capture;
mod captured_pod;
mod cleanup;
mod model;
mod restore;
mod start;
mod storage;

use std::collections::BTreeMap;

use api_types::{labels, names, v1alpha1::DynamoCheckpoint, v1beta1::CheckpointIdentity};
use k8s_openapi::{
    api::batch::v1::{Job, JobSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::Serialize;

pub use self::{
    capture::{CaptureSettings, artifact_version, claims_of, render_capture_job},
    captured_pod::{CapturedComponent, check_shared_gpu_memory, render_captured_pod},
    cleanup::{DEFAULT_CLEANUP_IMAGE, render_cleanup_job},
    model::{
        CheckpointConfig, CheckpointStorage, DEFAULT_SECCOMP_PROFILE, FIRST_ARTIFACT, RestoreSource, Start,
        StorageSettings,
    },
    restore::{restore_pod, share_gpu_memory},
    start::{CheckpointFacts, start},
    storage::{StorageLocation, storage_of_agents},
};
use crate::go_json;

const DIGITS_OF_IDENTITY: usize = 16;
const DIGITS_OF_GRAPH: usize = 32;

/// A Job of a checkpoint, without owner. What fails is not tried again.
fn render_job(checkpoint: &DynamoCheckpoint, name: String, id: &str, spec: JobSpec) -> Job {
    let metadata = ObjectMeta {
        name: Some(name),
        namespace: checkpoint.metadata.namespace.clone(),
        labels: Some(BTreeMap::from([(labels::CHECKPOINT_ID.to_owned(), id.to_owned())])),
        ..ObjectMeta::default()
    };
    Job { metadata, spec: Some(JobSpec { backoff_limit: Some(0), ..spec }), status: None }
}

/// The identifier of a checkpoint: the one it has, else the digest of what it is of.
pub fn checkpoint_id(checkpoint: &DynamoCheckpoint) -> String {
    let status = checkpoint.status.as_ref();
    let given = [
        status.and_then(|status| status.checkpoint_id.as_ref()),
        status.and_then(|status| status.identity_hash.as_ref()),
        checkpoint.metadata.labels.as_ref().and_then(|all| all.get(labels::CHECKPOINT_ID)),
    ];
    let known = given.into_iter().flatten().find(|id| !id.is_empty());
    known.cloned().unwrap_or_else(|| identity_id(&checkpoint.spec.identity))
}

/// The identifier of the checkpoint that a graph makes of one revision of a worker.
pub fn graph_checkpoint_id(
    namespace: &str,
    graph: &str,
    graph_uid: &str,
    component: &str,
    revision: Option<&str>,
) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Worker<'a> {
        #[serde(skip_serializing_if = "str::is_empty")]
        namespace: &'a str,
        dgd_name: &'a str,
        #[serde(rename = "dgdUID", skip_serializing_if = "str::is_empty")]
        dgd_uid: &'a str,
        component_name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        worker_hash: Option<&'a str>,
    }
    let worker = Worker {
        namespace,
        dgd_name: graph,
        dgd_uid: graph_uid,
        component_name: component,
        worker_hash: revision.filter(|revision| !revision.is_empty()),
    };
    digest(&worker, DIGITS_OF_GRAPH)
}

/// The identifier of a checkpoint of this.
pub fn identity_id(identity: &CheckpointIdentity) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Normal<'a> {
        model: &'a str,
        backend_framework: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        dynamo_version: &'a str,
        tensor_parallel_size: i32,
        pipeline_parallel_size: i32,
        #[serde(skip_serializing_if = "str::is_empty")]
        dtype: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_model_len: Option<i32>,
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        extra_parameters: BTreeMap<&'a str, &'a str>,
    }
    let one_at_least = |size: i32| if size == 0 { 1 } else { size };
    let extra = identity.extra_parameters.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
    let normal = Normal {
        model: &identity.model,
        backend_framework: identity.backend_framework.as_str(),
        dynamo_version: identity.dynamo_version.as_deref().unwrap_or_default(),
        tensor_parallel_size: one_at_least(identity.tensor_parallel_size),
        pipeline_parallel_size: one_at_least(identity.pipeline_parallel_size),
        dtype: identity.dtype.as_deref().unwrap_or_default(),
        max_model_len: identity.max_model_len.filter(|length| *length != 0),
        extra_parameters: extra.collect(),
    };
    digest(&normal, DIGITS_OF_IDENTITY)
}

/// The first digits of the SHA-256 of a value, as Go writes it: checkpoints of both operators have the same
/// identifiers.
fn digest(value: &impl Serialize, digits: usize) -> String {
    names::sha256_hex(go_json::to_string(value).as_bytes(), digits)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn checkpoint(identity: Value, rest: Value) -> DynamoCheckpoint {
        let mut object = json!({"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoCheckpoint", "metadata": {},
            "spec": {"identity": identity, "job": {"podTemplateSpec": {}}}});
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn identities_have_the_identifiers_of_the_reference() {
        let qwen = json!({"model": "Qwen/Qwen3-0.6B", "backendFramework": "vllm", "tensorParallelSize": 1,
            "pipelineParallelSize": 1, "dtype": "bfloat16", "maxModelLen": 2048});
        assert_eq!(checkpoint_id(&checkpoint(qwen, json!({}))), "4da999bc6c673b97");
        let odd =
            json!({"model": "a<b>&c\u{2028}", "backendFramework": "sglang", "extraParameters": {"b": "2", "a": "1"}});
        let text = r#"{"model":"a\u003cb\u003e\u0026c\u2028","backendFramework":"sglang","tensorParallelSize":1,"pipelineParallelSize":1,"extraParameters":{"a":"1","b":"2"}}"#;
        assert_eq!(checkpoint_id(&checkpoint(odd, json!({}))), names::sha256_hex(text.as_bytes(), 16));
    }

    #[test]
    fn an_identifier_that_is_given_is_kept() {
        let identity = json!({"model": "m", "backendFramework": "vllm"});
        let labelled = json!({"metadata": {"labels": {"nvidia.com/snapshot-checkpoint-id": "of-label"}}});
        assert_eq!(checkpoint_id(&checkpoint(identity.clone(), labelled.clone())), "of-label");
        let mut older = labelled;
        older["status"] = json!({"checkpointID": "", "identityHash": "of-status"});
        assert_eq!(checkpoint_id(&checkpoint(identity, older)), "of-status");
    }

    #[test]
    fn each_revision_of_a_worker_has_a_checkpoint_of_its_own() {
        let text = r#"{"namespace":"ns","dgdName":"g","dgdUID":"u","componentName":"W","workerHash":"abcd1234"}"#;
        let id = graph_checkpoint_id("ns", "g", "u", "W", Some("abcd1234"));
        assert_eq!(id, names::sha256_hex(text.as_bytes(), 32));
        assert_ne!(id, graph_checkpoint_id("ns", "g", "u", "W", None));
    }
}

//! Plays the rest of the cluster: there is no kubelet and no Deployment controller, so the workloads are said to be
//! ready.

use std::path::Path;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use serde_json::{Value, json};

use super::server::Server;

const PARALLEL: usize = 8;
const LWS: (&str, &str) = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet");
/// A graph such as the profiler of a request would propose.
const PROFILED: &str = include_str!("profiled.yaml");

/// Makes all workloads ready in the namespaces that `ours` accepts. Says how many were not ready before.
pub(super) async fn make_ready(server: &Server, ours: impl Fn(&str) -> bool) -> Result<usize> {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut patches = Vec::new();
    for (api_version, kind) in [("apps/v1", "Deployment"), LWS, ("batch/v1", "Job")] {
        let Some(resource) = server.find(api_version, kind) else { continue };
        for object in server.list(resource).await? {
            let (namespace, name) = (text(&object, "/metadata/namespace"), text(&object, "/metadata/name"));
            if !ours(namespace) {
                continue;
            }
            let status = match kind {
                "Deployment" => deployment(&object, &now),
                "Job" => job(&object, &now),
                _ => leader_worker_set(&object, &now),
            };
            let Some(status) = status else { continue };
            if kind == "Job" {
                publish_profile(server, &object).await?;
            }
            let path = Path::new(&resource.path(Some(namespace), Some(name))).join("status");
            patches.push((path.to_string_lossy().into_owned(), json!({"status": status})));
        }
    }
    let done = stream::iter(patches).map(|(path, body)| async move {
        let answer = server.send(Method::PATCH, &path, Some(&body)).await?;
        if !answer.is_ok() {
            eprintln!("{path}: {}", answer.body);
        }
        anyhow::Ok(usize::from(answer.is_ok()))
    });
    done.buffer_unordered(PARALLEL).try_fold(0, async |sum, one| Ok(sum + one)).await
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn replicas(object: &Value) -> i64 {
    object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1)
}

fn generation(object: &Value) -> i64 {
    object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default()
}

fn has_conditions(object: &Value) -> bool {
    object.pointer("/status/conditions").and_then(Value::as_array).is_some_and(|conditions| !conditions.is_empty())
}

fn status_number(object: &Value, field: &str) -> Option<i64> {
    object.pointer("/status")?.get(field)?.as_i64()
}

/// The status of a Deployment that is rolled out, unless it has it.
fn deployment(object: &Value, now: &str) -> Option<Value> {
    let (replicas, generation) = (replicas(object), generation(object));
    let available = status_number(object, "availableReplicas").unwrap_or_default();
    let observed = status_number(object, "observedGeneration");
    if observed == Some(generation) && available == replicas && has_conditions(object) {
        return None;
    }
    let condition = |kind: &str, reason: &str| {
        json!({"type": kind, "status": "True", "reason": reason, "message": reason,
               "lastTransitionTime": now, "lastUpdateTime": now})
    };
    Some(json!({
        "observedGeneration": generation,
        "replicas": replicas,
        "updatedReplicas": replicas,
        "readyReplicas": replicas,
        "availableReplicas": replicas,
        "unavailableReplicas": null,
        "conditions": [
            condition("Available", "MinimumReplicasAvailable"),
            condition("Progressing", "NewReplicaSetAvailable"),
        ],
    }))
}

/// The status of a LeaderWorkerSet whose groups are ready, unless it has it.
fn leader_worker_set(object: &Value, now: &str) -> Option<Value> {
    let (replicas, generation) = (replicas(object), generation(object));
    let observed = status_number(object, "observedGeneration").unwrap_or(generation);
    if status_number(object, "readyReplicas") == Some(replicas) && has_conditions(object) && observed == generation {
        return None;
    }
    Some(json!({
        "replicas": replicas,
        "readyReplicas": replicas,
        "updatedReplicas": replicas,
        "observedGeneration": generation,
        "conditions": [{
            "type": "Available",
            "status": "True",
            "reason": "AllGroupsReady",
            "message": "All replicas are ready",
            "lastTransitionTime": now,
        }],
    }))
}

/// The status of a Job that has completed, unless it has.
fn job(object: &Value, now: &str) -> Option<Value> {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    if conditions.is_some_and(|conditions| conditions.iter().any(|condition| condition["type"] == "Complete")) {
        return None;
    }
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "CompletionsReached", "message": "",
               "lastTransitionTime": now, "lastProbeTime": now})
    };
    Some(json!({
        "startTime": now,
        "completionTime": now,
        "succeeded": 1,
        "active": 0,
        "ready": 0,
        "terminating": 0,
        "uncountedTerminatedPods": {},
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    }))
}

/// Leaves what the profiler of a request would leave before its Job completes.
async fn publish_profile(server: &Server, job: &Value) -> Result<()> {
    let owners = job.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let namespace = text(job, "/metadata/namespace");
    for owner in owners.filter(|owner| owner["kind"] == "DynamoGraphDeploymentRequest") {
        let name = owner["name"].as_str().unwrap_or_default();
        let mut owner = owner.clone();
        if let Some(owner) = owner.as_object_mut() {
            owner.insert("controller".to_owned(), true.into());
            owner.insert("blockOwnerDeletion".to_owned(), true.into());
        }
        let output = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": format!("dgdr-output-{name}"),
                "ownerReferences": [owner],
                "labels": {
                    "dgdr.nvidia.com/name": name,
                    "dgdr.nvidia.com/namespace": namespace,
                    "nvidia.com/managed-by": "dynamo-operator",
                },
            },
            "data": {"phase": "Done", "message": "done", "profiler_status": "success", "final_config.yaml": PROFILED},
        });
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        server.send(Method::POST, &path, Some(&output)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-02T03:04:05Z";

    /// Applies the play to an object, as the API server would merge it.
    fn played(mut object: Value, play: fn(&Value, &str) -> Option<Value>) -> Value {
        let status = play(&object, NOW).unwrap();
        object["status"] = status;
        object
    }

    #[test]
    fn a_workload_is_played_once_and_again_after_a_change() {
        for play in [deployment, leader_worker_set] {
            let mut object = played(json!({"metadata": {"generation": 1}, "spec": {"replicas": 2}}), play);
            assert_eq!(object["status"]["readyReplicas"], 2);
            assert_eq!(play(&object, NOW), None);
            object["metadata"]["generation"] = json!(2);
            object["spec"]["replicas"] = json!(3);
            assert_eq!(play(&object, NOW).unwrap()["readyReplicas"], 3);
        }
    }

    #[test]
    fn a_workload_without_replicas_has_one() {
        assert_eq!(deployment(&json!({"spec": {}}), NOW).unwrap()["replicas"], 1);
    }

    #[test]
    fn a_job_completes_once() {
        let object = played(json!({}), job);
        assert_eq!(job(&object, NOW), None);
    }
}

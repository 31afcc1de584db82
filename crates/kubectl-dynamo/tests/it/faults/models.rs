//! Models, checkpoints and requests.

use std::time::Duration;

use api_types::external::PodSnapshot;
use controller_kit::settings::OperatorConfiguration;
use kube::api::{Patch, PatchParams};
use model_controller::{
    Options,
    engine::{EngineLimits, apply::Dial},
};
use serde_json::{Value, json};
use test_cluster::{free_port, wait};

use super::{
    fault::{Fault, Step, fault, pod},
    harness::{LIMIT, Team},
    kubelet::Report,
    server,
};

/// A base model.
pub fn base() -> Value {
    json!({ "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoModel",
        "metadata": { "name": "base", "namespace": "NAMESPACE" },
        "spec": { "modelName": "org/base", "baseModelName": "org/base" } })
}

fn adapter() -> Value {
    json!({ "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoModel",
        "metadata": { "name": "lora", "namespace": "NAMESPACE" },
        "spec": { "modelName": "org/lora", "baseModelName": "org/base", "modelType": "lora",
            "source": { "uri": "s3://models/lora" } } })
}

fn checkpoint() -> Value {
    json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoCheckpoint",
        "metadata": { "name": "ckpt", "namespace": "NAMESPACE" },
        "spec": {
            "identity": { "model": "org/base", "backendFramework": "vllm" },
            "job": { "podTemplateSpec": { "spec": { "containers": [
                { "name": "main", "image": "registry.example.com/engine:1", "command": ["engine"] }] } } },
        },
    })
}

fn request(hardware: bool) -> Value {
    let mut request = json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentRequest",
        "metadata": { "name": "plan", "namespace": "NAMESPACE" },
        "spec": { "model": "org/base", "backend": "vllm", "image": "registry.example.com/planner:1" },
    });
    if hardware {
        request["spec"]["hardware"] = json!({ "gpuSku": "h100_sxm", "vramMb": 81920, "numGpusPerNode": 8,
            "totalGpus": 8, "interconnect": "nvlink", "rdma": false });
    }
    request
}

/// Runs the model controller for this namespace. Engines answer on a port of this process.
async fn run_models(team: &Team<'_>) {
    let engine = server::engine().await;
    let dial = Dial::through(move |_| ([127, 0, 0, 1], engine).into());
    let pace = EngineLimits {
        first_pause: Duration::from_millis(100),
        longest_pause: Duration::from_secs(1),
        ..EngineLimits::default()
    };
    team.controllers(OperatorConfiguration::default(), |all| {
        let context = all.context(model_controller::NAME, &team.client);
        tokio::spawn(async move { model_controller::run_with(context, Options { pace, dial }).await.unwrap() });
    });
}

/// Writes the report of a node agent for a failed capture.
async fn fail_capture(team: &Team<'_>) {
    let failed = json!({ "status": { "conditions": [{ "type": "Failed", "status": "True", "reason": "CaptureFailed",
        "message": "criu: no space left on device", "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
    let captures = team.api::<PodSnapshot>();
    let write = async || captures.patch_status("ckpt", &PatchParams::default(), &Patch::Merge(&failed)).await;
    wait::until("the PodSnapshot to be there", LIMIT, write).await.unwrap();
}

pub fn rows() -> Vec<Fault> {
    of_models().into_iter().chain(of_checkpoints()).chain(of_requests()).collect()
}

fn of_models() -> Vec<Fault> {
    vec![
        fault("no workers of the base model", "a model that no component serves")
            .before(Step::Do(|team| Box::pin(run_models(team))))
            .step(Step::Apply(base()))
            .is("NoServicesFound", "DynamoModel/base", "base model", "modelRef.name")
            .on("dynamomodel/base"),
        fault("adapter refused", "an adapter that the engines refuse to load")
            .before(Step::Do(|team| Box::pin(run_models(team))))
            .graph(|graph| graph["spec"]["components"][0]["modelRef"] = json!({ "name": "org/base" }))
            .step(Step::Apply(adapter()))
            .is("LoadFailed", "DynamoModel/lora", "no such repository", "spec.source.uri")
            .on("dynamomodel/lora"),
        fault(
            "NATS unreachable from the operator",
            "an address of NATS in the operator's configuration where nothing runs",
        )
        .step(Step::Do(|team| Box::pin(team.mark())))
        .step(Step::Do(|team| Box::pin(team.fenced())))
        .step(Step::Do(|team| {
            let mut settings = OperatorConfiguration::default();
            settings.infrastructure.nats_address = format!("nats://127.0.0.1:{}", free_port().unwrap());
            team.controllers(settings, |all| all.start(&team.client));
            Box::pin(async {})
        }))
        .is(
            "Unreachable",
            "DynamoGraphDeployment/chat",
            "NATS at nats://127.0.0.1",
            "check that NATS and etcd run",
        ),
    ]
}

fn of_checkpoints() -> Vec<Fault> {
    vec![
        fault("checkpoint: its pod fails", "a checkpoint whose engine ends with an error")
            .without_graph("checkpoint/ckpt")
            .step(Step::Nodes(Report::failed("Error", "engine ended").exited(1)))
            .apply(checkpoint())
            .is("JobFailed", "DynamoCheckpoint/ckpt", "failed", "snapshot-artifact-version"),
        fault("checkpoint: capture fails", "a checkpoint that the agent of the node cannot capture")
            .without_graph("checkpoint/ckpt")
            .step(Step::Nodes(Report::unready(
                true,
                1,
                "Readiness probe failed: HTTP probe failed with statuscode: 503",
            )))
            .apply(checkpoint())
            .step(Step::Do(|team| Box::pin(fail_capture(team))))
            .is("PodSnapshotFailed", "DynamoCheckpoint/ckpt", "no space left", "PodSnapshot"),
        fault("checkpoints switched off", "a checkpoint, and a configuration that does not enable them")
            .without_graph("checkpoint/ckpt")
            .before(Step::Do(|team| {
                Box::pin(async move {
                    team.mark().await;
                    team.fenced().await;
                    team.controllers(OperatorConfiguration::default(), |all| all.start(&team.client));
                })
            }))
            .apply(checkpoint())
            .is("CheckpointDisabled", "DynamoCheckpoint/ckpt", "heckpoints", "checkpoint.enabled"),
        fault("graph waits for a checkpoint that failed", "workers that start from a checkpoint whose pod fails")
            .step(Step::Nodes(Report::failed("Error", "engine ended").exited(1)))
            .apply(checkpoint())
            .edit(|graph| {
                graph["spec"]["components"][0]["experimental"] = json!({ "checkpoint": { "enabled": true,
                    "checkpointRef": "ckpt", "startupPolicy": "WaitForCheckpoint" } });
                pod(graph)["terminationGracePeriodSeconds"] = json!(30);
            })
            .is("JobFailed", "DynamoCheckpoint/ckpt", "failed", "snapshot-artifact-version"),
    ]
}

fn of_requests() -> Vec<Fault> {
    vec![
        fault("request without hardware", "a request that names no hardware, in a cluster that does not show it")
            .without_graph("dgdr/plan")
            .apply(request(false))
            .is("ValidationFailed", "DynamoGraphDeploymentRequest/plan", "hardware", "change the field"),
        fault("profiler fails", "a request whose profiler ends with an error")
            .without_graph("dgdr/plan")
            .step(Step::Nodes(Report::failed("Error", "profiler ended").exited(1)))
            .apply(request(true))
            .is(
                "CrashLoop",
                "Pod/profile-plan-",
                "container profiler ended with exit code 1",
                "kubectl logs profile-plan-",
            ),
        fault("image of the profiler missing", "a request whose profiler has an image that does not exist")
            .without_graph("dgdr/plan")
            .step(Step::Nodes(Report::pull("{image}: not found")))
            .apply(request(true))
            .is("ImageNotFound", "Pod/profile-plan-", "not found", "correct name and tag"),
    ]
}

//! DynamoCheckpoints.

use serde_json::{Value, json};
use webhook_server::admission::Facts;

use crate::support::*;

fn enabled() -> Facts {
    facts_with(|features| features.checkpoint = true)
}

fn user(name: &str) -> Value {
    json!({
        "name": name, "image": "vllm:1.5.0",
        "env": [{ "name": "GMS_SOCKET_DIR", "value": "/gms-intrapod-control" }],
        "volumeMounts": [{ "name": "gms-intrapod-control", "mountPath": "/gms-intrapod-control" }],
        "resources": { "claims": [{ "name": "intrapod-shared-gpu" }] },
    })
}

fn checkpoint() -> Value {
    json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoCheckpoint",
        "metadata": { "name": "warm", "namespace": "team" },
        "spec": {
            "identity": { "model": "m", "backendFramework": "vllm" },
            "gpuMemoryService": { "enabled": true, "mode": "intraPod", "extraClientContainers": ["side"] },
            "job": { "podTemplateSpec": { "spec": {
                "volumes": [{ "name": "gms-intrapod-control", "emptyDir": {} }],
                "resourceClaims": [{ "name": "intrapod-shared-gpu" }],
                "initContainers": [user("gms-server")],
                "containers": [user("main"), user("side"), { "name": "other" }],
            } } },
        },
    })
}

#[test]
fn checkpoints_are_switched_on_first() {
    assert_eq!(violations(&create(&checkpoint(), &facts())), ["Forbidden spec"]);
    // What exists may be changed all the same.
    let relabelled = edited(&checkpoint(), |c| c["spec"]["job"]["activeDeadlineSeconds"] = json!(7));
    assert_eq!(violations(&update(&checkpoint(), &relabelled, &facts())), ["Forbidden spec"]);
    let labelled = edited(&checkpoint(), |c| c["metadata"]["labels"] = json!({ "a": "b" }));
    assert_eq!(violations(&update(&checkpoint(), &labelled, &facts())), Vec::<String>::new());
}

#[test]
fn pods_that_share_memory_are_prepared() {
    creates(
        &checkpoint(),
        &enabled(),
        &[
            (
                "client",
                |c| c["spec"]["gpuMemoryService"]["extraClientContainers"] = json!(["sidecar"]),
                &["Invalid spec.gpuMemoryService.extraClientContainers[0]"],
            ),
            (
                "pod",
                |c| {
                    let pod = &mut c["spec"]["job"]["podTemplateSpec"]["spec"];
                    for field in ["volumes", "resourceClaims", "initContainers"] {
                        pod[field] = json!(null);
                    }
                },
                &[
                    "Required spec.job.podTemplateSpec.spec.volumes",
                    "Required spec.job.podTemplateSpec.spec.initContainers",
                    "Required spec.job.podTemplateSpec.spec.resourceClaims",
                ],
            ),
            (
                "containers",
                |c| {
                    let pod = &mut c["spec"]["job"]["podTemplateSpec"]["spec"];
                    pod["initContainers"][0]["volumeMounts"][0]["mountPath"] = json!("/tmp");
                    pod["containers"][0]["env"][0]["value"] = json!("/tmp");
                    pod["containers"][1]["resources"] = json!({});
                },
                &[
                    "Required spec.job.podTemplateSpec.spec.initContainers[0].volumeMounts",
                    "Required spec.job.podTemplateSpec.spec.containers[0].env",
                    "Required spec.job.podTemplateSpec.spec.containers[1].resources.claims",
                ],
            ),
            (
                "target",
                |c| c["spec"]["job"]["targetContainerName"] = json!("engine"),
                &["Invalid spec.job.targetContainerName"],
            ),
            (
                "default target",
                |c| c["spec"]["job"]["podTemplateSpec"]["spec"]["containers"][0]["name"] = json!("engine"),
                &["Required spec.job.podTemplateSpec.spec.containers"],
            ),
            ("no memory", |c| c["spec"]["gpuMemoryService"]["enabled"] = json!(false), &[]),
        ],
    );
}

#[test]
fn fields_without_effect_are_warned_about() {
    let checkpoint = edited(&checkpoint(), |c| c["spec"]["job"]["backoffLimit"] = json!(3));
    assert_eq!(warnings(&create(&checkpoint, &enabled())), ["spec.job.backoffLimit: ignored; remove it"]);
}

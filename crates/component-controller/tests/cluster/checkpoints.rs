//! Components that start from a checkpoint.

use crate::bed::{Bed, component, condition};
use api_types::v1alpha1::DynamoCheckpoint;
use api_types::v1beta1::DynamoComponentDeployment;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::PersistentVolumeClaim};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

const SETTINGS: &str = "{enabled: true, storage: {pvc: {pvcName: checkpoints, basePath: /checkpoints, create: true, \
                        size: 1Gi}}}";

fn waiting() -> Value {
    let mut waiting = component();
    waiting["spec"]["experimental"] =
        json!({ "checkpoint": { "enabled": true, "checkpointRef": "ckpt", "startupPolicy": "WaitForCheckpoint" } });
    waiting
}

fn checkpoint() -> Value {
    let container = json!({ "name": "main", "image": "registry.example/vllm:1.5.0", "command": ["engine"] });
    json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoCheckpoint", "metadata": { "name": "ckpt" },
        "spec": {
            "identity": { "model": "m", "backendFramework": "vllm" },
            "job": { "podTemplateSpec": { "spec": { "containers": [container] } } },
        },
    })
}

fn template_labels(deployment: &Deployment) -> Value {
    json!(deployment.spec.as_ref().unwrap().template.metadata.as_ref().unwrap().labels)
}

#[tokio::test]
async fn pods_come_with_their_checkpoint_and_the_claim_that_keeps_it_stays() {
    let mut bed = Bed::without_controller("checkpoint").await;
    bed.settings().checkpoint = serde_saphyr::from_str(SETTINGS).unwrap();
    bed.start();
    bed.apply::<DynamoComponentDeployment>(&waiting()).await;
    let held = bed.until::<Deployment>("held back", |d| d.spec.as_ref().unwrap().replicas == Some(0)).await;
    assert_eq!(template_labels(&held)["nvidia.com/snapshot-is-restore-target"], Value::Null);
    let told = bed.until_condition("Ready", "False", "ComponentNotReady").await;
    let message = condition(&told, "Ready").unwrap().2;
    assert!(message.contains("DynamoCheckpoint") && message.contains("/ckpt"), "{message}");
    let claim: PersistentVolumeClaim = bed.api().get("checkpoints").await.unwrap();
    assert_eq!(claim.metadata.owner_references, None, "checkpoints outlive who needed them first");

    bed.apply::<DynamoCheckpoint>(&checkpoint()).await;
    let ready = json!({ "status": { "phase": "Ready", "checkpointID": "0123456789abcdef" } });
    let params = PatchParams::default();
    bed.api::<DynamoCheckpoint>().patch_status("ckpt", &params, &Patch::Merge(&ready)).await.unwrap();
    let restored = bed.until::<Deployment>("restored", |d| d.spec.as_ref().unwrap().replicas != Some(0)).await;
    assert_eq!(template_labels(&restored)["nvidia.com/snapshot-checkpoint-id"], "0123456789abcdef");
    // No volume is ever provisioned here, so its pods stay pending.
    bed.until_condition("Ready", "False", "ComponentNotReady").await;

    let before = bed.deployment().await;
    bed.until_reconciled().await;
    assert_eq!(bed.deployment().await.metadata.generation, before.metadata.generation);
    bed.delete(kube::api::PropagationPolicy::Foreground).await;
    assert!(bed.api::<PersistentVolumeClaim>().get_opt("checkpoints").await.unwrap().is_some());
}

#[tokio::test]
async fn without_checkpoints_switched_on_pods_start_cold() {
    let bed = Bed::new("cold").await;
    bed.apply::<DynamoComponentDeployment>(&waiting()).await;
    bed.until_ready().await;
    assert_ne!(bed.deployment().await.spec.unwrap().replicas, Some(0));
}

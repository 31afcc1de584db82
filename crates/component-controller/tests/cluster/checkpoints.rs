//! Checkpoints, and components that start from them.

use api_types::{
    annotations,
    external::PodSnapshot,
    v1alpha1::{CheckpointPhase, DynamoCheckpoint},
    v1beta1::DynamoComponentDeployment,
};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    batch::v1::Job,
    core::v1::{Namespace, PersistentVolumeClaim, Pod},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use test_cluster::wait;

use crate::harness::{Harness, LIMIT, component, condition, uid};

const SETTINGS: &str = "{enabled: true, storage: {pvc: {pvcName: checkpoints, basePath: /checkpoints, create: true, \
                        size: 1Gi}}}";

fn waiting() -> Value {
    let mut waiting = component();
    waiting["spec"]["experimental"] =
        json!({ "checkpoint": { "enabled": true, "checkpointRef": "ckpt", "startupPolicy": "WaitForCheckpoint" } });
    waiting
}

pub fn checkpoint() -> Value {
    let container = json!({ "name": "main", "image": "registry.example/vllm:1.5.0", "command": ["engine"] });
    json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoCheckpoint", "metadata": { "name": "ckpt" },
        "spec": {
            "identity": { "model": "m", "backendFramework": "vllm" },
            "job": { "podTemplateSpec": { "spec": { "containers": [container] } } },
        },
    })
}

/// One that a graph made and takes with it, with the finalizer that it has from then on.
fn automatic() -> Value {
    let mut automatic = checkpoint();
    automatic["metadata"]["labels"] = json!({ "nvidia.com/snapshot-checkpoint-id": "0123456789abcdef" });
    automatic["metadata"]["annotations"] = json!({ "nvidia.com/dynamo-auto-checkpoint": "true" });
    automatic["metadata"]["finalizers"] = json!(["nvidia.com/finalizer"]);
    // Fake nodes let a pod of a Job end at once: it runs when `let_pods_run` says so.
    automatic["spec"]["job"]["podTemplateSpec"]["spec"]["schedulingGates"] =
        json!([{ "name": "example.com/captured" }]);
    automatic
}

/// Lets the pods of a Job be scheduled.
async fn let_pods_run(harness: &Harness, job: &str) {
    let pods = harness.api::<Pod>();
    let of_job = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={job}"));
    for pod in pods.list(&of_job).await.unwrap().items {
        let patch = json!({ "spec": { "schedulingGates": null } });
        pods.patch(&pod.metadata.name.unwrap(), &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }
}

fn template_labels(deployment: &Deployment) -> Value {
    json!(deployment.spec.as_ref().unwrap().template.metadata.as_ref().unwrap().labels)
}

#[tokio::test]
async fn pods_come_with_their_checkpoint_and_the_claim_that_keeps_it_stays() {
    let mut harness = Harness::without_controller("checkpoint").await;
    harness.settings().checkpoint = serde_saphyr::from_str(SETTINGS).unwrap();
    harness.start();
    harness.apply::<DynamoComponentDeployment>(&waiting()).await;
    let held = harness.until::<Deployment>("held back", |d| d.spec.as_ref().unwrap().replicas == Some(0)).await;
    assert_eq!(template_labels(&held)["nvidia.com/snapshot-is-restore-target"], Value::Null);
    let reported = harness.until_condition("Ready", "False", "ComponentNotReady").await;
    let message = condition(&reported, "Ready").unwrap().2;
    assert!(message.contains("DynamoCheckpoint") && message.contains("/ckpt"), "{message}");
    let claim: PersistentVolumeClaim = harness.api().get("checkpoints").await.unwrap();
    assert_eq!(claim.metadata.owner_references, None, "checkpoints outlive who needed them first");

    harness.apply::<DynamoCheckpoint>(&checkpoint()).await;
    let ready = json!({ "status": { "phase": "Ready", "checkpointID": "0123456789abcdef" } });
    let params = PatchParams::default();
    harness.api::<DynamoCheckpoint>().patch_status("ckpt", &params, &Patch::Merge(&ready)).await.unwrap();
    let restored = harness.until::<Deployment>("restored", |d| d.spec.as_ref().unwrap().replicas != Some(0)).await;
    assert_eq!(template_labels(&restored)["nvidia.com/snapshot-checkpoint-id"], "0123456789abcdef");
    // No volume is ever provisioned here, so its pods stay pending.
    harness.until_condition("Ready", "False", "ComponentNotReady").await;

    let before = harness.deployment().await;
    harness.until_reconciled().await;
    assert_eq!(harness.deployment().await.metadata.generation, before.metadata.generation);
    harness.delete(kube::api::PropagationPolicy::Foreground).await;
    assert!(harness.api::<PersistentVolumeClaim>().get_opt("checkpoints").await.unwrap().is_some());
}

#[tokio::test]
async fn without_checkpoints_switched_on_pods_start_cold() {
    let harness = Harness::new("cold").await;
    harness.apply::<DynamoComponentDeployment>(&waiting()).await;
    harness.until_ready().await;
    assert_ne!(harness.deployment().await.spec.unwrap().replicas, Some(0));
}

/// Without storage of an administrator's: pods need no volume, and come up on the fake nodes.
pub const PLAIN: &str = "{enabled: true, cleanupImage: registry.example/shell:1}";
const JOB: &str = "checkpoint-job-0123456789abcdef-1";

pub async fn until<K>(harness: &Harness, name: &str, what: &str, fits: impl Fn(Option<&K>) -> bool) -> Option<K>
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + serde::de::DeserializeOwned
        + serde::Serialize
        + std::fmt::Debug,
{
    let api = harness.api::<K>();
    let look = async || match api.get_opt(name).await {
        Ok(found) if fits(found.as_ref()) => Ok(found),
        Ok(found) => Err(serde_json::to_string(&found).unwrap()),
        Err(error) => Err(error.to_string()),
    };
    wait::until(format!("{} {name} to be {what}", K::kind(&())), LIMIT, look).await.unwrap()
}

pub fn phase(checkpoint: &DynamoCheckpoint) -> Option<CheckpointPhase> {
    checkpoint.status.as_ref().and_then(|status| status.phase)
}

/// Acts as the snapshot operator after the agent has captured the pod.
async fn set_captured(harness: &Harness) {
    let ready = json!([{ "type": "Ready", "status": "True", "reason": "Captured", "message": "captured",
        "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
    let status = json!({ "status": { "boundSnapshotContentName": "content", "conditions": ready } });
    let captures = harness.api::<PodSnapshot>();
    captures.patch_status("ckpt", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
}

#[tokio::test]
async fn a_checkpoint_is_ready_when_its_pod_is_captured_and_its_job_has_ended() {
    let mut harness = Harness::without_controller("capture").await;
    harness.settings().checkpoint = serde_saphyr::from_str(PLAIN).unwrap();
    harness.start();
    harness.apply::<DynamoCheckpoint>(&automatic()).await;
    let job = until::<Job>(&harness, JOB, "there", |job| job.is_some()).await.unwrap();
    let capture = until::<PodSnapshot>(&harness, "ckpt", "there", |capture| capture.is_some()).await.unwrap();
    assert_eq!(capture.spec.source.pod_ref.containers, ["main"]);
    assert!(capture.spec.source.pod_ref.name.starts_with(&job.metadata.name.unwrap()));
    set_captured(&harness).await;
    let_pods_run(&harness, JOB).await;
    until::<DynamoCheckpoint>(&harness, "ckpt", "ready", |c| phase(c.unwrap()) == Some(CheckpointPhase::Ready)).await;
    until::<Job>(&harness, JOB, "gone", |job| job.is_none()).await;

    // Foreground deletion removes children while they work: what removes the artifact is none.
    let params = DeleteParams::foreground();
    harness.api::<DynamoCheckpoint>().delete("ckpt", &params).await.unwrap();
    until::<DynamoCheckpoint>(&harness, "ckpt", "gone", |found| found.is_none()).await;
    let warned = format!(
        "ArtifactLeft not removed: artifact 0123456789abcdef: the operator's configuration names no \
                          checkpoint.storage.pvc, and namespace {} has no agent whose DaemonSet mounts a claim for \
                          checkpoints",
        harness.namespace
    );
    let reported = [
        warned,
        "CheckpointReady pods can start from it".to_owned(),
        format!("Created created Job {}/{JOB}", harness.namespace),
        format!("PodSnapshotCreated created PodSnapshot {}/ckpt", harness.namespace),
    ];
    harness.until_recorded(&reported).await;
}

#[tokio::test]
async fn another_version_of_a_checkpoint_is_captured_in_place_of_the_first() {
    let mut harness = Harness::without_controller("recapture").await;
    harness.settings().checkpoint = serde_saphyr::from_str(PLAIN).unwrap();
    harness.start();
    harness.apply::<DynamoCheckpoint>(&automatic()).await;
    let first = until::<PodSnapshot>(&harness, "ckpt", "there", |capture| capture.is_some()).await.unwrap();
    set_captured(&harness).await;
    let_pods_run(&harness, JOB).await;
    until::<DynamoCheckpoint>(&harness, "ckpt", "ready", |c| phase(c.unwrap()) == Some(CheckpointPhase::Ready)).await;

    let mut another = automatic();
    another["metadata"]["annotations"][annotations::ARTIFACT_VERSION] = json!("2");
    harness.apply::<DynamoCheckpoint>(&another).await;
    let other = |capture: Option<&PodSnapshot>| capture.is_some_and(|capture| uid(capture) != uid(&first));
    until::<PodSnapshot>(&harness, "ckpt", "another", other).await;
    set_captured(&harness).await;
    let_pods_run(&harness, "checkpoint-job-0123456789abcdef-2").await;
    let ready = |found: Option<&DynamoCheckpoint>| {
        let status = found.unwrap().status.as_ref();
        phase(found.unwrap()) == Some(CheckpointPhase::Ready)
            && status.and_then(|status| status.job_name.as_deref()) == Some("checkpoint-job-0123456789abcdef-2")
    };
    until::<DynamoCheckpoint>(&harness, "ckpt", "ready again", ready).await;
}

fn started(job: Option<&Job>) -> Option<Value> {
    job?.status.as_ref()?.start_time.as_ref().map(|time| json!(time))
}

#[tokio::test]
async fn what_a_graphs_checkpoint_kept_is_removed_before_it_goes() {
    let mut harness = Harness::without_controller("cleanup").await;
    harness.settings().checkpoint = serde_saphyr::from_str(PLAIN).unwrap();
    let agent = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": { "name": "agent", "labels": { "app.kubernetes.io/component": "snapshot-agent" } },
        "spec": { "selector": { "matchLabels": { "a": "b" } }, "template": {
            "metadata": { "labels": { "a": "b" } },
            "spec": { "nodeSelector": { "nowhere": "true" },
                "containers": [{ "name": "agent", "image": "registry.example/agent:1",
                    "volumeMounts": [{ "name": "checkpoints", "mountPath": "/checkpoints" }] }],
                "volumes": [{ "name": "checkpoints", "persistentVolumeClaim": { "claimName": "kept" } }] } } },
    });
    harness.apply::<DaemonSet>(&agent).await;
    harness.apply::<DynamoCheckpoint>(&automatic()).await;
    harness.start();
    harness.api::<DynamoCheckpoint>().delete("ckpt", &DeleteParams::foreground()).await.unwrap();
    let name = "checkpoint-cleanup-0123456789abcdef";
    let job = until::<Job>(&harness, name, "there", |job| job.is_some()).await.unwrap();
    assert_eq!(job.metadata.owner_references, None);
    assert!(harness.api::<DynamoCheckpoint>().get_opt("ckpt").await.unwrap().is_some(), "it waits for the Job");
    // Nothing provisions volumes here, so the Job's pod never runs; the test reports that it has done its work.
    let job = until::<Job>(&harness, name, "begun", |job| started(job).is_some()).await;
    let now = started(job.as_ref()).unwrap();
    let done = |type_: &str| json!({ "type": type_, "status": "True", "lastTransitionTime": now });
    let status = json!({ "status": { "startTime": now, "completionTime": now, "succeeded": 1, "active": 0,
        "uncountedTerminatedPods": {}, "conditions": [done("SuccessCriteriaMet"), done("Complete")] } });
    harness.api::<Job>().patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    until::<DynamoCheckpoint>(&harness, "ckpt", "gone", |found| found.is_none()).await;
    until::<Job>(&harness, name, "gone", |job| job.is_none()).await;
}

/// In a namespace that is also deleted, no Job can be created that would remove the data that a checkpoint kept.
#[tokio::test]
async fn a_checkpoint_does_not_hold_up_its_namespace() {
    let mut harness = Harness::without_controller("going").await;
    harness.settings().checkpoint = serde_saphyr::from_str(SETTINGS).unwrap();
    harness.with_rights_from_outside();
    harness.apply::<DynamoCheckpoint>(&automatic()).await;
    let namespaces: Api<Namespace> = Api::all(harness.client.clone());
    namespaces.delete(&harness.namespace, &DeleteParams::default()).await.unwrap();
    let is_going = |found: Option<&DynamoCheckpoint>| found.unwrap().metadata.deletion_timestamp.is_some();
    until::<DynamoCheckpoint>(&harness, "ckpt", "going with its namespace", is_going).await;
    harness.start();
    until::<DynamoCheckpoint>(&harness, "ckpt", "gone", |found| found.is_none()).await;
}

#[tokio::test]
async fn a_quota_that_rejects_a_checkpoint_is_reported_with_its_message() {
    let mut harness = Harness::without_controller("checkpoint-quota").await;
    harness.settings().checkpoint = serde_saphyr::from_str(SETTINGS).unwrap();
    harness.quota(json!({ "persistentvolumeclaims": "0", "pods": "0" })).await;
    harness.apply::<DynamoCheckpoint>(&checkpoint()).await;
    harness.start();
    let reported = async |expected: CheckpointPhase, refused: &str, kind: &str| {
        let words = format!("{refused} is forbidden: exceeded quota: none, requested: {kind}=1");
        let says = |found: Option<&DynamoCheckpoint>| {
            let message = found.and_then(|found| found.status.as_ref()?.message.as_deref());
            phase(found.unwrap()) == Some(expected) && message.is_some_and(|message| message.contains(&words))
        };
        until::<DynamoCheckpoint>(&harness, "ckpt", &words, says).await;
    };
    reported(CheckpointPhase::Pending, "\"checkpoints\"", "persistentvolumeclaims").await;
    assert!(harness.api::<Job>().list(&ListParams::default()).await.unwrap().items.is_empty());
    harness.quota(json!({ "pods": "0" })).await;
    // Each attempt is for a pod of another name, and the words stay the same.
    reported(CheckpointPhase::Creating, "a pod", "pods").await;
}

/// Found defect: a pod that had ended and lost its Job counted as being captured, and kept the artifact from being
/// removed.
#[tokio::test]
async fn a_pod_that_has_ended_does_not_hold_up_a_deletion() {
    let mut harness = Harness::without_controller("ended").await;
    harness.settings().checkpoint = serde_saphyr::from_str(SETTINGS).unwrap();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "orphan", "labels": {
            "nvidia.com/snapshot-is-checkpoint-source": "true", "nvidia.com/snapshot-owner": "ckpt" } },
        "spec": { "schedulerName": "none", "restartPolicy": "Never", "containers": [{ "name": "main", "image": "i" }] },
    });
    harness.apply::<Pod>(&pod).await;
    harness.apply::<DynamoCheckpoint>(&automatic()).await;
    harness.start();
    harness.api::<DynamoCheckpoint>().delete("ckpt", &DeleteParams::foreground()).await.unwrap();
    let name = "checkpoint-cleanup-0123456789abcdef";
    let settled = async || (harness.counter("reconcile_total") > 0).then_some(());
    wait::until("a reconcile", LIMIT, settled).await.unwrap();
    assert!(harness.api::<Job>().get_opt(name).await.unwrap().is_none(), "a pod that runs is waited for");
    let ended = json!({ "status": { "phase": "Succeeded" } });
    harness.api::<Pod>().patch_status("orphan", &PatchParams::default(), &Patch::Merge(&ended)).await.unwrap();
    until::<Job>(&harness, name, "there", |job| job.is_some()).await;
}

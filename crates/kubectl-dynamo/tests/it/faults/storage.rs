//! Claims and volumes. What binds claims is the real controller; no provisioner and no CSI driver runs.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use test_cluster::wait;

use super::{
    fault::{Fault, Step, fault, pod},
    harness::{LIMIT, Team},
    kubelet::Report,
};

const CLAIM: &str = "PersistentVolumeClaim/models";

fn mount(graph: &mut Value) {
    pod(graph)["volumes"] = json!([{ "name": "models", "persistentVolumeClaim": { "claimName": "models" } }]);
}

fn claim(spec: Value) -> Value {
    let mut all = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": "models", "namespace": "NAMESPACE" }, "spec": all })
}

/// A volume that is reserved for the claim, and the claim.
fn bound(spec: Value) -> Step {
    let mut all = json!({ "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
        "storageClassName": "", "persistentVolumeReclaimPolicy": "Retain", "hostPath": { "path": "/models" },
        "claimRef": { "namespace": "NAMESPACE", "name": "models" } });
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let volume = json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "NAMESPACE-models" },
        "spec": all });
    Step::Apply(json!([volume, claim(json!({ "storageClassName": "", "volumeName": "NAMESPACE-models" }))]))
}

async fn until_phase(team: &Team<'_>, phase: &str) {
    let claims = team.api::<PersistentVolumeClaim>();
    let look = async || {
        let claim = claims.get("models").await.map_err(|error| error.to_string())?;
        let now = claim.status.and_then(|status| status.phase).unwrap_or_default();
        if now == phase { Ok(()) } else { Err(now) }
    };
    wait::until(format!("the claim to be {phase}"), LIMIT, look).await.unwrap();
}

const BOUND: Step = Step::Do(|team| Box::pin(until_phase(team, "Bound")));

pub fn rows() -> Vec<Fault> {
    vec![
        fault("claim missing", "a volume of a claim that does not exist").edit(mount).is(
            "ClaimMissing",
            CLAIM,
            "does not exist",
            "create the claim",
        ),
        fault("storage class missing", "a claim of a storage class that does not exist")
            .before(Step::Apply(claim(json!({ "storageClassName": "fast" }))))
            .edit(mount)
            .is("StorageClassMissing", CLAIM, "StorageClass fast does not exist", "create the StorageClass"),
        fault("no default storage class", "a claim without a class, in a cluster without a default one")
            .before(Step::Apply(claim(json!({}))))
            .edit(mount)
            .is("NoStorageClass", CLAIM, "names no StorageClass", "name a storageClassName"),
        fault("provisioning failed", "a claim whose provisioner has no space left")
            .before(Step::Apply(json!([
                { "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "NAMESPACE-disks" },
                    "provisioner": "disks.example.com" },
                claim(json!({ "storageClassName": "NAMESPACE-disks" })),
            ])))
            .apply(json!({
                "apiVersion": "v1", "kind": "Event", "metadata": { "name": "models.1", "namespace": "NAMESPACE" },
                "type": "Warning", "reason": "ProvisioningFailed", "count": 4,
                "message": "failed to provision volume with StorageClass \"NAMESPACE-disks\": rpc error: code = \
                            ResourceExhausted desc = no space in the pool",
                "source": { "component": "disks.example.com_provisioner" },
                "involvedObject": { "apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "models",
                    "namespace": "NAMESPACE" },
            }))
            .edit(mount)
            .is("ProvisioningFailed", CLAIM, "no space in the pool", "provisioner of the storage class"),
        fault("volume lost", "the volume of a bound claim is deleted, and the workers are started again")
            .before(bound(json!({})))
            .before(BOUND)
            .graph(mount)
            .step(Step::Do(|team| {
                Box::pin(async move {
                    let volumes: Api<PersistentVolume> = Api::all(team.client.clone());
                    let name = format!("{}-models", team.namespace);
                    volumes.delete(&name, &DeleteParams::default()).await.unwrap();
                    let free = json!({ "metadata": { "finalizers": null } });
                    volumes.patch(&name, &PatchParams::default(), &Patch::Merge(&free)).await.unwrap();
                    until_phase(team, "Lost").await;
                })
            }))
            .step(Step::Restart)
            .is("ClaimLost", CLAIM, "has lost its volume", "restore the volume"),
        fault("volume in another zone", "a volume of a zone in which there is no node")
            .before(bound(json!({ "nodeAffinity": { "required": { "nodeSelectorTerms": [
                { "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["b"] }] }] } } })))
            .before(BOUND)
            .edit(mount)
            .is("VolumeElsewhere", "Pod/chat-decode-", "node affinity", "another zone"),
        fault("volume in use", "a volume that another node holds")
            .pods(Report::creating(
                "FailedAttachVolume",
                "Multi-Attach error for volume \"pvc-0b7c\" Volume is already used by pod(s) chat-decode-0",
            ))
            .is("VolumeInUse", "Pod/chat-decode-", "Multi-Attach error", "ReadWriteMany"),
    ]
}

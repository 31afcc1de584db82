//! Faults of images and of scheduling.

use serde_json::json;

use super::{
    Row,
    fixtures::{POD, image, node, select, unschedulable, waiting, warn},
    row,
};
use crate::diagnosis::DiagnosisInputs;

const AT_POD: &str = "Pod/chat-decode-a";

/// Images.
pub fn images() -> Vec<Row> {
    vec![
        row("image missing", |o| image(o, "r/engine:1: not found"), "ImageNotFound", AT_POD, "correct name and tag"),
        row(
            "image in a manifest list of another architecture",
            |o| image(o, "no match for platform in manifest"),
            "ImageArchitecture",
            AT_POD,
            "architecture",
        ),
        row(
            "image name invalid",
            |o| waiting(o, "InvalidImageName", "couldn't parse image name \"r/engine:\""),
            "ImageNameInvalid",
            AT_POD,
            "correct the name",
        ),
        row(
            "image never pulled",
            |o| waiting(o, "ErrImageNeverPull", "Container image \"x\" is not present with pull policy of Never"),
            "ImageNeverPulled",
            AT_POD,
            "IfNotPresent",
        ),
        row(
            "registry login",
            |o| image(o, "failed to authorize: 401 Unauthorized"),
            "RegistryLogin",
            AT_POD,
            "imagePullSecrets",
        ),
        row(
            "registry unknown",
            |o| image(o, "dial tcp: lookup r.example: no such host"),
            "RegistryUnreachable",
            AT_POD,
            "reach the registry",
        ),
        row(
            "registry away",
            |o| image(o, "dial tcp 10.0.0.9:443: connect: connection refused"),
            "RegistryUnreachable",
            AT_POD,
            "reach the registry",
        ),
        row(
            "registry certificate",
            |o| image(o, "x509: certificate signed by unknown authority"),
            "RegistryCertificate",
            AT_POD,
            "trust the CA",
        ),
        row("registry rate limit", |o| image(o, "429 Too Many Requests"), "RegistryRateLimit", AT_POD, "mirror"),
        row(
            "registry without TLS",
            |o| image(o, "server gave HTTP response to HTTPS client"),
            "RegistryWithoutTls",
            AT_POD,
            "container runtime",
        ),
        row(
            "pull secret missing",
            |o| {
                image(o, "pull access denied, repository does not exist or may require authorization");
                o.secrets.insert("registry".to_owned(), false);
            },
            "PullSecretMissing",
            "Secret/registry",
            "dockerconfigjson",
        ),
        row(
            "image missing, and the pull secret as well",
            |o| {
                image(o, "r/engine:1: not found");
                o.secrets.insert("registry".to_owned(), false);
            },
            "ImageNotFound",
            AT_POD,
            "if it is private, create the Secret registry",
        ),
        row(
            "cause of a failed pull in an event only",
            |o| {
                waiting(o, "ImagePullBackOff", "Back-off pulling image \"r/engine:1\"");
                warn(o, "Pod", POD, "Failed", "Failed to pull image \"r/engine:1\": manifest unknown");
            },
            "ImageNotFound",
            AT_POD,
            "push the image",
        ),
    ]
}

/// Sets the scheduler's message for a pod that selects a pool, in a cluster with other nodes.
fn unplaced(observed: &mut DiagnosisInputs, pool: &str) {
    select(observed, pool);
    unschedulable(
        observed,
        "0/3 nodes are available: 1 node(s) were unschedulable, 1 node(s) didn't match Pod's node affinity/selector, 1 \
         node(s) had untolerated taint(s).",
    );
    node(observed, "", "node-role.kubernetes.io/control-plane", false);
}

/// Scheduling where the words name several reasons.
pub fn open_placement() -> Vec<Row> {
    vec![
        row(
            "selector that no node fits",
            |o| {
                unplaced(o, "h300");
                node(o, "a100", "team", false);
                node(o, "a100", "", true);
            },
            "NodeSelector",
            AT_POD,
            "correct nodeSelector",
        ),
        row(
            "taint of the selected nodes",
            |o| {
                unplaced(o, "a100");
                node(o, "a100", "team", false);
                node(o, "other", "", true);
            },
            "Taint",
            AT_POD,
            "toleration",
        ),
        row(
            "selected nodes cordoned",
            |o| {
                unplaced(o, "a100");
                node(o, "a100", "", true);
                node(o, "other", "team", false);
            },
            "NodesCordoned",
            AT_POD,
            "uncordon",
        ),
        row(
            "selected node under pressure",
            |o| {
                unplaced(o, "a100");
                node(o, "a100", "node.kubernetes.io/disk-pressure", false);
                o.nodes.as_mut().unwrap()[1].pressures = vec!["DiskPressure".to_owned()];
            },
            "NodePressure",
            "Node/node-2",
            "free disk space",
        ),
        row(
            "selected node not ready",
            |o| {
                unplaced(o, "a100");
                node(o, "a100", "node.kubernetes.io/not-ready", false);
            },
            "NodeLost",
            "Node/node-2",
            "start the node again",
        ),
        row(
            "GPUs taken beside the taint of the control plane",
            |o| {
                let words =
                    "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint(s).";
                unschedulable(o, words);
                node(o, "", "node-role.kubernetes.io/control-plane", false);
                node(o, "", "", false);
            },
            "NoGpu",
            AT_POD,
            "add nodes with GPUs",
        ),
        row(
            "too many pods beside a taint",
            |o| unschedulable(o, "0/2 nodes are available: 1 Too many pods, 1 node(s) had untolerated taint(s)."),
            "TooManyPods",
            AT_POD,
            "kubelet",
        ),
        row(
            "device claim missing",
            |o| {
                let pod = &mut o.pods[1];
                let spec = pod.spec.as_mut().unwrap();
                spec.node_name = None;
                let claims = json!([{ "name": "gpus", "resourceClaimName": "gpus" }]);
                spec.resource_claims = serde_json::from_value(claims).unwrap();
                pod.status = serde_json::from_value(json!({ "phase": "Pending" })).unwrap();
                o.device_claims.insert("gpus".to_owned(), false);
            },
            "DeviceClaimMissing",
            "ResourceClaim/gpus",
            "create the ResourceClaim",
        ),
    ]
}

/// Scheduling.
pub fn placement() -> Vec<Row> {
    vec![
        row(
            "no GPU",
            |o| unschedulable(o, "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: none"),
            "NoGpu",
            AT_POD,
            "max-surge",
        ),
        row(
            "no memory",
            |o| unschedulable(o, "0/3 nodes are available: 3 Insufficient memory."),
            "NoMemory",
            AT_POD,
            "memory request",
        ),
        row(
            "no CPU",
            |o| unschedulable(o, "0/3 nodes are available: 3 Insufficient cpu."),
            "NoCpu",
            AT_POD,
            "CPU request",
        ),
        row(
            "taint",
            |o| unschedulable(o, "0/2 nodes are available: 2 node(s) had untolerated taint {gpu: true}."),
            "Taint",
            AT_POD,
            "toleration",
        ),
        row(
            "node selector",
            |o| unschedulable(o, "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."),
            "NodeSelector",
            AT_POD,
            "nodeSelector",
        ),
        row(
            "nodes cordoned",
            |o| unschedulable(o, "0/2 nodes are available: 2 node(s) were unschedulable."),
            "NodesCordoned",
            AT_POD,
            "uncordon",
        ),
        row("no nodes", |o| unschedulable(o, "no nodes available to schedule pods"), "NoNodes", AT_POD, "add nodes"),
        row(
            "too many pods",
            |o| unschedulable(o, "0/1 nodes are available: 1 Too many pods."),
            "TooManyPods",
            AT_POD,
            "kubelet",
        ),
        row(
            "topology spread",
            |o| unschedulable(o, "0/2 nodes are available: 2 node(s) didn't match pod topology spread constraints."),
            "TopologySpread",
            AT_POD,
            "topologySpreadConstraints",
        ),
        row(
            "devices taken",
            |o| unschedulable(o, "0/1 nodes are available: 1 cannot allocate all claims."),
            "DevicesTaken",
            AT_POD,
            "devices",
        ),
        row(
            "volume in another zone, by newer schedulers",
            |o| unschedulable(o, "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity."),
            "VolumeElsewhere",
            AT_POD,
            "zone",
        ),
        row(
            "volume in another zone",
            |o| unschedulable(o, "0/2 nodes are available: 2 node(s) had volume node affinity conflict."),
            "VolumeElsewhere",
            AT_POD,
            "zone",
        ),
    ]
}

/// Claims.
pub fn claims() -> Vec<Row> {
    vec![
        row(
            "claim missing",
            |o| {
                unschedulable(o, "0/1 nodes are available: persistentvolumeclaim \"models\" not found.");
                o.claims.insert("models".to_owned(), None);
            },
            "ClaimMissing",
            "PersistentVolumeClaim/models",
            "create the claim",
        ),
        row(
            "storage class missing",
            |o| {
                unschedulable(o, "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.");
                let claim = json!({ "spec": { "storageClassName": "fast" }, "status": { "phase": "Pending" } });
                o.claims.insert("models".to_owned(), serde_json::from_value(claim).unwrap());
                o.storage_classes = Some([("slow".to_owned(), true)].into());
            },
            "StorageClassMissing",
            "PersistentVolumeClaim/models",
            "StorageClass",
        ),
        row(
            "no default storage class",
            |o| {
                unschedulable(o, "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.");
                o.claims.insert(
                    "models".to_owned(),
                    serde_json::from_value(json!({ "status": { "phase": "Pending" } })).unwrap(),
                );
                o.storage_classes = Some([("slow".to_owned(), false)].into());
            },
            "NoStorageClass",
            "PersistentVolumeClaim/models",
            "storageClassName",
        ),
        row(
            "provisioning failed",
            |o| {
                unschedulable(o, "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.");
                o.claims.insert(
                    "models".to_owned(),
                    serde_json::from_value(json!({ "status": { "phase": "Pending" } })).unwrap(),
                );
                warn(o, "PersistentVolumeClaim", "models", "ProvisioningFailed", "no space in the pool");
            },
            "ProvisioningFailed",
            "PersistentVolumeClaim/models",
            "provisioner",
        ),
    ]
}

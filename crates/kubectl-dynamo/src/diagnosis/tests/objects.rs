//! Faults that the status of objects or their workloads show.

use api_types::conditions as c;

use super::{
    Row,
    fixtures::{on_component, on_root, rejected, stalled, warn},
    row,
};

const GRAPH: &str = "DynamoGraphDeployment/chat";
const COMPONENT: &str = "DynamoComponentDeployment/chat-decode-1a2b3c4d";
const DEPLOYMENT: &str = "Deployment/chat-decode-1a2b3c4d";

/// The rows.
pub fn rows() -> Vec<Row> {
    let mut rows = of_workloads();
    rows.extend(of_graphs());
    rows.extend(of_rejections());
    rows.extend(of_rollouts());
    rows.extend(of_other_conditions());
    rows
}

fn of_workloads() -> Vec<Row> {
    vec![
        row(
            "quota",
            |o| {
                rejected(o, "pods \"x\" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=4");
                o.quotas =
                    vec![("gpus".to_owned(), "requests.nvidia.com/gpu".to_owned(), "8".to_owned(), "8".to_owned())];
            },
            "QuotaExceeded",
            DEPLOYMENT,
            "ResourceQuota",
        ),
        row(
            "quota that requires requests",
            |o| rejected(o, "pods \"x\" is forbidden: failed quota: all: must specify limits.memory"),
            "QuotaNeedsRequests",
            DEPLOYMENT,
            "requests and limits",
        ),
        row(
            "pod security",
            |o| {
                rejected(o, "pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true")
            },
            "PodSecurity",
            DEPLOYMENT,
            "security context",
        ),
        row(
            "ServiceAccount missing",
            |o| rejected(o, "pods \"x\" is forbidden: error looking up service account team/engine: not found"),
            "ServiceAccountMissing",
            DEPLOYMENT,
            "ServiceAccount",
        ),
        row(
            "RuntimeClass missing",
            |o| rejected(o, "pods \"x\" is forbidden: pod rejected: RuntimeClass \"nvidia\" not found"),
            "RuntimeClassMissing",
            DEPLOYMENT,
            "create the RuntimeClass",
        ),
        row(
            "limit range",
            |o| rejected(o, "pods \"x\" is forbidden: maximum memory usage per Container is 4Gi, but limit is 8Gi"),
            "LimitRange",
            DEPLOYMENT,
            "LimitRange",
        ),
        row(
            "policy",
            |o| rejected(o, "admission webhook \"policy.example.com\" denied the request: no latest tags"),
            "PolicyDenied",
            DEPLOYMENT,
            "policy",
        ),
        row(
            "webhook for pods down",
            |o| rejected(o, "failed calling webhook \"mesh.example.com\": no endpoints available for service"),
            "WebhookDown",
            DEPLOYMENT,
            "webhook",
        ),
        row(
            "pods of a group rejected, in an event only",
            |o| {
                o.pods.truncate(1);
                warn(o, "ReplicaSet", "chat-decode-1a2b3c4d-77c9", "FailedCreate", "exceeded quota: gpus");
            },
            "QuotaExceeded",
            DEPLOYMENT,
            "raise the ResourceQuota",
        ),
        row(
            "Deployment paused",
            |o| o.workloads[1].paused = true,
            "WorkloadPaused",
            DEPLOYMENT,
            "kubectl rollout resume",
        ),
    ]
}

fn of_graphs() -> Vec<Row> {
    vec![
        row(
            "spec invalid",
            |o| stalled(o, "InvalidSpec", "spec.components[1].replicas: must be positive"),
            "InvalidSpec",
            GRAPH,
            "change the field",
        ),
        row(
            "name taken",
            |o| stalled(o, "NameTaken", "Service team/chat belongs to Deployment other"),
            "NameTaken",
            GRAPH,
            "rename",
        ),
        row(
            "neither LeaderWorkerSet nor Grove",
            |o| {
                stalled(o, "ApiMissing", "component decode spans nodes");
                on_root(o, c::READY, "False", "no_multinode_orchestrator_available", "component decode spans nodes");
                o.groups = Some(vec!["apps".to_owned()]);
            },
            "ApiMissing",
            GRAPH,
            "install LeaderWorkerSet",
        ),
        row(
            "Grove absent",
            |o| {
                stalled(o, "ApiMissing", "the graph runs on Grove");
                on_root(o, c::READY, "False", "selected_workload_provider_unavailable", "the graph runs on Grove");
            },
            "ApiMissing",
            GRAPH,
            "install Grove",
        ),
        row(
            "queue missing",
            |o| stalled(o, "QueueMissing", "queue dynamo does not exist"),
            "QueueMissing",
            GRAPH,
            "queue",
        ),
        row(
            "checkpoint failed",
            |o| stalled(o, "CheckpointFailed", "decode waits for checkpoint-1"),
            "CheckpointFailed",
            GRAPH,
            "why checkpoint/NAME",
        ),
        row(
            "two workload providers",
            |o| stalled(o, "ConflictingProviders", "PodCliqueSet chat and Deployment chat"),
            "ConflictingProviders",
            GRAPH,
            "one of the two",
        ),
        row(
            "topology missing",
            |o| stalled(o, "TopologyDefinitionNotFound", "no ClusterTopologyBinding gpu"),
            "TopologyDefinitionNotFound",
            GRAPH,
            "ClusterTopologyBinding",
        ),
    ]
}

fn of_rejections() -> Vec<Row> {
    vec![
        row(
            "admission webhook down",
            |o| {
                on_root(
                    o,
                    c::RECONCILING,
                    "True",
                    "WebhookUnavailable",
                    "cannot apply Service team/chat: failed calling webhook \"v\": connection refused",
                )
            },
            "WebhookDown",
            GRAPH,
            "mend the Deployment of the webhook",
        ),
        row(
            "admission webhook hangs",
            |o| {
                on_root(
                    o,
                    c::RECONCILING,
                    "True",
                    "WebhookUnavailable",
                    "failed calling webhook \"v\": context deadline exceeded",
                )
            },
            "WebhookUnreachable",
            GRAPH,
            "from the control plane",
        ),
        row(
            "certificate of a webhook",
            |o| {
                on_root(
                    o,
                    c::RECONCILING,
                    "True",
                    "WebhookUnavailable",
                    "failed calling webhook \"v\": x509: certificate has expired",
                )
            },
            "WebhookCertificate",
            GRAPH,
            "caBundle",
        ),
        row(
            "rights of the controller",
            |o| {
                on_root(
                    o,
                    c::RECONCILING,
                    "True",
                    "Forbidden",
                    "services is forbidden: User \"system:serviceaccount:s:g\" cannot create",
                )
            },
            "RightMissing",
            GRAPH,
            "helm upgrade",
        ),
        row(
            "rights of the component controller, said as progress",
            |o| {
                let text =
                    "cannot create Deployment team/x: deployments.apps \"x\" is forbidden: User \"c\" cannot patch";
                on_component(o, c::RECONCILING, "True", "Progressing", text);
                on_root(o, c::RECONCILING, "True", "Progressing", &format!("chat-decode-1a2b3c4d: {text}"));
            },
            "RightMissing",
            COMPONENT,
            "helm upgrade",
        ),
    ]
}

fn of_rollouts() -> Vec<Row> {
    vec![
        row(
            "rollout paused",
            |o| on_root(o, c::RECONCILING, "True", "RolloutPaused", "the rollout is paused"),
            "RolloutPaused",
            GRAPH,
            "kubectl dynamo rollout resume",
        ),
        row(
            "rollout held",
            |o| on_root(o, c::RECONCILING, "True", "RolloutHeld", "decode has 1 of 2 workers"),
            "RolloutHeld",
            GRAPH,
            "kubectl dynamo rollout step",
        ),
        row(
            "rollout undone",
            |o| stalled(o, "RolloutUndone", "no worker became available"),
            "RolloutUndone",
            GRAPH,
            "correct the spec of the workers",
        ),
        row(
            "GPUs of a claim unknown",
            |o| on_component(o, c::RECONCILING, "True", "GpuCountUnknown", "DeviceClass gpu does not exist"),
            "GpuCountUnknown",
            COMPONENT,
            "DeviceClass",
        ),
        row(
            "component invalid",
            |o| {
                on_component(o, c::STALLED, "True", "InvalidSpec", "spec.podTemplate: no container main");
                stalled(o, "InvalidSpec", "component decode: spec.podTemplate: no container main");
            },
            "InvalidSpec",
            COMPONENT,
            "change the field",
        ),
    ]
}

fn of_other_conditions() -> Vec<Row> {
    vec![
        row(
            "pull secret named and missing",
            |o| on_component(o, "ImagePullSecretsFound", "False", "SecretMissing", "Secret registry"),
            "SecretMissing",
            COMPONENT,
            "create the Secret",
        ),
        row(
            "NATS unreachable",
            |o| on_root(o, c::INFRASTRUCTURE_READY, "False", "Unreachable", "nats://nats:4222: refused"),
            "Unreachable",
            GRAPH,
            "NATS and etcd",
        ),
        row(
            "key for MPI missing",
            |o| on_root(o, c::MPI_KEY_AVAILABLE, "False", "SecretMissing", "Secret team/mpi-key"),
            "SecretMissing",
            GRAPH,
            "create the Secret",
        ),
        row(
            "field without effect",
            |o| on_root(o, c::SPEC_SERVED, "False", "FieldsWithoutEffect", "spec.priorityClassName"),
            "FieldsWithoutEffect",
            GRAPH,
            "remove the fields",
        ),
    ]
}

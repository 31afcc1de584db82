//! Label keys and fixed values.

/// Selects the pods of one workload; value is the name of the DynamoComponentDeployment.
pub const SELECTOR: &str = "nvidia.com/selector";
/// Name of the owning DynamoGraphDeployment.
pub const GRAPH: &str = "nvidia.com/dynamo-graph-deployment-name";
/// Component name in its original case.
pub const COMPONENT: &str = "nvidia.com/dynamo-component";
/// Role of a component, see [`crate::v1beta1::ComponentType`]; absent when the type is unset.
pub const COMPONENT_TYPE: &str = "nvidia.com/dynamo-component-type";
/// `prefill` or `decode`, for those two types only.
pub const SUB_COMPONENT_TYPE: &str = "nvidia.com/dynamo-sub-component-type";
/// `worker` on worker-class components of graphs that have an endpoint picker.
pub const COMPONENT_CLASS: &str = "nvidia.com/dynamo-component-class";
/// Dynamo namespace in which the component registers.
pub const DYNAMO_NAMESPACE: &str = "nvidia.com/dynamo-namespace";
/// Worker revision: eight hexadecimal digits, or [`LEGACY_REVISION`].
pub const WORKER_HASH: &str = "nvidia.com/dynamo-worker-hash";
/// Value of [`WORKER_HASH`] for workers made before revisions existed.
pub const LEGACY_REVISION: &str = "legacy";
/// Discovery backend that the runtime in the pod uses; only ever `kubernetes`.
pub const DISCOVERY_BACKEND: &str = "nvidia.com/dynamo-discovery-backend";
/// `true` on pods and Services that take part in Kubernetes discovery.
pub const DISCOVERY_ENABLED: &str = "nvidia.com/dynamo-discovery-enabled";
/// `true` on pods that PodMonitors scrape.
pub const METRICS_ENABLED: &str = "nvidia.com/metrics-enabled";
/// First eight hexadecimal digits of the SHA-256 of the base model's name.
pub const BASE_MODEL_HASH: &str = "nvidia.com/dynamo-base-model-hash";
/// `true` marks the ServiceAccount for component pods that name none (set by administrators).
pub const COMPONENT_POD_ACCOUNT: &str = "nvidia.com/dynamo-component-pod";
/// Prefix of the labels that the graph controller puts on pods, one for each domain of a cluster topology.
const TOPOLOGY_PREFIX: &str = "nvidia.com/dynamo-topology.";

/// Label of a pod that says where it is within a domain of the cluster's topology.
pub fn topology(domain: &str) -> String {
    format!("{TOPOLOGY_PREFIX}{domain}")
}

/// `leader` or `worker` on pods of multi-node replicas.
pub const ROLE: &str = "role";

/// Identifier of a checkpoint: on the checkpoint, on pods that are captured for it and on pods restored from it.
pub const CHECKPOINT_ID: &str = "nvidia.com/snapshot-checkpoint-id";
/// `true` on pods whose processes are captured.
pub const CHECKPOINT_SOURCE: &str = "nvidia.com/snapshot-is-checkpoint-source";
/// `true` on pods whose processes are restored.
pub const RESTORE_TARGET: &str = "nvidia.com/snapshot-is-restore-target";
/// Name of the DynamoCheckpoint for which a pod is captured or a PodSnapshot was made.
pub const SNAPSHOT_OWNER: &str = "nvidia.com/snapshot-owner";
/// Value of [`APP_COMPONENT`] on claims that hold checkpoints.
pub const CHECKPOINT_STORAGE: &str = "checkpoint-storage";
/// Value of [`APP_COMPONENT`] on the DaemonSet that takes and restores checkpoints.
pub const SNAPSHOT_AGENT: &str = "snapshot-agent";
/// On the pods of a LeaderWorkerSet: its name.
pub const LEADER_WORKER_SET: &str = "leaderworkerset.sigs.k8s.io/name";
/// On the pods of a LeaderWorkerSet: the place in the group; `0` is the leader's.
pub const WORKER_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";
/// On LeaderWorkerSets and pod groups of operators that made a set for each replica.
pub const LEGACY_INSTANCE: &str = "instance-id";

/// [`OPERATOR`] on Services of base models, and on what is made for a request.
pub const MODEL_MANAGED_BY: &str = "nvidia.com/managed-by";

/// Name of the DynamoGraphDeploymentRequest that an object was made for, as a label value.
pub const REQUEST_NAME: &str = "dgdr.nvidia.com/name";
/// Namespace of the DynamoGraphDeploymentRequest that an object was made for.
pub const REQUEST_NAMESPACE: &str = "dgdr.nvidia.com/namespace";
/// Name of the DynamoGraphDeploymentRequest, on profiling Jobs.
pub const REQUEST: &str = "dgdr";
/// [`PROFILER`] on profiling Jobs.
pub const APP: &str = "app";
/// Value of [`APP`] on profiling Jobs.
pub const PROFILER: &str = "dynamo-profiler";
/// On the pods of a Job: its name.
pub const JOB_NAME: &str = "job-name";
/// On nodes: how many GPUs they have.
pub const NODE_GPU_COUNT: &str = "nvidia.com/gpu.count";
/// On nodes: what their GPUs are called by their maker.
pub const NODE_GPU_PRODUCT: &str = "nvidia.com/gpu.product";
/// On nodes: memory of one GPU in MiB.
pub const NODE_GPU_MEMORY: &str = "nvidia.com/gpu.memory";
/// On nodes: [`TRUE`] where RDMA is possible; each of them says so.
pub const NODE_RDMA: [&str; 3] = [
    "nvidia.com/rdma.present",
    "feature.node.kubernetes.io/rdma.available",
    "feature.node.kubernetes.io/network-sriov.capable",
];

/// Recommended label: the tool that manages the object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Recommended label: what the object is a part of.
pub const PART_OF: &str = "app.kubernetes.io/part-of";
/// Recommended label: the part of the application.
pub const APP_COMPONENT: &str = "app.kubernetes.io/component";
/// Recommended label: the name of the application.
pub const APP_NAME: &str = "app.kubernetes.io/name";
/// Value of [`MANAGED_BY`] on everything this operator creates for a graph.
pub const OPERATOR: &str = "dynamo-operator";
/// Value of [`APP_COMPONENT`] on ServiceAccounts, Roles and RoleBindings.
pub const RBAC: &str = "rbac";
/// Namespace that the operator is installed in, on its webhook configurations.
pub const OPERATOR_NAMESPACE: &str = "nvidia.com/dynamo-operator-namespace";
/// Value of boolean labels.
pub const TRUE: &str = "true";
/// `true` on the pods of a serving engine and its standby engines.
pub const FAILOVER_ENGINE: &str = "nvidia.com/dynamo-failover-engine-group-member";
/// Queue of the KAI scheduler in which a pod waits.
pub const KAI_QUEUE: &str = "kai.scheduler/queue";

/// Graph that an object belongs to, on objects that the upstream operator gives no [`GRAPH`].
pub const OWN_GRAPH: &str = "operator.dynamo/graph";
/// Component that an object belongs to, in its original case, on objects that the upstream operator gives no
/// [`COMPONENT`].
pub const OWN_COMPONENT: &str = "operator.dynamo/component";

/// `true` on Jobs and pods that build an image.
pub const IMAGE_BUILDER: &str = "nvidia.com/is-dynamo-image-builder";
/// `true` marks the ServiceAccount for builds that name none (set by administrators).
pub const IMAGE_BUILDER_ACCOUNT: &str = "nvidia.com/dynamo-image-builder-pod";

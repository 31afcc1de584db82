//! Annotation keys and fixed values.

/// `component` or `grove`: the workload provider of a graph, for life.
pub const WORKLOAD_PROVIDER: &str = "nvidia.com/workload-provider";
/// Value of [`WORKLOAD_PROVIDER`]: Deployments and LeaderWorkerSets.
pub const PROVIDER_COMPONENT: &str = "component";
/// Value of [`WORKLOAD_PROVIDER`]: Grove.
pub const PROVIDER_GROVE: &str = "grove";
/// Watts that each GPU of the pod may draw; on pod templates.
pub const GPU_POWER_LIMIT: &str = "dynamo.nvidia.com/gpu-power-limit";
/// Set by users; `false` keeps a new graph off Grove.
pub const ENABLE_GROVE: &str = "nvidia.com/enable-grove";
/// Opaque suffix of the committed worker revision (bookkeeping of the upstream operator, first form).
pub const CURRENT_WORKER_HASH: &str = "nvidia.com/current-worker-hash";
/// Computed suffix of the committed worker revision (bookkeeping of the upstream operator, second form).
pub const CURRENT_WORKER_HASH_V2: &str = "nvidia.com/current-worker-hash-v2";
/// Fingerprint of what the apply engine applied last.
pub const APPLIED: &str = "operator.dynamo/applied";
/// Content hash that the upstream operator keeps on children.
pub const LAST_APPLIED_HASH: &str = "nvidia.com/last-applied-hash";
/// Generation that the upstream operator keeps on children.
pub const LAST_APPLIED_GENERATION: &str = "nvidia.com/last-applied-generation";
/// Version of the operator that admitted the graph; on graphs and DynamoComponentDeployments, never on pods.
pub const ORIGIN_VERSION: &str = "nvidia.com/dynamo-operator-origin-version";
/// `mp` or `ray`, for multi-node vLLM.
pub const VLLM_EXECUTOR_BACKEND: &str = "nvidia.com/vllm-distributed-executor-backend";
/// `kubernetes` or `etcd`; overrides the operator's setting for one graph.
pub const DISCOVERY_BACKEND: &str = "nvidia.com/dynamo-discovery-backend";
/// `pod` (default) or `container`: what registers itself in Kubernetes discovery.
pub const DISCOVERY_MODE: &str = "nvidia.com/dynamo-kube-discovery-mode";
/// `false` keeps PodMonitors from scraping the component.
pub const ENABLE_METRICS: &str = "nvidia.com/enable-metrics";
/// `true` switches off the discovery of image pull secrets for the component.
pub const DISABLE_PULL_SECRET_DISCOVERY: &str = "nvidia.com/disable-image-pull-secret-discovery";
/// Carries `spec.restart.id` into pod templates.
pub const RESTART_AT: &str = "nvidia.com/restartAt";
/// `Recreate`, anything else means rolling update.
pub const DEPLOYMENT_STRATEGY: &str = "nvidia.com/deployment-strategy";
/// Count or percentage of extra pods in an update; default 25 %.
pub const MAX_SURGE: &str = "nvidia.com/deployment-rolling-update-max-surge";
/// Count or percentage of missing pods in an update; default 25 %.
pub const MAX_UNAVAILABLE: &str = "nvidia.com/deployment-rolling-update-max-unavailable";
/// Name of the base model, as given.
pub const BASE_MODEL: &str = "nvidia.com/dynamo-base-model";
/// Node label that the graph controller copies to pods.
pub const TOPOLOGY_LABEL_KEY: &str = "nvidia.com/topology-label-key";
/// Cluster topology from which the graph controller takes the labels of pods.
pub const TOPOLOGY_NAME: &str = "nvidia.com/topology-cluster-topology-name";
/// `RollingRecreate` or `OnDelete`: how Grove replaces the pods of the graph.
pub const GROVE_UPDATE_STRATEGY: &str = "nvidia.com/grove-update-strategy";
/// Queue of the KAI scheduler; `dynamo` if unset.
pub const KAI_QUEUE: &str = "nvidia.com/kai-scheduler-queue";
/// Queue of the Volcano scheduler; its own default if unset.
pub const VOLCANO_QUEUE: &str = "nvidia.com/volcano-queue";
/// On a CustomResourceDefinition: the generation for which all objects were migrated.
pub const MIGRATED_GENERATION: &str = "crd-migration.nvidia.com/observed-generation";
/// On a CustomResourceDefinition: the release of the operator that it comes from, `MAJOR.MINOR.PATCH`.
pub const DEFINITION_RELEASE: &str = "nvidia.com/dynamo-crds-release";
/// Istio's switch for sidecar injection.
pub const ISTIO_INJECT: &str = "sidecar.istio.io/inject";

/// Linkerd's switch for sidecar injection.
pub const LINKERD_INJECT: &str = "linkerd.io/inject";
/// `true` on checkpoints that a graph made.
pub const AUTO_CHECKPOINT: &str = "nvidia.com/dynamo-auto-checkpoint";
/// `Delete` or `Retain`: what becomes of a graph's checkpoint with the graph.
pub const CHECKPOINT_DELETION_POLICY: &str = "nvidia.com/dynamo-checkpoint-deletion-policy";
/// `true` on pods that admission makes start from a checkpoint if it is ready.
pub const RESTORE_CANDIDATE: &str = "nvidia.com/dynamo-checkpoint-restore-candidate";
/// Name of the checkpoint of a candidate.
pub const CHECKPOINT_NAME: &str = "nvidia.com/dynamo-checkpoint-name";
/// Startup policy of a candidate.
pub const CHECKPOINT_STARTUP_POLICY: &str = "nvidia.com/dynamo-checkpoint-startup-policy";
/// Names of the containers that are captured or restored, comma-separated.
pub const SNAPSHOT_TARGETS: &str = "nvidia.com/snapshot-target-containers";
/// Version of a checkpoint's artifact; another one makes a new capture.
pub const ARTIFACT_VERSION: &str = "nvidia.com/snapshot-artifact-version";
/// Kind of storage that holds a checkpoint.
pub const SNAPSHOT_STORAGE_TYPE: &str = "nvidia.com/snapshot-storage-type";
/// Folder at which pods mount that storage.
pub const SNAPSHOT_STORAGE_PATH: &str = "nvidia.com/snapshot-storage-base-path";
/// Prefix of the annotations with which agents report the progress of a restore.
pub const RESTORE_PROGRESS_PREFIX: &str = "nvidia.com/snapshot-restore-";

/// Versioned fingerprint of the worker revision that a DynamoComponentDeployment belongs to.
pub const REVISION_FINGERPRINT: &str = "operator.dynamo/generation-fingerprint";
/// Replaced revisions of the graph's workers as JSON, see [`revision_history`](crate::revision_history); on workers'
/// DynamoComponentDeployments, never on pods.
pub const PREVIOUS_REVISIONS: &str = "operator.dynamo/previous-revisions";
/// Digest of the rendered pod template without discovered pull secrets; shows whether a live template is current.
pub const TEMPLATE_DIGEST: &str = "operator.dynamo/template-digest";
/// On a LeaderWorkerSet whose API has no `status.observedGeneration`: which status describes an earlier template.
pub const STATUS_BEFORE: &str = "operator.dynamo/status-before";

/// Annotations of a graph's metadata that are copied into pod templates unless the component sets them.
pub const COPIED_FROM_GRAPH: [&str; 5] =
    [ENABLE_METRICS, DISCOVERY_BACKEND, DISCOVERY_MODE, ORIGIN_VERSION, VLLM_EXECUTOR_BACKEND];

/// On a graph, set by users: `paused` keeps worker replicas where they are, `undone` returns to the older revision.
pub const ROLLOUT: &str = "operator.dynamo/rollout";
/// On a graph, set by users: the most workers of each component that a new revision gets, as a count or a percentage.
pub const ROLLOUT_STEP: &str = "operator.dynamo/rollout-step";
/// On a graph, set by users: time without a new available worker after which a rollout is undone, such as `10m`.
pub const PROGRESS_DEADLINE: &str = "operator.dynamo/progress-deadline";

/// Uid of the checkpoint for which a Job removes what was kept.
pub const CLEANUP_FOR: &str = "operator.dynamo/cleanup-for";

/// Annotations with the data of a graph that only its other version can express, for the spec and for the status; only
/// the conversion writes them.
pub const GRAPH_SAVED: [&str; 2] = ["nvidia.com/dgd-spec", "nvidia.com/dgd-status"];
/// Fingerprint of the spec for which a profiling Job runs.
pub const PROFILED_SPEC: &str = "operator.dynamo/profiled-spec";
/// Uid of the DynamoGraphDeploymentRequest that a graph was made for.
pub const REQUEST_UID: &str = "operator.dynamo/request-uid";

/// On a DynamoModel: what was loaded for it, where the served CustomResourceDefinition has no `status.adapter`.
pub const ADAPTER: &str = "operator.dynamo/adapter";

/// Identifier of the inputs of a build; another value starts a new build.
pub const BUILD_REQUEST: &str = "nvidia.com/dynamo-request-hash";
/// Hash of the build request, on the build's pod.
pub const BUILD_POD_REQUEST: &str = "nvidia.com/dynamo-request-image-builder-hash";
/// `true`: the manifest in the archive of a DynamoComponent is read. Set by a graph that needs it.
pub const READ_MANIFEST: &str = "nvidia.com/read-archive-manifest";
/// `true`: the image is built although the registry has it.
pub const FORCE_BUILD: &str = "nvidia.com/force-build-image";
/// `true`: connections to the registry have no TLS.
pub const INSECURE_REGISTRY: &str = "nvidia.com/docker-registry-insecure";
/// Prefix of the image's tag instead of the namespace.
pub const STORAGE_NAMESPACE: &str = "nvidia.com/dynamo-storage-namespace";
/// On a service of the legacy API, `true`: its container is privileged.
pub const CONTAINER_PRIVILEGED: &str = "nvidia.com/enable-container-privileged";
/// Likewise: its container may trace processes.
pub const CONTAINER_PTRACE: &str = "nvidia.com/enable-container-ptrace";
/// Likewise: its container runs as root.
pub const CONTAINER_AS_ROOT: &str = "nvidia.com/run-container-as-root";
/// Likewise: its pods share the node's memory for processes to talk by.
pub const HOST_IPC: &str = "nvidia.com/enable-host-ipc";
/// Likewise: its pods share the node's network.
pub const HOST_NETWORK: &str = "nvidia.com/enable-host-network";
/// Likewise: its pods see the node's processes.
pub const HOST_PID: &str = "nvidia.com/enable-host-pid";
/// On a service of the legacy API: what its pods are made of. Without effect, as the four below.
pub const DEPLOYMENT_TYPE: &str = "nvidia.com/deployment-type";
/// Likewise: over how many nodes each of them is spread.
pub const LWS_SIZE: &str = "nvidia.com/lws-size";
/// Likewise: a container to debug by beside its own.
pub const DEBUG_MODE: &str = "nvidia.com/enable-debug-mode";
/// Likewise: a second copy of its pods, which requests are taken to.
pub const DEBUG_STEALING_TRAFFIC: &str = "nvidia.com/enable-stealing-traffic-debug-mode";
/// Likewise: a second copy that shares the requests.
pub const DEBUG_POD_TRAFFIC: &str = "nvidia.com/enable-debug-pod-receive-production-traffic";
/// Switches AppArmor off for the builder, by the annotation of clusters before 1.30.
pub const BUILDER_APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/builder";

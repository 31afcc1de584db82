//! Names of environment variables in pods.

/// Dynamo namespace.
pub const DYN_NAMESPACE: &str = "DYN_NAMESPACE";
/// Component type.
pub const DYN_COMPONENT: &str = "DYN_COMPONENT";
/// Name of the graph.
pub const DYN_PARENT_DGD_K8S_NAME: &str = "DYN_PARENT_DGD_K8S_NAME";
/// Kubernetes namespace of the graph.
pub const DYN_PARENT_DGD_K8S_NAMESPACE: &str = "DYN_PARENT_DGD_K8S_NAMESPACE";
/// Name of the pod.
pub const POD_NAME: &str = "POD_NAME";
/// Namespace of the pod.
pub const POD_NAMESPACE: &str = "POD_NAMESPACE";
/// UID of the pod.
pub const POD_UID: &str = "POD_UID";
/// Discovery backend; absent for etcd.
pub const DYN_DISCOVERY_BACKEND: &str = "DYN_DISCOVERY_BACKEND";
/// Name of the container, in container discovery mode.
pub const CONTAINER_NAME: &str = "CONTAINER_NAME";
/// Discovery mode, when it is `container`.
pub const DYN_KUBE_DISCOVERY_MODE: &str = "DYN_KUBE_DISCOVERY_MODE";
/// NATS server, if the operator has one configured.
pub const NATS_SERVER: &str = "NATS_SERVER";
/// etcd endpoints, if the operator has them configured.
pub const ETCD_ENDPOINTS: &str = "ETCD_ENDPOINTS";
/// Model Express URL, if the operator has one configured.
pub const MODEL_EXPRESS_URL: &str = "MODEL_EXPRESS_URL";
/// Prometheus endpoint, if the operator has one configured.
pub const PROMETHEUS_ENDPOINT: &str = "PROMETHEUS_ENDPOINT";
/// HTTP port of the frontend (older name).
pub const DYNAMO_PORT: &str = "DYNAMO_PORT";
/// Arguments of the services of a graph, as JSON: the legacy API.
pub const DYN_DEPLOYMENT_CONFIG: &str = "DYN_DEPLOYMENT_CONFIG";
/// Configuration file of `dynamo serve`.
pub const DYNAMO_CONFIG_PATH: &str = "DYNAMO_CONFIG_PATH";
/// HTTP port of the frontend.
pub const DYN_HTTP_PORT: &str = "DYN_HTTP_PORT";
/// Prefix under which the frontend finds workers of any revision.
pub const DYN_NAMESPACE_PREFIX: &str = "DYN_NAMESPACE_PREFIX";
/// Worker revision; the runtime appends it to the Dynamo namespace.
pub const DYN_NAMESPACE_WORKER_SUFFIX: &str = "DYN_NAMESPACE_WORKER_SUFFIX";
/// Switches the system status server on.
pub const DYN_SYSTEM_ENABLED: &str = "DYN_SYSTEM_ENABLED";
/// Port of the system status server.
pub const DYN_SYSTEM_PORT: &str = "DYN_SYSTEM_PORT";
/// Endpoints whose health determines the pod's health.
pub const DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS: &str = "DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS";
/// Canary health checks of the runtime.
pub const DYN_HEALTH_CHECK_ENABLED: &str = "DYN_HEALTH_CHECK_ENABLED";
/// NIXL telemetry switch.
pub const NIXL_TELEMETRY_ENABLE: &str = "NIXL_TELEMETRY_ENABLE";
/// NIXL telemetry exporter.
pub const NIXL_TELEMETRY_EXPORTER: &str = "NIXL_TELEMETRY_EXPORTER";
/// NIXL telemetry port.
pub const NIXL_TELEMETRY_PROMETHEUS_PORT: &str = "NIXL_TELEMETRY_PROMETHEUS_PORT";
/// Port of the forward-pass metrics.
pub const DYN_FORWARDPASS_METRIC_PORT: &str = "DYN_FORWARDPASS_METRIC_PORT";
/// Metrics port of the planner.
pub const PLANNER_PROMETHEUS_PORT: &str = "PLANNER_PROMETHEUS_PORT";
/// Streaming answers of the endpoint picker.
pub const USE_STREAMING: &str = "USE_STREAMING";
/// Log filter of Rust programs.
pub const RUST_LOG: &str = "RUST_LOG";
/// Whether the endpoint picker insists on separate prefill workers.
pub const DYN_ENFORCE_DISAGG: &str = "DYN_ENFORCE_DISAGG";
/// IP address of the pod, where a launch command needs it.
pub const POD_IP: &str = "POD_IP";
/// Address of vLLM's data-parallel master.
pub const VLLM_DP_MASTER_IP: &str = "VLLM_DP_MASTER_IP";
/// Folder in which vLLM keeps compiled kernels.
pub const VLLM_CACHE_ROOT: &str = "VLLM_CACHE_ROOT";
/// Folder with the sockets of the GPU memory service.
pub const GMS_SOCKET_DIR: &str = "GMS_SOCKET_DIR";
/// Identifier of a process among the engines that share GPU memory.
pub const ENGINE_ID: &str = "ENGINE_ID";
/// File whose lock the serving engine holds.
pub const FAILOVER_LOCK_PATH: &str = "FAILOVER_LOCK_PATH";
/// Health of an engine before it serves.
pub const DYN_SYSTEM_STARTING_HEALTH_STATUS: &str = "DYN_SYSTEM_STARTING_HEALTH_STATUS";
/// Lets vLLM start as a standby engine.
pub const DYN_VLLM_GMS_SHADOW_MODE: &str = "DYN_VLLM_GMS_SHADOW_MODE";
/// Port at which vLLM's NIXL connectors meet.
pub const VLLM_NIXL_SIDE_CHANNEL_PORT: &str = "VLLM_NIXL_SIDE_CHANNEL_PORT";
/// Port of vLLM's key-value cache events.
pub const DYN_VLLM_KV_EVENT_PORT: &str = "DYN_VLLM_KV_EVENT_PORT";
/// Nodes that an engine spans.
pub const NNODES: &str = "NNODES";
/// Address of the pod, for transfers of the KV cache between vLLM engines.
pub const VLLM_NIXL_SIDE_CHANNEL_HOST: &str = "VLLM_NIXL_SIDE_CHANNEL_HOST";
/// Makes Open MPI keep host names with their domain.
pub const OMPI_KEEP_FQDN: &str = "OMPI_MCA_orte_keep_fqdn_hostnames";
/// Level of the topology within which key-value caches are exchanged.
pub const DYN_KV_TRANSFER_DOMAIN: &str = "DYN_KV_TRANSFER_DOMAIN";
/// `required` or `preferred`: whether caches may leave the domain.
pub const DYN_KV_TRANSFER_ENFORCEMENT: &str = "DYN_KV_TRANSFER_ENFORCEMENT";
/// Weight of the same domain, 0 to 1.
pub const DYN_KV_TRANSFER_PREFERRED_WEIGHT: &str = "DYN_KV_TRANSFER_PREFERRED_WEIGHT";
/// Whether the pod's place in the topology can be read.
pub const DYN_TOPOLOGY_ENABLED: &str = "DYN_TOPOLOGY_ENABLED";
/// Folder with a file for each domain of the topology.
pub const DYN_TOPOLOGY_MOUNT_PATH: &str = "DYN_TOPOLOGY_MOUNT_PATH";
/// Folder in which an engine meets the agent that captures or restores it.
pub const DYN_SNAPSHOT_CONTROL_DIR: &str = "DYN_SNAPSHOT_CONTROL_DIR";
/// Makes an engine wait to be restored instead of starting cold.
pub const DYN_SNAPSHOT_RESTORE_STANDBY: &str = "DYN_SNAPSHOT_RESTORE_STANDBY";
/// Set by users: switches on the API by which adapters are loaded.
pub const DYN_LORA_ENABLED: &str = "DYN_LORA_ENABLED";
/// Token for Hugging Face, in profiling Jobs.
pub const HUGGING_FACE_HUB_TOKEN: &str = "HUGGING_FACE_HUB_TOKEN";
/// Name of the request that a profiling Job runs for.
pub const DGDR_NAME: &str = "DGDR_NAME";
/// Namespace of the request that a profiling Job runs for.
pub const DGDR_NAMESPACE: &str = "DGDR_NAMESPACE";
/// Uid of the request that a profiling Job runs for.
pub const DGDR_UID: &str = "DGDR_UID";
/// Program with which the profiler merges the user's part of a graph into its own.
pub const DYNAMO_DGD_APPLY_OVERRIDES_BIN: &str = "DYNAMO_DGD_APPLY_OVERRIDES_BIN";

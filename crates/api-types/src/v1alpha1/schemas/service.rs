//! Schema of a component of a graph in v1alpha1, where it is called a service, and schemas of its parts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value;

use crate::{
    limits,
    v1alpha1::{EngineMode, GpuMemoryService, SharedMemory},
    v1beta1::{
        CheckpointDeletionPolicy, CheckpointIdentity, CheckpointJob, CheckpointMode, CheckpointStartupPolicy,
        ComponentTopologyConstraint, EndpointPickerConfig, MultinodeRole, ProviderOverride,
    },
};

/// One component: its type, its pods, their number.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", extend("x-kubernetes-validations" = crate::schema::rules::SERVICE))]
pub struct Service {
    /// Annotations of the objects that are made for the service.
    pub annotations: Option<BTreeMap<String, String>>,
    /// Labels of the objects that are made for the service.
    pub labels: Option<BTreeMap<String, String>>,
    /// Name of the service; in a graph, the key wins.
    pub service_name: Option<String>,
    /// Role of the service: `frontend`, `worker`, `planner`, `epp`; another one means no particular role.
    pub component_type: Option<String>,
    /// Part of a worker: `prefill` or `decode`.
    pub sub_component_type: Option<String>,
    /// Fragment of the service's primary Grove unit; only in graphs.
    pub provider_override: Option<ProviderOverride>,
    /// Dynamo version in the main image, `MAJOR.MINOR.PATCH`, if the tag of the image is no version.
    #[schemars(regex(pattern = crate::schema::patterns::VERSION))]
    pub runtime_version_override: Option<String>,
    /// Deprecated, without effect.
    pub dynamo_namespace: Option<String>,
    /// Registers in the Dynamo namespace `dynamo` instead of the graph's own.
    pub global_dynamo_namespace: Option<bool>,
    /// Resources of the main container.
    pub resources: Option<Resources>,
    /// Rules of a HorizontalPodAutoscaler of the service.
    pub autoscaling: Option<Autoscaling>,
    /// Environment of the main container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::env")]
    pub envs: Option<Vec<Value>>,
    /// Secret whose keys become environment variables of the main container.
    pub env_from_secret: Option<String>,
    /// Mounts of the graph's volumes.
    pub volume_mounts: Option<Vec<VolumeMount>>,
    /// Access from outside the cluster.
    pub ingress: Option<Ingress>,
    /// Base model whose endpoints are published through a headless Service.
    pub model_ref: Option<ModelReference>,
    /// `/dev/shm`; 8Gi if unset.
    pub shared_memory: Option<SharedMemory>,
    /// Metadata of the pods.
    pub extra_pod_metadata: Option<PodMetadata>,
    /// The pods, and their main container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::extra_pod_spec")]
    pub extra_pod_spec: Option<Value>,
    /// Liveness probe of the main container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::probe")]
    pub liveness_probe: Option<Value>,
    /// Readiness probe of the main container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::probe")]
    pub readiness_probe: Option<Value>,
    /// Desired replicas, 1 if unset; owned by the scaling adapter where there is one.
    #[schemars(range(min = 0, max = crate::limits::REPLICAS))]
    pub replicas: Option<i32>,
    /// Least replicas that a Grove gang starts with; immutable.
    #[schemars(range(min = 1, max = crate::limits::REPLICAS))]
    pub min_available: Option<i32>,
    /// Spreads each replica over several nodes.
    pub multinode: Option<Multinode>,
    /// Hands the replica count over to a scaling adapter.
    pub scaling_adapter: Option<ScalingAdapter>,
    /// Configuration of the endpoint picker; only for type `epp`.
    pub epp_config: Option<EppConfig>,
    /// A frontend beside the main container.
    pub frontend_sidecar: Option<FrontendSidecar>,
    /// Checkpoint and restore of engine processes.
    pub checkpoint: Option<Checkpoint>,
    /// Placement of the service; only with Grove.
    pub topology_constraint: Option<ComponentTopologyConstraint>,
    /// Legacy API: what `dynamo serve` of the built image starts, as `module:Service`.
    pub dynamo_tag: Option<String>,
    /// Legacy API: a volume of this service.
    pub pvc: Option<ServiceVolume>,
    /// Legacy API, without effect.
    pub run_mode: Option<RunMode>,
    /// Legacy API, without effect.
    pub external_services: Option<BTreeMap<String, ExternalService>>,
    /// GPU memory shared between processes.
    pub gpu_memory_service: Option<GpuMemoryService>,
    /// Standby engines; needs the GPU memory service.
    pub failover: Option<Failover>,
}

/// Resources of a container.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct Resources {
    /// Resources that the container is sure to get.
    pub requests: Option<ResourceItem>,
    /// Maximum resources of the container.
    pub limits: Option<ResourceItem>,
    /// Claims of the pod that the container uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::resource_claims")]
    pub claims: Option<Vec<Value>>,
}

/// Quantities of resources.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct ResourceItem {
    /// CPU.
    pub cpu: Option<String>,
    /// Memory.
    pub memory: Option<String>,
    /// GPUs.
    pub gpu: Option<String>,
    /// Name of the GPU's resource; `nvidia.com/gpu` if unset.
    pub gpu_type: Option<String>,
    /// Other resources by name.
    pub custom: Option<BTreeMap<String, String>>,
}

/// A HorizontalPodAutoscaler of the component.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct Autoscaling {
    /// Whether there is one.
    pub enabled: Option<bool>,
    /// Least replicas; 1 if unset.
    #[schemars(range(max = limits::REPLICAS))]
    pub min_replicas: Option<i64>,
    /// Most replicas.
    #[schemars(range(max = limits::REPLICAS))]
    pub max_replicas: Option<i64>,
    /// Speed of scaling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::autoscaler_behavior")]
    pub behavior: Option<Value>,
    /// Metrics for scaling; 80 % of the requested CPU if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::autoscaler_metrics")]
    pub metrics: Option<Vec<Value>>,
}

/// Mount of a volume of the graph.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct VolumeMount {
    /// Name of the volume's claim.
    pub name: String,
    /// Path at which it is mounted; only a compilation cache has a default, that of its framework.
    pub mount_point: Option<String>,
    /// Keeps compiled kernels there over restarts.
    #[serde(default)]
    pub use_as_compilation_cache: bool,
}

/// A volume of one service of the legacy API.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct ServiceVolume {
    /// Makes the claim if it does not exist. If unset, a claim with a size is made where the image is built from an
    /// archive (dynamoComponent); any other must exist.
    pub create: Option<bool>,
    /// Name of the PersistentVolumeClaim; that of the component's objects if unset.
    pub name: Option<String>,
    /// StorageClass of a claim that is made; the cluster's default if unset.
    pub storage_class: Option<String>,
    /// Size of a claim that is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub size: Option<String>,
    /// Access mode of a claim that is made, such as `ReadWriteMany`; `ReadWriteOnce` if unset.
    pub volume_access_mode: Option<String>,
    /// Path at which it is mounted.
    pub mount_point: Option<String>,
    /// Another name of mountPoint; only one of the two, or the same value in both.
    pub mount_path: Option<String>,
}

/// Without effect.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct RunMode {
    /// Without effect.
    pub standalone: Option<bool>,
}

/// Without effect.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct ExternalService {
    /// Without effect.
    pub deployment_selector_key: Option<String>,
    /// Without effect.
    pub deployment_selector_value: Option<String>,
}

/// Access from outside the cluster.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct Ingress {
    /// Switches it on.
    pub enabled: Option<bool>,
    /// Host name without its suffix.
    pub host: Option<String>,
    /// Makes an Istio VirtualService in place of an Ingress.
    pub use_virtual_service: Option<bool>,
    /// Gateway of the VirtualService.
    pub virtual_service_gateway: Option<String>,
    /// Put in front of the host name.
    pub host_prefix: Option<String>,
    /// Annotations of the object.
    pub annotations: Option<BTreeMap<String, String>>,
    /// Labels of the object.
    pub labels: Option<BTreeMap<String, String>>,
    /// TLS of the Ingress.
    pub tls: Option<IngressTls>,
    /// Domain of the host name.
    pub host_suffix: Option<String>,
    /// IngressClass.
    pub ingress_controller_class_name: Option<String>,
}

/// TLS of an Ingress.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct IngressTls {
    /// Secret with certificate and key.
    pub secret_name: Option<String>,
}

/// A base model.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct ModelReference {
    /// Identifier of the base model.
    pub name: String,
    /// Revision of the model.
    pub revision: Option<String>,
}

/// Metadata of pods.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct PodMetadata {
    /// Annotations.
    pub annotations: Option<BTreeMap<String, String>>,
    /// Labels.
    pub labels: Option<BTreeMap<String, String>>,
}

/// Spreads each replica over several nodes.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", extend("required" = ["nodeCount"]))]
pub struct Multinode {
    /// Nodes per replica, at least 2.
    #[schemars(range(min = 2, max = limits::NODES), extend("default" = 2))]
    pub node_count: i32,
    /// Settings of the first node's pod; only in graphs.
    pub leader: Option<MultinodeRole>,
    /// Settings of the other nodes' pods; only in graphs.
    pub worker: Option<MultinodeRole>,
}

/// Hands the replica count over to a scaling adapter.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct ScalingAdapter {
    /// Switches it on.
    #[serde(default)]
    pub enabled: bool,
}

/// Source of the endpoint picker's configuration: exactly one of `configMapRef` and `config`.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct EppConfig {
    /// Key of a ConfigMap with the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::config_map_key_selector")]
    pub config_map_ref: Option<Value>,
    /// The configuration itself.
    pub config: Option<EndpointPickerConfig>,
}

/// A frontend beside the main container.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct FrontendSidecar {
    /// Image of the container.
    pub image: String,
    /// Arguments of the container.
    pub args: Option<Vec<String>>,
    /// Secret whose keys become environment variables of the container.
    pub env_from_secret: Option<String>,
    /// Environment of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::env")]
    pub envs: Option<Vec<Value>>,
}

/// Checkpoint and restore of engine processes.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", extend("x-kubernetes-validations" = crate::schema::rules::CHECKPOINT))]
pub struct Checkpoint {
    /// Switches it on.
    #[serde(default)]
    pub enabled: bool,
    /// Deprecated, without effect.
    pub mode: Option<CheckpointMode>,
    /// Whether pods wait for the checkpoint.
    #[serde(default)]
    pub startup_policy: CheckpointStartupPolicy,
    /// Treatment of the checkpoint when the graph is deleted.
    #[serde(default)]
    pub deletion_policy: CheckpointDeletionPolicy,
    /// An existing DynamoCheckpoint to restore from.
    pub checkpoint_ref: Option<String>,
    /// Deprecated: what the checkpoint is of.
    pub identity: Option<CheckpointIdentity>,
    /// Container that is captured and restored.
    #[schemars(
        regex(pattern = crate::schema::patterns::DNS_LABEL), length(min = 1, max = 63),
        extend("default" = crate::v1beta1::MAIN_CONTAINER)
    )]
    pub target_container_name: Option<String>,
    /// Settings of the Job that makes the checkpoint.
    pub job: Option<CheckpointJob>,
}

/// Standby engines.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct Failover {
    /// Switches it on.
    pub enabled: bool,
    /// Within a pod or between pods; the same as the GPU memory service's.
    #[serde(default)]
    pub mode: EngineMode,
    /// Standby engines; within a pod, 1.
    #[schemars(range(min = 1, max = limits::SHADOWS), extend("default" = 1))]
    pub num_shadows: Option<i32>,
}

//! A component of a graph in v1alpha1, where it is called a service: its schema.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value;

use super::service_parts::{
    Autoscaling, Checkpoint, EppConfig, ExternalService, Failover, FrontendSidecar, Ingress, ModelReference, Multinode,
    PodMetadata, Resources, RunMode, ScalingAdapter, ServiceVolume, VolumeMount,
};
use crate::{
    v1alpha1::{GpuMemoryService, SharedMemory},
    v1beta1::{ComponentTopologyConstraint, ProviderOverride},
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

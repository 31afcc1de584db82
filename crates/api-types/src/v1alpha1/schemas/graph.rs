//! `DynamoGraphDeployment` in v1alpha1: its schema, and those of what its components become:
//! `DynamoComponentDeployment` and `DynamoGraphDeploymentScalingAdapter`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value;

use super::Service;
use crate::v1beta1::{
    BackendFramework, CheckpointStatus, ComponentKind, GraphExperimental, GraphState, PlacementStatus,
    ProviderOverride, Restart, RestartStatus, RollingUpdatePhase,
};

/// Specification of an inference graph.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", extend("x-kubernetes-validations" = crate::schema::rules::GRAPH))]
pub struct DynamoGraphDeploymentSpec {
    /// Fragment of the root PodCliqueSet; only with Grove.
    pub provider_override: Option<ProviderOverride>,
    /// Annotations for every child and pod; a service's own win.
    pub annotations: Option<BTreeMap<String, String>>,
    /// Labels for every child and pod; a service's own win.
    pub labels: Option<BTreeMap<String, String>>,
    /// PriorityClass of the PodCliqueSet; only with Grove.
    pub priority_class_name: Option<String>,
    /// Legacy API: what the image of all services is built from, as `name:version`. A service that names an image keeps
    /// it.
    pub dynamo_component: Option<String>,
    /// Other name of `dynamoComponent`.
    pub dynamo_graph: Option<String>,
    /// Volumes that services mount by name.
    #[schemars(length(max = 100))]
    pub pvcs: Option<Vec<Pvc>>,
    /// The components of the graph by name, at most 25.
    #[schemars(extend("maxProperties" = 25))]
    pub services: Option<BTreeMap<String, Service>>,
    /// Environment of every service's main container; a service's entry of the same name wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::env")]
    pub envs: Option<Vec<Value>>,
    /// Engine family; found from the worker's command line if unset.
    pub backend_framework: Option<BackendFramework>,
    /// Asks for a restart of services; may not be set when the graph is created.
    pub restart: Option<Restart>,
    /// Placement of the whole graph; only with Grove.
    pub topology_constraint: Option<GraphTopologyConstraint>,
    /// Fields whose form may still change.
    pub experimental: Option<GraphExperimental>,
}

/// A volume.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", extend("x-kubernetes-validations" = crate::schema::rules::PVC))]
pub struct Pvc {
    /// Name of the PersistentVolumeClaim.
    pub name: String,
    /// Makes the claim if it does not exist; it must be there if unset.
    pub create: Option<bool>,
    /// StorageClass of a claim that is made.
    pub storage_class: Option<String>,
    /// Size of a claim that is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub size: Option<String>,
    /// Access mode of a claim that is made, such as `ReadWriteMany`.
    pub volume_access_mode: Option<String>,
}

/// Placement of a whole graph.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct GraphTopologyConstraint {
    /// Name of the cluster topology.
    #[schemars(length(min = 1))]
    pub topology_profile: String,
    /// Topology level within which services are packed, unless a service names its own.
    #[schemars(regex(pattern = crate::schema::patterns::DOMAIN))]
    pub pack_domain: Option<String>,
}

/// Observed state of a graph.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", extend("required" = ["state"]))]
pub struct DynamoGraphDeploymentStatus {
    /// Generation of the spec that this status describes.
    pub observed_generation: Option<i64>,
    /// State of the graph; the conditions have the details.
    #[serde(default)]
    pub state: GraphState,
    /// Standard Kubernetes conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::condition_list")]
    pub conditions: Option<Vec<Value>>,
    /// Replica counts by name of the service.
    pub services: Option<BTreeMap<String, ServiceReplicaStatus>>,
    /// Progress of the last requested restart.
    pub restart: Option<RestartStatus>,
    /// Checkpoints by name of the service.
    pub checkpoints: Option<BTreeMap<String, CheckpointStatus>>,
    /// Progress of the last change of worker generation.
    pub rolling_update: Option<RollingUpdateStatus>,
    /// Quality of the placement, where a provider reports it.
    pub placement: Option<PlacementStatus>,
}

/// Replica counts of one service.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct ServiceReplicaStatus {
    /// Kind of the objects that run the service.
    pub component_kind: ComponentKind,
    /// Deprecated: the last of `componentNames`.
    pub component_name: String,
    /// Names of those objects; in a rolling update old and new ones.
    pub component_names: Option<Vec<String>>,
    /// Dynamo namespace under which the serving pods register.
    pub runtime_namespace: Option<String>,
    /// Pods that exist.
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// Pods of the current revision.
    #[schemars(range(min = 0))]
    pub updated_replicas: i32,
    /// Pods that are ready; absent where the kind does not report it.
    #[schemars(range(min = 0))]
    pub ready_replicas: Option<i32>,
    /// Pods that are available; absent where the kind does not report it.
    #[schemars(range(min = 0))]
    pub available_replicas: Option<i32>,
    /// Pods that are scheduled; absent where the kind does not report it.
    #[schemars(range(min = 0))]
    pub scheduled_replicas: Option<i32>,
}

/// Progress of a change of worker generation.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct RollingUpdateStatus {
    /// Phase of the change.
    pub phase: Option<RollingUpdatePhase>,
    /// Time at which the new generation was first observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub start_time: Option<String>,
    /// Time at which the last old worker was gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub end_time: Option<String>,
    /// Services whose new generation serves alone.
    pub updated_services: Option<Vec<String>>,
}

/// Specification of one component.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct DynamoComponentDeploymentSpec {
    /// Engine family; found from the worker's command line if unset.
    pub backend_framework: Option<BackendFramework>,
    /// Legacy API: what the image is built from, as `name:version`. An image that is named wins.
    pub dynamo_component: Option<String>,
    /// The component.
    #[schemars(flatten)]
    pub service: Service,
}

/// State of a component, as observed by the operator.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", extend("required" = ["conditions"]))]
pub struct DynamoComponentDeploymentStatus {
    /// Generation of the spec that this status describes.
    pub observed_generation: Option<i64>,
    /// `Available` and `DynamoComponentReady`, and kstatus' `Ready`, `Reconciling`, `Stalled`.
    #[schemars(schema_with = "crate::schema::condition_list")]
    pub conditions: Vec<Value>,
    /// Never written.
    pub pod_selector: Option<BTreeMap<String, String>>,
    /// Replica counts of the workload.
    pub service: Option<ServiceReplicaStatus>,
}

/// Specification of a scaling adapter.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct DynamoGraphDeploymentScalingAdapterSpec {
    /// Desired replicas of the service; autoscalers set it through the scale subresource.
    #[schemars(range(min = 0, max = crate::limits::REPLICAS))]
    pub replicas: i32,
    /// The service.
    pub dgd_ref: ScalingTarget,
}

/// A service of a graph.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct ScalingTarget {
    /// Name of the graph.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Name of the service in the graph.
    #[schemars(length(min = 1))]
    pub service_name: String,
}

/// State of a scaling adapter's service, as observed by the operator.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct DynamoGraphDeploymentScalingAdapterStatus {
    /// Replicas of the service.
    pub replicas: Option<i32>,
    /// Selects the pods of the service; autoscalers read their metrics.
    pub selector: Option<String>,
    /// Time at which the adapter last changed the service's replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_scale_time: Option<String>,
}

//! Status of a `DynamoGraphDeployment` in v1alpha1: its schema.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value;

use crate::v1beta1::{CheckpointStatus, ComponentKind, GraphState, PlacementStatus, RestartStatus, RollingUpdatePhase};

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
    /// How far it is.
    pub phase: Option<RollingUpdatePhase>,
    /// When the new generation was first seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub start_time: Option<String>,
    /// When the last old worker was gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub end_time: Option<String>,
    /// Services whose new generation serves alone.
    pub updated_services: Option<Vec<String>>,
}

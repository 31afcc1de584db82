//! `DynamoGraphDeploymentScalingAdapter` in v1alpha1: its schema.

use schemars::JsonSchema;

/// Specification of a scaling adapter.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct DynamoGraphDeploymentScalingAdapterSpec {
    /// Wanted replicas of the service; autoscalers set it through the scale subresource.
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

/// What the operator has observed of a scaling adapter's service.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct DynamoGraphDeploymentScalingAdapterStatus {
    /// Replicas of the service.
    pub replicas: Option<i32>,
    /// Selects the pods of the service; autoscalers read their metrics.
    pub selector: Option<String>,
    /// When the adapter last changed the service's replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_scale_time: Option<String>,
}

//! `DynamoGraphDeploymentScalingAdapter`: the replicas of one component, as a scale subresource.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Specification of a scaling adapter.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(group = "nvidia.com", version = "v1beta1", kind = "DynamoGraphDeploymentScalingAdapter", shortname = "dgdsa")]
#[kube(namespaced, schema = "disabled", derive = "PartialEq", status = "DynamoGraphDeploymentScalingAdapterStatus")]
#[kube(scale(
    spec_replicas_path = ".spec.replicas",
    status_replicas_path = ".status.replicas",
    label_selector_path = ".status.selector"
))]
pub struct DynamoGraphDeploymentScalingAdapterSpec {
    /// Desired replicas of the component; autoscalers set it through the scale subresource.
    #[schemars(range(min = 0, max = crate::limits::REPLICAS))]
    pub replicas: i32,
    /// The component.
    pub dgd_ref: ScalingTarget,
}

/// A component of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalingTarget {
    /// Name of the graph.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Name of the component in the graph.
    #[schemars(length(min = 1))]
    pub component_name: String,
}

/// State of a scaling adapter's component, as observed by the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DynamoGraphDeploymentScalingAdapterStatus {
    /// Replicas of the component.
    // Clients of v1alpha1 leave a zero out, and their objects are stored.
    #[serde(default)]
    #[schemars(!default)]
    pub replicas: i32,
    /// Selects the pods of the component; autoscalers read their metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Time at which the adapter last changed the component's replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_scale_time: Option<Time>,
}

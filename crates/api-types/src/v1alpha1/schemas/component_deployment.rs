//! `DynamoComponentDeployment` in v1alpha1: its schema.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value;

use super::{Service, ServiceReplicaStatus};
use crate::v1beta1::BackendFramework;

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

/// What the operator has observed of a component.
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

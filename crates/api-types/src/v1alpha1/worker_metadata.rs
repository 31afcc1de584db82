//! `DynamoWorkerMetadata`: what a worker says of itself, for the other processes of its graph.
//!
//! The Dynamo runtime writes it. The operator grants the right to, and does nothing else with it.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Metadata that a worker publishes about itself.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "nvidia.com",
    version = "v1alpha1",
    kind = "DynamoWorkerMetadata",
    plural = "dynamoworkermetadatas",
    shortname = "dwm",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
pub struct DynamoWorkerMetadataSpec {
    /// In the runtime's own form.
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::schema::open_object"))]
    pub data: serde_json::Value,
}

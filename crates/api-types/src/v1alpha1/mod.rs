//! `nvidia.com/v1alpha1`: kinds that have this version only, and types that v1beta1 shares with it.
//!
//! Graphs, components, requests and scaling adapters have no types in this version, but schemas in
//! `schemas/v1alpha1.yaml`: only the [conversion](crate::conversion) reads them, and it must not lose fields that no type
//! has.
//!
//! This file has the types of memory that processes share, of GPUs and `/dev/shm`, and `DynamoWorkerMetadata`, in which
//! a worker describes itself to the other processes of its graph. The Dynamo runtime writes that object; the operator
//! grants the right to, and does nothing else with it.

mod checkpoint;
mod dynamo_component;
mod model;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{checkpoint::*, dynamo_component::*, model::*};
use crate::{
    schema::{patterns, rules},
    v1beta1::GmsClientPod,
};

/// GPU memory shared between processes, by dynamic resource allocation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = rules::ALPHA_GPU_MEMORY_SERVICE))]
#[serde(rename_all = "camelCase")]
pub struct AlphaGpuMemoryService {
    /// Switches it on.
    pub enabled: bool,
    /// Within a pod or between pods.
    #[serde(default)]
    pub mode: AlphaEngineMode,
    /// DRA DeviceClass of the GPUs.
    #[serde(default = "crate::v1beta1::default_device_class")]
    pub device_class_name: String,
    /// More containers of the pod that use the memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(inner(regex(pattern = patterns::DNS_LABEL), length(min = 1, max = 63)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub extra_client_containers: Option<Vec<String>>,
    /// Reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub extra_client_pods: Option<Vec<GmsClientPod>>,
}

/// Within a pod or between pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AlphaEngineMode {
    /// Within a pod.
    #[default]
    IntraPod,
    /// Between the pods of a group.
    InterPod,
}

/// Memory of `/dev/shm`: either none, or of a size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = rules::SHARED_MEMORY))]
#[serde(rename_all = "camelCase")]
pub struct SharedMemory {
    /// There is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Its size, more than zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub size: Option<Quantity>,
}

/// Metadata that a worker publishes about itself.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(group = "nvidia.com", version = "v1alpha1", kind = "DynamoWorkerMetadata", shortname = "dwm")]
#[kube(namespaced, schema = "disabled", derive = "PartialEq")]
pub struct DynamoWorkerMetadataSpec {
    /// In the runtime's own form.
    #[schemars(schema_with = "crate::schema::open_object")]
    pub data: serde_json::Value,
}

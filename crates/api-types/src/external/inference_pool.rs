//! `InferencePool` of the gateway API inference extension: the pods among which a gateway's endpoint picker chooses.

use std::collections::BTreeMap;

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Specification of a pool.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "inference.networking.k8s.io",
    version = "v1",
    kind = "InferencePool",
    plural = "inferencepools",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
pub struct InferencePoolSpec {
    /// Where the pods serve.
    pub target_ports: Vec<PoolPort>,
    /// Which pods.
    pub selector: PoolSelector,
    /// Who chooses.
    pub endpoint_picker_ref: EndpointPickerRef,
}

/// A port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolPort {
    /// Its number.
    pub number: i32,
}

/// Selects pods by their labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolSelector {
    /// Labels that a pod must have.
    pub match_labels: BTreeMap<String, String>,
}

/// The Service of an endpoint picker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointPickerRef {
    /// `Service`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its gRPC port.
    pub port: PoolPort,
}

//! Kinds of other projects, as far as this operator writes them. Their CRDs come with those projects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Specification of a pool.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[kube(group = "inference.networking.k8s.io", version = "v1", kind = "InferencePool")]
#[kube(namespaced, schema = "disabled", derive = "PartialEq")]
pub struct InferencePoolSpec {
    /// Ports on which the pods serve.
    pub target_ports: Vec<PoolPort>,
    /// Selector of the pods.
    pub selector: LabelSelector,
    /// Endpoint picker that chooses among them.
    pub endpoint_picker_ref: EndpointPickerRef,
}

/// A port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolPort {
    /// Its number.
    pub number: i32,
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

/// Connection settings of proxies for a service.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[kube(group = "networking.istio.io", version = "v1beta1", kind = "DestinationRule")]
#[kube(namespaced, schema = "disabled", derive = "PartialEq")]
pub struct DestinationRuleSpec {
    /// DNS name of the service.
    pub host: String,
    /// The rules.
    pub traffic_policy: TrafficPolicy,
}

/// Rules for connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficPolicy {
    /// TLS from the client's side.
    pub tls: ClientTls,
}

/// TLS from the client's side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientTls {
    /// `DISABLE`, `SIMPLE`, `MUTUAL` or `ISTIO_MUTUAL`.
    pub mode: String,
    /// Whether the server's certificate goes unchecked.
    pub insecure_skip_verify: bool,
    /// File with the client's certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<String>,
    /// File with its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_key: Option<String>,
    /// File with the authorities that sign servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_certificates: Option<String>,
}

/// Routing of a gateway to a service.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[kube(group = "networking.istio.io", version = "v1beta1", kind = "VirtualService")]
#[kube(namespaced, schema = "disabled", derive = "PartialEq")]
pub struct VirtualServiceSpec {
    /// Host names.
    pub hosts: Vec<String>,
    /// Gateways that serve them.
    pub gateways: Vec<String>,
    /// Routes, the first that matches; as Istio writes them.
    pub http: Vec<Value>,
}

/// Specification of a capture; immutable.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[kube(group = "nvidia.com", version = "v1alpha1", kind = "PodSnapshot")]
#[kube(namespaced, schema = "disabled", derive = "PartialEq", status = "PodSnapshotStatus")]
pub struct PodSnapshotSpec {
    /// Source of the capture.
    pub source: PodSnapshotSource,
}

/// Source of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSnapshotSource {
    /// A pod.
    pub pod_ref: CapturedPod,
}

/// A pod, and a container of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedPod {
    /// Its name.
    pub name: String,
    /// Its uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The container; exactly one.
    #[serde(default)]
    pub containers: Vec<String>,
}

/// Status of a capture, from the snapshot operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSnapshotStatus {
    /// The object that the node's agent works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_snapshot_content_name: Option<String>,
    /// `Ready` and `Failed`, of which at most one is true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

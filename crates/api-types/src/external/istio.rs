//! `DestinationRule` and `VirtualService` of Istio.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// How proxies speak to a service.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "networking.istio.io",
    version = "v1beta1",
    kind = "DestinationRule",
    plural = "destinationrules",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
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

/// How a gateway routes to a service.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "networking.istio.io",
    version = "v1beta1",
    kind = "VirtualService",
    plural = "virtualservices",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
pub struct VirtualServiceSpec {
    /// Host names.
    pub hosts: Vec<String>,
    /// Gateways that serve them.
    pub gateways: Vec<String>,
    /// Routes, the first that matches.
    pub http: Vec<HttpRoute>,
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpRoute {
    /// Which requests.
    #[serde(rename = "match")]
    pub matches: Vec<HttpMatch>,
    /// Where to.
    pub route: Vec<RouteDestination>,
}

/// Which requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpMatch {
    /// Those to this path.
    pub uri: UriMatch,
}

/// A path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UriMatch {
    /// Its beginning.
    pub prefix: String,
}

/// Where to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteDestination {
    /// A service.
    pub destination: Destination,
}

/// A port of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destination {
    /// Name of the service.
    pub host: String,
    /// Its port.
    pub port: PortSelector,
}

/// A port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortSelector {
    /// Its number.
    pub number: i32,
}

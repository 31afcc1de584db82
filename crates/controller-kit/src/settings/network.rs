//! Access to pods from outside the cluster, the service mesh, and the names of Services.

use serde::{Deserialize, Serialize};

/// Access to frontends from outside the cluster. If everything is empty: none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Ingress {
    /// Istio gateway, for example `istio-system/gateway`; frontends get a VirtualService.
    pub virtual_service_gateway: String,
    /// Ingress class; frontends get an Ingress.
    pub controller_class_name: String,
    /// Secret with the certificate of Ingresses, in the namespace of each graph. Empty: no TLS.
    #[serde(rename = "controllerTLSSecretName")]
    pub controller_tls_secret_name: String,
    /// Domain below which graphs have their host names. Empty: `local`.
    pub host_suffix: String,
    /// Components expose themselves only at the gateway or with the class above, below the host suffix and without
    /// annotations. Default: a user who may create Ingresses or VirtualServices chooses freely.
    pub only_configured: bool,
}

/// The service mesh.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceMesh {
    /// `false` switches it off. Default unset: on, if there is a provider.
    pub enabled: Option<bool>,
    /// `istio`, or empty for none.
    pub provider: String,
    /// TLS settings of Istio's proxies for endpoint pickers.
    pub istio: Istio,
}

impl ServiceMesh {
    /// Istio's settings, if it is the mesh to use.
    pub fn active_istio(&self) -> Option<&Istio> {
        (self.provider == "istio" && self.enabled != Some(false)).then_some(&self.istio)
    }
}

/// TLS settings of Istio's proxies for endpoint pickers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Istio {
    /// Default `SIMPLE`.
    pub tls_mode: TlsMode,
    /// Whether the picker's certificate goes unchecked; it signs its own. Default true.
    pub insecure_skip_verify: bool,
    /// File with the client's certificate in the proxy; only for `MUTUAL`.
    pub client_certificate: String,
    /// File with its key.
    pub private_key: String,
    /// File with the authorities that sign servers.
    pub ca_certificates: String,
}

impl Default for Istio {
    fn default() -> Self {
        let none = String::new;
        Self {
            tls_mode: TlsMode::Simple,
            insecure_skip_verify: true,
            client_certificate: none(),
            private_key: none(),
            ca_certificates: none(),
        }
    }
}

/// Istio's modes of TLS from a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TlsMode {
    /// No TLS.
    Disable,
    /// The server has a certificate.
    #[default]
    #[serde(alias = "")]
    Simple,
    /// Both have certificates, from files.
    Mutual,
    /// Both have certificates, from Istio.
    IstioMutual,
}

impl TlsMode {
    /// As Istio writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disable => "DISABLE",
            Self::Simple => "SIMPLE",
            Self::Mutual => "MUTUAL",
            Self::IstioMutual => "ISTIO_MUTUAL",
        }
    }
}

/// Names of Services. Ours, unknown to the reference.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Dns {
    /// The domain of the cluster. Default `cluster.local`.
    pub cluster_domain: String,
}

impl Default for Dns {
    fn default() -> Self {
        Self { cluster_domain: "cluster.local".to_owned() }
    }
}

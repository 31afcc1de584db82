//! Servers of the operator, and the key for MPI.

use serde::Deserialize;

/// Servers of the operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct Server {
    /// Metrics.
    pub metrics: MetricsServer,
    /// Admission and conversion.
    pub webhook: Webhook,
}

/// How metrics are served.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct MetricsServer {
    /// Whether metrics are served over HTTPS, to clients with a token of a user who may `get` `/metrics`. Default true.
    pub secure: bool,
}

impl Default for MetricsServer {
    fn default() -> Self {
        Self { secure: true }
    }
}

/// Where and how admission and conversion are served.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct Webhook {
    /// Address to listen on. Default `0.0.0.0`.
    pub host: String,
    /// Port to listen on. Default 9443.
    pub port: u16,
    /// Who makes the certificates. Default: the operator.
    pub cert_provision_mode: CertProvisionMode,
    /// Secret with the certificates, in the operator's namespace. Default `webhook-server-cert`.
    pub secret_name: String,
    /// Service by which the API server finds the server; certificates are made for it.
    pub service_name: String,
}

impl Default for Webhook {
    fn default() -> Self {
        Self {
            host: "0.0.0.0".to_owned(),
            port: 9443,
            cert_provision_mode: CertProvisionMode::Auto,
            secret_name: "webhook-server-cert".to_owned(),
            service_name: String::new(),
        }
    }
}

/// Who makes the certificates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CertProvisionMode {
    /// The operator.
    #[default]
    Auto,
    /// Another controller, such as cert-manager.
    Manual,
}

/// The SSH key with which the nodes of one worker reach each other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct Mpi {
    /// Name of the Secret. Empty: no key.
    pub ssh_secret_name: String,
    /// Has no effect: each namespace has a key of its own.
    pub ssh_secret_namespace: String,
}

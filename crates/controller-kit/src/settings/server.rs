//! Servers of the operator, the key for MPI, and the roles of pods.

use serde::{Deserialize, Serialize};

/// Servers of the operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Server {
    /// Metrics.
    pub metrics: MetricsServer,
    /// Admission and conversion.
    pub webhook: Webhook,
}

/// Settings for serving metrics.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MetricsServer {
    /// Whether metrics are served over HTTPS, to clients with a token of a user who may `get` `/metrics`. Default true.
    pub secure: bool,
}

impl Default for MetricsServer {
    fn default() -> Self {
        Self { secure: true }
    }
}

/// Address and certificates for admission and conversion.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Webhook {
    /// Address to listen on. Default `0.0.0.0`.
    pub host: String,
    /// Port to listen on. Default 9443.
    pub port: u16,
    /// Creator of the certificates. Default: the operator.
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

/// Creator of the certificates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CertProvisionMode {
    /// The operator.
    #[default]
    Auto,
    /// Another controller, such as cert-manager.
    Manual,
}

/// The SSH key with which the nodes of one worker reach each other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Mpi {
    /// Name of the Secret. Empty: no key.
    pub ssh_secret_name: String,
    /// Has no effect: each namespace has a key of its own.
    pub ssh_secret_namespace: String,
}

/// ClusterRole of planners, unless the configuration names another.
pub const PLANNER_ROLE: &str = "dynamo-operator-planner";
/// ClusterRole of endpoint pickers, likewise.
pub const PICKER_ROLE: &str = "dynamo-operator-epp";
/// ClusterRole of Jobs that profile, likewise.
pub const PROFILING_ROLE: &str = "dynamo-operator-dgdr-profiling";
/// Role of discovery accounts that the chart makes: a ClusterRole, or a Role in the only namespace that is served.
pub const DISCOVERY_ROLE: &str = "dynamo-operator-discovery";

/// Roles that accounts in a graph's namespace are bound to. Only cluster-wide installs bind the ClusterRoles.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Rbac {
    /// Of planners. Default `dynamo-operator-planner`.
    pub planner_cluster_role_name: String,
    /// Of endpoint pickers. Default `dynamo-operator-epp`.
    pub epp_cluster_role_name: String,
    /// Of Jobs that profile. Default `dynamo-operator-dgdr-profiling`.
    pub dgdr_profiling_cluster_role_name: String,
    /// Role of discovery accounts: a ClusterRole, or in a restricted install a Role. Empty, the default: each graph has
    /// a Role of its own. Ours, unknown to the reference.
    pub discovery_role_name: String,
}

impl Default for Rbac {
    fn default() -> Self {
        Self {
            planner_cluster_role_name: PLANNER_ROLE.to_owned(),
            epp_cluster_role_name: PICKER_ROLE.to_owned(),
            dgdr_profiling_cluster_role_name: PROFILING_ROLE.to_owned(),
            discovery_role_name: String::new(),
        }
    }
}

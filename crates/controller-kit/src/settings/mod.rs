//! The configuration file of kind `OperatorConfiguration`, shared by all processes of one install.
//!
//! It is the reference's format. Each process reads what concerns it; keys that concern other processes are known and
//! ignored. Unknown keys are reported and never fatal, so that one file can serve two releases.

mod features;
mod keys;
mod network;
mod notifications;
mod server;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use api_types::typed::typed;
pub use rendering::DiscoveryBackend;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::{
    features::{CheckpointConfiguration, Feature, Gpu, GroveConfiguration, Orchestrators},
    keys::GoDuration,
    network::{Dns, Ingress, Istio, ServiceMesh, TlsMode},
    notifications::{Header, NotificationFormat, Notifications, Receiver},
    server::{
        CertProvisionMode, DISCOVERY_ROLE, MetricsServer, Mpi, PICKER_ROLE, PLANNER_ROLE, PROFILING_ROLE, Rbac, Server,
        Webhook,
    },
};
use crate::yaml;

/// `apiVersion` of the file.
pub const API_VERSION: &str = "operator.config.dynamo.nvidia.com/v1alpha1";

/// `kind` of the file.
pub const KIND: &str = "OperatorConfiguration";

/// The configuration, as far as controllers use it. Everything has a default.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OperatorConfiguration {
    /// Addresses that are handed to workloads.
    pub infrastructure: Infrastructure,
    /// Discovery of workers by each other.
    pub discovery: Discovery,
    /// Served namespace.
    pub namespace: Namespace,
    /// Whether one of several replicas acts.
    pub leader_election: LeaderElection,
    /// Content and format of the log.
    pub logging: Logging,
    /// Servers of the operator.
    pub server: Server,
    /// Orchestrators beside Kubernetes itself, which place and start pods.
    pub orchestrators: Orchestrators,
    /// Dynamic resource allocation.
    pub dra: Feature,
    /// Access to frontends from outside.
    pub ingress: Ingress,
    /// The service mesh.
    pub service_mesh: ServiceMesh,
    /// Names of Services. Ours, unknown to the reference.
    pub dns: Dns,
    /// Roles that the chart has prepared for the accounts of pods.
    pub rbac: Rbac,
    /// Checkpoints of workers.
    pub checkpoint: CheckpointConfiguration,
    /// GPUs of nodes.
    pub gpu: Gpu,
    /// The SSH key with which the nodes of one worker reach each other.
    pub mpi: Mpi,
    /// Whether image pull secrets are found by registry. Ours, unknown to the reference.
    pub image_pull_secret_discovery: ImagePullSecretDiscovery,
    /// Receivers of notifications of failing objects. Ours, unknown to the reference.
    pub notifications: Notifications,
}

/// Addresses that are handed to workloads as environment variables. Empty means: no variable.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Infrastructure {
    /// NATS, for example `nats://nats.dynamo:4222`.
    pub nats_address: String,
    /// etcd.
    pub etcd_address: String,
    /// ModelExpress server.
    #[serde(rename = "modelExpressURL")]
    pub model_express_url: String,
    /// Prometheus.
    pub prometheus_endpoint: String,
    /// Secret with credentials and certificates for NATS and etcd, by which the operator itself connects. Empty:
    /// without any. Ours, unknown to the reference.
    pub secret_name: String,
    /// Namespace of that Secret. Empty: the operator's own. Ours, unknown to the reference.
    pub secret_namespace: String,
}

/// Discovery of workers by each other.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Discovery {
    /// Backend in which they are registered.
    pub backend: DiscoveryBackend,
}

/// Served namespace.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Namespace {
    /// The only namespace to serve; empty: all.
    pub restricted: String,
    /// Marker of a restricted install in its namespace.
    pub scope: NamespaceScope,
}

/// Marker by which a restricted install claims its namespace as its own.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NamespaceScope {
    /// Duration of a marker without a renewal. Default `30s`.
    pub lease_duration: GoDuration,
    /// Time between two renewals. Default `10s`.
    pub lease_renew_interval: GoDuration,
    /// Identity of the install, the same for all its processes. Empty: the marker is not looked at. Ours, unknown to
    /// the reference.
    pub owner: String,
}

impl Default for NamespaceScope {
    fn default() -> Self {
        Self {
            lease_duration: GoDuration(Duration::from_secs(30)),
            lease_renew_interval: GoDuration(Duration::from_secs(10)),
            owner: String::new(),
        }
    }
}

/// Whether one of several replicas acts, and the Lease by which it is elected.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LeaderElection {
    /// Default false: one replica, which acts at once.
    pub enabled: bool,
    /// Suffix of the names of the Leases. Default `dynamo.nvidia.com`.
    pub id: String,
    /// Namespace of the Leases. Empty: the only namespace served, or `kube-system`.
    pub namespace: String,
    /// All replicas act, each in namespaces of its own. Ours, unknown to the reference.
    pub shards: bool,
}

impl Default for LeaderElection {
    fn default() -> Self {
        Self { enabled: false, id: "dynamo.nvidia.com".to_owned(), namespace: String::new(), shards: false }
    }
}

impl LeaderElection {
    /// The Lease that replicas of `program` compete for: every controller has a leader of its own.
    pub fn lease_name(&self, program: &str) -> String {
        format!("{program}.{}", self.id)
    }
}

/// Format of the log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One JSON object per line.
    #[default]
    Json,
    /// For people.
    Text,
}

/// Content and format of the log.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Logging {
    /// Level or filter. Default `info`.
    pub level: String,
    /// Format. Default JSON.
    pub format: LogFormat,
}

impl Default for Logging {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::Json }
    }
}

/// Whether image pull secrets are found by registry.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ImagePullSecretDiscovery {
    /// Default true.
    pub enabled: bool,
}

impl Default for ImagePullSecretDiscovery {
    fn default() -> Self {
        Self { enabled: true }
    }
}

impl OperatorConfiguration {
    /// The only namespace to serve, if there is one.
    pub fn restricted_namespace(&self) -> Option<&str> {
        Some(self.namespace.restricted.as_str()).filter(|namespace| !namespace.is_empty())
    }
}

/// Reason why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// It cannot be read.
    #[error("cannot read configuration {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Reason.
        source: std::io::Error,
    },
    /// It is not YAML, or a known key has a value that does not fit.
    #[error("configuration is not valid: {0}")]
    Parse(String),
    /// It is the file of something else.
    #[error("configuration has {field} {found:?}, but needs {desired:?}")]
    WrongType {
        /// `apiVersion` or `kind`.
        field: &'static str,
        /// As in the file; empty if it is missing.
        found: String,
        /// Required value.
        desired: &'static str,
    },
}

/// Reads a configuration file. Returns warnings of what has no effect in it, too.
///
/// # Errors
/// If the file cannot be read or is not an `OperatorConfiguration`.
pub fn load(path: &Path) -> Result<(OperatorConfiguration, Vec<String>), SettingsError> {
    let text = std::fs::read_to_string(path).map_err(|source| SettingsError::Read { path: path.to_owned(), source })?;
    parse(&text)
}

/// [`load`] of YAML or JSON text.
///
/// # Errors
/// If it is not an `OperatorConfiguration`.
pub fn parse(text: &str) -> Result<(OperatorConfiguration, Vec<String>), SettingsError> {
    let value = yaml::read(text).map_err(|error| SettingsError::Parse(error.to_string()))?;
    for (field, desired) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        let found = value.get(field).and_then(Value::as_str).unwrap_or_default();
        if found != desired {
            return Err(SettingsError::WrongType { field, found: found.to_owned(), desired });
        }
    }
    let unknown = keys::unknown(&value).into_iter();
    let warnings = unknown.map(|path| format!("unknown key {path}; it is ignored")).collect();
    let settings = typed(without_nulls(value));
    Ok((settings.map_err(|error| SettingsError::Parse(error.to_string()))?, warnings))
}

/// A key without a value is one that is not given.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let given = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(given.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        value => value,
    }
}

#[cfg(test)]
mod tests;

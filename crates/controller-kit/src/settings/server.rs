//! Servers of the operator, ways by which pods are reached, and receivers of notifications about failing objects.

use std::path::PathBuf;

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

/// Settings for serving metrics.
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

/// Address and certificates for admission and conversion.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
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

/// ClusterRole of planners, unless the configuration names another.
pub const PLANNER_ROLE: &str = "dynamo-operator-planner";
/// ClusterRole of endpoint pickers, likewise.
pub const PICKER_ROLE: &str = "dynamo-operator-epp";
/// ClusterRole of Jobs that profile, likewise.
pub const PROFILING_ROLE: &str = "dynamo-operator-dgdr-profiling";
/// Role of discovery accounts that the chart makes: a ClusterRole, or a Role in the only namespace that is served.
pub const DISCOVERY_ROLE: &str = "dynamo-operator-discovery";

/// Roles that accounts in a graph's namespace are bound to. Only cluster-wide installs bind the ClusterRoles.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
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

/// Receivers of notifications of failing objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct Notifications {
    /// Each gets every notification. Default: none, and nothing is sent.
    pub receivers: Vec<Receiver>,
}

/// An HTTP endpoint that gets notifications.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Receiver {
    /// Name in logs and metrics.
    pub name: String,
    /// URL that notifications are posted to, `http` or `https`.
    pub url: String,
    /// File with the URL, in place of `url`: for a URL that is a secret.
    pub url_file: Option<PathBuf>,
    /// Form of the body. Default `CloudEvents`.
    pub format: Format,
    /// A header of each request, such as `Authorization`. Default: none.
    pub header: Option<Header>,
    /// File with certificate authorities that are trusted beside those of the machine. Default: none.
    pub ca_file: Option<PathBuf>,
}

/// Form of a notification.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum Format {
    /// A CloudEvent 1.0 as JSON.
    #[default]
    CloudEvents,
    /// Format that incoming webhooks of Slack accept.
    Slack,
}

/// A header whose value is in a file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Header {
    /// Name of the header.
    pub name: String,
    /// File with its value, such as a key of a mounted Secret. It is read for each request.
    pub value_file: PathBuf,
}

/// Access to frontends from outside the cluster. If everything is empty: none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
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
    #[must_use]
    pub fn active_istio(&self) -> Option<&Istio> {
        (self.provider == "istio" && self.enabled != Some(false)).then_some(&self.istio)
    }
}

/// TLS settings of Istio's proxies for endpoint pickers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
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
    #[must_use]
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
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct Dns {
    /// The domain of the cluster. Default `cluster.local`.
    pub cluster_domain: String,
}

impl Default for Dns {
    fn default() -> Self {
        Self { cluster_domain: "cluster.local".to_owned() }
    }
}

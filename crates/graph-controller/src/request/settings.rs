//! Settings for requests, from flags and the operator's configuration.

use api_types::env;
use controller_kit::{settings::OperatorConfiguration, store::Scope};

/// Default port and path of a DCGM exporter.
pub const DCGM_ENDPOINT: &str = "http://{POD_IP}:9400/metrics";

/// Flags that a request's Job needs.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct RequestArgs {
    /// Image of this program: it also runs beside profilers and copies their output
    #[arg(long, value_name = "IMAGE", env = "DYNAMO_OPERATOR_IMAGE", default_value = Self::IMAGE)]
    pub operator_image: String,
    /// Pull policy of that image
    #[arg(long, value_name = "POLICY", env = "DYNAMO_OPERATOR_IMAGE_PULL_POLICY", default_value = "IfNotPresent")]
    pub operator_image_pull_policy: String,
    /// Image of profilers for requests that name none, which admission fills in otherwise
    #[arg(long, value_name = "IMAGE", default_value = "")]
    pub dgdr_default_image: String,
    /// URL of the DCGM exporter of a pod; `{POD_IP}` is replaced by the pod's address
    #[arg(long, value_name = "URL", env = "DCGM_METRICS_ENDPOINT_TEMPLATE", default_value = DCGM_ENDPOINT)]
    pub dcgm_metrics_endpoint: String,
}

impl RequestArgs {
    const IMAGE: &str = concat!("dynamo-operator/graph-controller:", env!("CARGO_PKG_VERSION"));
}

impl Default for RequestArgs {
    fn default() -> Self {
        Self {
            operator_image: Self::IMAGE.to_owned(),
            operator_image_pull_policy: "IfNotPresent".to_owned(),
            dgdr_default_image: String::new(),
            dcgm_metrics_endpoint: DCGM_ENDPOINT.to_owned(),
        }
    }
}

/// Settings for requests, from flags and the operator's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestSettings {
    /// Values of the command line.
    pub args: RequestArgs,
    /// ClusterRole of profiling Jobs; none where one namespace is served, because the chart has bound it.
    pub profiling_role: Option<String>,
    /// Whether GPUs of nodes are looked up.
    pub gpu_discovery: bool,
    /// Trusted namespaces of DCGM exporters.
    pub exporter_namespaces: Vec<String>,
    /// Environment of profilers: addresses of the infrastructure, by name of the variable.
    pub infrastructure: Vec<(&'static str, String)>,
}

impl RequestSettings {
    /// Reads the configuration of a process that serves `scope`.
    pub fn of(configuration: &OperatorConfiguration, scope: &Scope, args: RequestArgs) -> Self {
        let role = &configuration.rbac.dgdr_profiling_cluster_role_name;
        let cluster = *scope == Scope::Cluster;
        let addresses = &configuration.infrastructure;
        let infrastructure = [
            (env::ETCD_ENDPOINTS, &addresses.etcd_address),
            (env::MODEL_EXPRESS_URL, &addresses.model_express_url),
            (env::NATS_SERVER, &addresses.nats_address),
            (env::PROMETHEUS_ENDPOINT, &addresses.prometheus_endpoint),
        ];
        let given = infrastructure.into_iter().filter(|(_, address)| !address.is_empty());
        Self {
            args,
            profiling_role: cluster.then(|| role.clone()),
            gpu_discovery: configuration.gpu.discovery_enabled,
            exporter_namespaces: configuration.gpu.exporter_namespaces.clone(),
            infrastructure: given.map(|(name, address)| (name, address.clone())).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use controller_kit::settings::{API_VERSION, KIND, parse};

    use super::*;

    fn read(text: &str, scope: &Scope) -> RequestSettings {
        let (configuration, warnings) = parse(&format!("apiVersion: {API_VERSION}\nkind: {KIND}\n{text}")).unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        RequestSettings::of(&configuration, scope, RequestArgs::default())
    }

    #[test]
    fn the_role_of_profilers_is_bound_only_where_the_chart_cannot_have_bound_it() {
        let namespace = Scope::Namespace("team-a".into());
        assert_eq!(read("", &Scope::Cluster).profiling_role.as_deref(), Some("dynamo-operator-dgdr-profiling"));
        assert_eq!(read("", &namespace).profiling_role, None);
        let named = read("rbac: {dgdrProfilingClusterRoleName: r}", &Scope::Cluster);
        assert_eq!(named.profiling_role.as_deref(), Some("r"));
    }

    #[test]
    fn gpus_are_looked_up_unless_the_configuration_says_no() {
        let (off, namespace) = ("gpu: {discoveryEnabled: false}", Scope::Namespace("team-a".into()));
        for scope in [Scope::Cluster, namespace] {
            assert!(read("", &scope).gpu_discovery, "{scope:?}");
            assert!(!read(off, &scope).gpu_discovery, "{scope:?}");
        }
    }

    #[test]
    fn profilers_get_the_configured_addresses() {
        let reported =
            read("infrastructure: {natsAddress: 'nats://n', etcdAddress: e}", &Scope::Cluster).infrastructure;
        assert_eq!(reported, [("ETCD_ENDPOINTS", "e".to_owned()), ("NATS_SERVER", "nats://n".to_owned())]);
    }
}

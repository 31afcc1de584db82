//! What the operator's configuration says about graphs.

use controller_kit::settings::{self, Istio, OperatorConfiguration, Rbac};
use controller_kit::store::Scope;
use workload::DiscoveryBackend;

/// Where the operator is installed unless it is told.
const OPERATOR_NAMESPACE: &str = "dynamo-system";

/// What the operator's configuration says about graphs.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How graphs discover each other unless their annotation says otherwise.
    pub discovery: DiscoveryBackend,
    /// ClusterRoles of planners and endpoint pickers; none where one namespace is served, because the chart has bound them.
    pub roles: Option<Rbac>,
    /// Istio's settings, if it is the service mesh.
    pub istio: Option<Istio>,
    /// The SSH key with which the nodes of one replica start each other's processes; none if there is no such key.
    pub mpi_key: Option<MpiKey>,
    /// Whether LeaderWorkerSets are used where they are served.
    pub leader_worker_sets: bool,
}

/// A Secret that is copied to the namespaces of graphs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpiKey {
    /// Its name, there and here.
    pub name: String,
    /// Where the original is.
    pub namespace: String,
}

impl Settings {
    /// Reads the configuration of a process that serves `scope`. `own_namespace` is the operator's.
    pub fn of(configuration: &OperatorConfiguration, scope: &Scope, own_namespace: Option<String>) -> Self {
        let mpi = &configuration.mpi;
        let namespace = Some(mpi.ssh_secret_namespace.clone()).filter(|namespace| !namespace.is_empty());
        let namespace = namespace.or(own_namespace).unwrap_or_else(|| OPERATOR_NAMESPACE.to_owned());
        Self {
            discovery: match configuration.discovery.backend {
                settings::DiscoveryBackend::Kubernetes => DiscoveryBackend::Kubernetes,
                settings::DiscoveryBackend::Etcd => DiscoveryBackend::Etcd,
            },
            roles: (*scope == Scope::Cluster).then(|| configuration.rbac.clone()),
            istio: configuration.service_mesh.active_istio().cloned(),
            mpi_key: (!mpi.ssh_secret_name.is_empty()).then(|| MpiKey { name: mpi.ssh_secret_name.clone(), namespace }),
            leader_worker_sets: configuration.orchestrators.lws.enabled != Some(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_kit::settings::{API_VERSION, KIND, parse};

    fn read(text: &str, scope: &Scope) -> Settings {
        let (configuration, warnings) = parse(&format!("apiVersion: {API_VERSION}\nkind: {KIND}\n{text}")).unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        Settings::of(&configuration, scope, Some("operators".to_owned()))
    }

    #[test]
    fn accounts_are_bound_only_where_the_chart_cannot_have_bound_them() {
        let roles = read("", &Scope::Cluster).roles.unwrap();
        assert_eq!(roles.planner_cluster_role_name, "dynamo-operator-planner");
        assert!(read("", &Scope::Namespace("team-a".into())).roles.is_none());
    }

    #[test]
    fn the_mpi_key_is_in_the_operators_namespace_unless_it_is_told() {
        let key = |text| read(text, &Scope::Cluster).mpi_key.map(|key| format!("{}/{}", key.namespace, key.name));
        assert_eq!(key(""), None);
        assert_eq!(key("mpi: {sshSecretName: k}").as_deref(), Some("operators/k"));
        assert_eq!(key("mpi: {sshSecretName: k, sshSecretNamespace: n}").as_deref(), Some("n/k"));
    }
}

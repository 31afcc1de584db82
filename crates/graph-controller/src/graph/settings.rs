//! Settings of graphs from the operator's configuration.

use controller_kit::{
    settings::{Dns, Istio, OperatorConfiguration, Rbac},
    store::Scope,
};
use k8s_openapi::api::rbac::v1::RoleRef;
use rendering::{
    DiscoveryBackend, PodSettings,
    checkpoint::CheckpointConfig,
    grove::{GroveSettings, Scheduler},
};

/// Settings of graphs from the operator's configuration.
#[derive(Clone, Debug, Default)]
pub struct GraphSettings {
    /// Discovery backend of graphs without the annotation.
    pub discovery: DiscoveryBackend,
    /// ClusterRoles of planners and endpoint pickers; none in a restricted install, where the chart binds them.
    pub roles: Option<Rbac>,
    /// Role of discovery accounts; none: each graph has a Role of its own.
    pub discovery_role: Option<RoleRef>,
    /// The cluster's DNS.
    pub dns: Dns,
    /// Istio's settings, if it is the service mesh.
    pub istio: Option<Istio>,
    /// Secret with the SSH key for MPI; none if there is no such key.
    pub mpi_key: Option<String>,
    /// Whether LeaderWorkerSets are used where they are served.
    pub leader_worker_sets: bool,
    /// Grove.
    pub grove: Grove,
    /// Checkpoints; none if they are switched off.
    pub checkpoints: Option<CheckpointConfig>,
    /// Settings of pods, for graphs on Grove.
    pub pods: PodSettings,
}

/// Settings of Grove from the operator's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grove {
    /// Whether it is used where it is served.
    pub enabled: bool,
    /// Time for which less than the minimum of a gang may be available; none leaves it to Grove.
    pub termination_delay: Option<String>,
    /// Whether the KAI scheduler places pods; none: where it is served.
    pub kai: Option<bool>,
    /// Whether Volcano places pods.
    pub volcano: bool,
    /// Whether the configuration enables both schedulers.
    pub both_schedulers: bool,
}

impl Grove {
    fn of(configuration: &OperatorConfiguration) -> Self {
        let orchestrators = &configuration.orchestrators;
        let delay = orchestrators.grove.termination_delay;
        let (kai, volcano) =
            (orchestrators.kai_scheduler.enabled, orchestrators.volcano_scheduler.enabled == Some(true));
        Self {
            enabled: orchestrators.grove.enabled != Some(false),
            termination_delay: (!delay.0.is_zero()).then(|| delay.to_string()),
            kai: if volcano { kai.or(Some(false)) } else { kai },
            volcano,
            both_schedulers: volcano && kai == Some(true),
        }
    }

    /// The settings for rendering; `kai_served` says whether the cluster has the KAI scheduler.
    pub fn rendering(&self, kai_served: bool) -> GroveSettings {
        let scheduler = match (self.volcano, self.kai.unwrap_or(kai_served)) {
            (true, _) => Scheduler::Volcano,
            (false, true) => Scheduler::Kai,
            (false, false) => Scheduler::Default,
        };
        GroveSettings { termination_delay: self.termination_delay.clone(), scheduler }
    }
}

impl GraphSettings {
    /// Reads the configuration of a process that serves `scope`.
    pub fn of(configuration: &OperatorConfiguration, scope: &Scope) -> Self {
        let (in_cluster, discovery_role) = (*scope == Scope::Cluster, &configuration.rbac.discovery_role_name);
        let kind = if in_cluster { "ClusterRole" } else { "Role" };
        Self {
            discovery: configuration.discovery.backend,
            roles: in_cluster.then(|| configuration.rbac.clone()),
            discovery_role: (!discovery_role.is_empty()).then(|| role_ref(kind, discovery_role)),
            dns: configuration.dns.clone(),
            istio: configuration.service_mesh.active_istio().cloned(),
            mpi_key: Some(configuration.mpi.ssh_secret_name.clone()).filter(|name| !name.is_empty()),
            leader_worker_sets: configuration.orchestrators.lws.enabled != Some(false),
            grove: Grove::of(configuration),
            checkpoints: configuration.checkpoint.if_enabled(),
            pods: configuration.pods(),
        }
    }
}

/// The reference of a binding to its role.
pub fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef { api_group: Some("rbac.authorization.k8s.io".to_owned()), kind: kind.to_owned(), name: name.to_owned() }
}

#[cfg(test)]
mod tests {
    use controller_kit::settings::{API_VERSION, KIND, parse};

    use super::*;

    fn read(text: &str, scope: &Scope) -> GraphSettings {
        let (configuration, warnings) = parse(&format!("apiVersion: {API_VERSION}\nkind: {KIND}\n{text}")).unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        GraphSettings::of(&configuration, scope)
    }

    #[test]
    fn accounts_are_bound_only_where_the_chart_cannot_have_bound_them() {
        let roles = read("", &Scope::Cluster).roles.unwrap();
        assert_eq!(roles.planner_cluster_role_name, "dynamo-operator-planner");
        assert!(read("", &Scope::Namespace("team-a".into())).roles.is_none());
    }

    #[test]
    fn the_role_of_discovery_accounts_is_where_the_install_is() {
        let role = |text: &str, scope: &Scope| read(text, scope).discovery_role.map(|role| (role.kind, role.name));
        let named = "rbac: {discoveryRoleName: d}";
        assert_eq!(role(named, &Scope::Cluster), Some(("ClusterRole".to_owned(), "d".to_owned())));
        assert_eq!(role(named, &Scope::Namespace("team-a".into())), Some(("Role".to_owned(), "d".to_owned())));
        assert_eq!(role("", &Scope::Cluster), None, "a configuration of an earlier release");
    }

    #[test]
    fn volcano_is_configured_and_kai_is_found() {
        let scheduler = |text: &str, served| read(text, &Scope::Cluster).grove.rendering(served).scheduler;
        assert_eq!(scheduler("", true), Scheduler::Kai);
        assert_eq!(scheduler("", false), Scheduler::Default);
        assert_eq!(scheduler("orchestrators: {kaiScheduler: {enabled: false}}", true), Scheduler::Default);
        assert_eq!(scheduler("orchestrators: {volcanoScheduler: {enabled: true}}", true), Scheduler::Volcano);
        let both = "orchestrators: {volcanoScheduler: {enabled: true}, kaiScheduler: {enabled: true}}";
        assert!(read(both, &Scope::Cluster).grove.both_schedulers);
    }

    #[test]
    fn groves_delay_is_written_as_groves_own() {
        let delay = |text| read(text, &Scope::Cluster).grove.termination_delay;
        assert_eq!(delay("").as_deref(), Some("15m0s"));
        assert_eq!(delay("orchestrators: {grove: {terminationDelay: 4h}}").as_deref(), Some("4h0m0s"));
        assert_eq!(delay("orchestrators: {grove: {terminationDelay: 0s}}"), None);
    }
}

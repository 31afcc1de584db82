//! What the chart has prepared for the accounts of pods.

use serde::Deserialize;

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

//! What the chart has prepared for the accounts of pods.

use serde::Deserialize;

/// ClusterRoles that accounts in a graph's namespace are bound to. Only cluster-wide installs bind them.
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
}

impl Default for Rbac {
    fn default() -> Self {
        Self {
            planner_cluster_role_name: "dynamo-operator-planner".to_owned(),
            epp_cluster_role_name: "dynamo-operator-epp".to_owned(),
            dgdr_profiling_cluster_role_name: "dynamo-operator-dgdr-profiling".to_owned(),
        }
    }
}

//! Status of a `DynamoGraphDeployment`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Observed state of a graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["state"]))]
#[serde(rename_all = "camelCase")]
pub struct DynamoGraphDeploymentStatus {
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// State of the graph; the conditions have the details.
    #[serde(default)]
    pub state: GraphState,
    /// Standard Kubernetes conditions; `Ready`, `Reconciling` and `Stalled` follow kstatus.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Replica counts by component name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub components: BTreeMap<String, ComponentReplicaStatus>,
    /// Progress of the last requested restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<RestartStatus>,
    /// Checkpoints by component name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub checkpoints: BTreeMap<String, CheckpointStatus>,
    /// Progress of the last change of worker revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdateStatus>,
    /// Quality of the placement, where a provider reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementStatus>,
}

/// State of a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GraphState {
    /// Not reconciled yet.
    // The conversion of the upstream operator stores an empty text for graphs that were written in v1alpha1.
    #[default]
    #[serde(alias = "")]
    Initializing,
    /// Children are coming up or changing.
    Pending,
    /// Everything is ready at the current generation.
    Successful,
    /// Needs a change by the user; the conditions name it.
    Failed,
}

impl GraphState {
    /// The name in a status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Initializing => "initializing",
            Self::Pending => "pending",
            Self::Successful => "successful",
            Self::Failed => "failed",
        }
    }
}

/// Replica counts of one component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentReplicaStatus {
    /// Kind of the objects that run the component.
    pub component_kind: ComponentKind,
    /// Names of those objects; in a rolling update old and new ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub component_names: Vec<String>,
    /// Dynamo namespace under which the serving pods register.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_namespace: Option<String>,
    /// Pods that exist.
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// Pods of the current revision.
    #[schemars(range(min = 0))]
    pub updated_replicas: i32,
    /// Pods that are ready; absent where the kind does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ready_replicas: Option<i32>,
    /// Pods that are available; absent where the kind does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub available_replicas: Option<i32>,
    /// Pods that are scheduled; absent where the kind does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub scheduled_replicas: Option<i32>,
}

impl ComponentReplicaStatus {
    /// Pods that serve: those that are ready, or available where the kind does not report ready ones.
    pub fn serving(&self) -> Option<i32> {
        self.ready_replicas.or(self.available_replicas)
    }
}

/// Kind of object that runs a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ComponentKind {
    /// Grove PodClique.
    PodClique,
    /// Grove PodCliqueScalingGroup.
    PodCliqueScalingGroup,
    /// Kubernetes Deployment.
    Deployment,
    /// LeaderWorkerSet.
    LeaderWorkerSet,
}

impl ComponentKind {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PodClique => "PodClique",
            Self::PodCliqueScalingGroup => "PodCliqueScalingGroup",
            Self::Deployment => "Deployment",
            Self::LeaderWorkerSet => "LeaderWorkerSet",
        }
    }
}

/// Progress of a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestartStatus {
    /// The `spec.restart.id` that this status describes.
    #[serde(default, rename = "observedID", skip_serializing_if = "Option::is_none")]
    pub observed_id: Option<String>,
    /// Phase of the restart: `Pending`, `Restarting`, `Completed`, `Failed` or `Superseded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub phase: Option<RestartPhase>,
    /// Components being restarted right now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_progress: Option<Vec<String>>,
}

/// Phase of a restart. The schema accepts any word here, as the schema of the upstream operator does: a status that
/// another version wrote must stay readable and writable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestartPhase {
    /// Not begun.
    Pending,
    /// Under way.
    Restarting,
    /// Done.
    Completed,
    /// Given up.
    Failed,
    /// Overtaken by a rolling update.
    Superseded,
    /// An unknown phase: nothing is known about the restart.
    #[serde(untagged)]
    Other(String),
}

/// Checkpoint of one component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointStatus {
    /// Name of the DynamoCheckpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_name: Option<String>,
    /// Identifier of its artifact.
    #[serde(default, rename = "checkpointID", skip_serializing_if = "Option::is_none")]
    pub checkpoint_id: Option<String>,
    /// Deprecated, the same as `checkpointID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_hash: Option<String>,
    /// Whether pods can be restored from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
}

/// Progress of a change of worker revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdateStatus {
    /// Phase of the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RollingUpdatePhase>,
    /// Time at which the new revision was first observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub start_time: Option<Time>,
    /// Time at which the last old worker was gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub end_time: Option<Time>,
    /// Components whose new revision serves alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_components: Option<Vec<String>>,
}

/// Phase of a change of worker revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RollingUpdatePhase {
    /// Seen, nothing changed yet.
    Pending,
    /// Old and new workers exist.
    InProgress,
    /// Only new workers exist.
    Completed,
    /// Given up.
    Failed,
    /// Never begun (written by older operators).
    #[serde(rename = "")]
    None,
}

/// Quality of a graph's placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStatus {
    /// 0 (worst) to 1 (best).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub score: Option<f64>,
    /// Origin of the score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<PlacementState>,
}

/// Origin of a placement score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PlacementState {
    /// All components report.
    Reported,
    /// Some components report.
    Partial,
    /// The provider does not report.
    Unsupported,
    /// Not known.
    Unknown,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_graph_that_was_never_looked_at_is_initializing_however_that_is_stored() {
        for (given, read) in [
            (json!({ "state": "" }), GraphState::Initializing),
            (json!({}), GraphState::Initializing),
            (json!({ "state": "initializing" }), GraphState::Initializing),
            (json!({ "state": "failed" }), GraphState::Failed),
        ] {
            let status: DynamoGraphDeploymentStatus = serde_json::from_value(given).unwrap();
            assert_eq!(status.state, read);
        }
        assert_eq!(json!(GraphState::default()), json!("initializing"), "and written so");
    }
}

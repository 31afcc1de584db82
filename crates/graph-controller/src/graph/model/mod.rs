//! Data of a graph's reconcile: what was observed, what is valid, what is planned, what was applied. Nothing here
//! plans.

mod applied;
mod observed;
mod obstacle;
mod plan;
mod rollout;
mod valid;

pub use self::{
    applied::{AppliedPlan, GraphApplied, GraphWrites, LabelingResult, Tally, Troubles},
    observed::{
        ClusterApis, GraphObserved, LegacyResources, LiveCheckpoints, LiveGrove, MARKS, RunningPods, is_controller,
        is_current, is_stalled,
    },
    obstacle::{GraphBlocked, GraphObstacle, ObstacleProgress},
    plan::{
        Adapters, Capture, Child, ComponentCheckpoint, DesiredCheckpoint, GraphObjects, GraphPlan, GraphVolume,
        GrovePlan, GroveScale, Removal, Rollout, SharedAccount,
    },
    rollout::{RolloutCondition, RolloutRecord},
    valid::ValidGraph,
};

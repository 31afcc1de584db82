//! Data of a graph's reconcile: what was observed, what is valid, what is planned, what was applied. Nothing here
//! plans.

mod applied;
mod needs;
mod observed;
mod obstacle;
mod plan;
mod rollout;
mod valid;

pub use self::{
    applied::{GraphApplied, Tally, Troubles},
    needs::{ClusterApis, GraphNeeds, GraphTarget, GroveNeeds, LegacyResources, Reads, TopologyNeed},
    observed::{GraphObserved, LiveCheckpoints, LiveGrove, MARKS, RunningPods, is_controller, is_current, is_stalled},
    obstacle::{GraphBlocked, GraphObstacle, ObstacleProgress},
    plan::{
        Adapters, Capture, Child, ComponentCheckpoint, DesiredCheckpoint, GraphObjects, GraphPlan, GraphVolume,
        GrovePlan, GroveScale, Removal, Rollout, SharedAccount,
    },
    rollout::{RolloutCondition, RolloutHold, RolloutRecord},
    valid::{ValidGraph, ValidationContext},
};

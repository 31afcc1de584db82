//! Data of a graph's reconcile: what was observed, what is valid, what is planned, what was applied. Nothing here
//! decides.

mod applied;
mod needs;
mod observed;
mod obstacle;
mod plan;
mod rollout;
mod valid;

pub use self::{
    applied::{Applied, Tally, Troubles},
    needs::{GroveNeeds, LegacyResources, Needs, Reads, Served, Target, TopologyNeed},
    observed::{LiveCheckpoints, LiveGrove, MARKS, Observed, RunningPods, is_controller, is_current, is_stalled},
    obstacle::{Blocked, Obstacle, Progress},
    plan::{
        Adapters, Capture, Child, ComponentCheckpoint, DesiredCheckpoint, GraphVolume, GrovePlan, Objects, Plan,
        Removal, Rollout, Scale, SharedAccount,
    },
    rollout::{RolloutCondition, RolloutHold, RolloutRecord},
    valid::{ValidGraph, ValidationContext},
};

//! Data of a graph's reconcile: what was observed, what is valid, what is planned, what was applied. Nothing here
//! decides.

mod applied;
mod needs;
mod observed;
mod plan;
mod valid;

pub use self::{
    applied::{Applied, Tally, Troubles},
    needs::{GroveNeeds, Needs, Reads, Target, TopologyNeed},
    observed::{
        Cached, LegacyResources, LiveCheckpoints, LiveGrove, MARKS, Observed, RunningPods, Served, is_current,
        is_stalled,
    },
    plan::{
        Adapters, Capture, Child, ComponentCheckpoint, DesiredCheckpoint, GraphVolume, GrovePlan, Objects, Plan,
        Removal, Rollout, Scale, SharedAccount,
    },
    valid::{Obstacle, Progress, ValidGraph, ValidationContext},
};

//! Components whose replicas span nodes, as LeaderWorkerSets.

mod readiness;
mod render;
mod types;

pub use render::{excess_of_names, render_leader_worker_set, validate_leader_worker_set};
pub use types::{
    GroupRollingUpdate, GroupRollout, LeaderWorkerSet, LeaderWorkerSetSpec, LeaderWorkerSetStatus,
    LeaderWorkerTemplate, NetworkConfig, note_status_before,
};

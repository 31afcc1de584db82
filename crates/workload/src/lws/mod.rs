//! Components whose replicas span nodes, as LeaderWorkerSets.

mod readiness;
mod render;
mod types;
mod validate;

pub use render::render_leader_worker_set;
pub use types::{
    GroupRollingUpdate, GroupRollout, LeaderWorkerSet, LeaderWorkerSetSpec, LeaderWorkerSetStatus,
    LeaderWorkerTemplate, NetworkConfig,
};
pub use validate::validate_leader_worker_set;

//! Components whose replicas span nodes, as LeaderWorkerSets.

mod observed;
mod readiness;
mod render;
mod types;
mod validate;

pub use observed::note_status_before;
pub use render::render_leader_worker_set;
pub use types::{
    GroupRollingUpdate, GroupRollout, LeaderWorkerSet, LeaderWorkerSetSpec, LeaderWorkerSetStatus,
    LeaderWorkerTemplate, NetworkConfig,
};
pub use validate::{excess_of_names, validate_leader_worker_set};

//! Checkpoints of engine processes: pods that are captured, and pods that start from what was captured.
//!
//! An agent on the node takes and restores the processes of a container. It finds its task in a pod's labels and
//! annotations, and meets the engine in a folder of the pod. The agent is not ours: names and files here are its protocol.
//!
//! | file | what |
//! |---|---|
//! | `identity` | what a checkpoint is called |
//! | `storage` | where it is kept |
//! | `restore` | pods that start from one |
//! | `control` | the folder in which agent and engine meet |

mod control;
mod identity;
mod restore;
mod storage;

pub use identity::{checkpoint_id, graph_checkpoint_id};
pub use restore::{Restore, RestoreSource, restore_pod};
pub use storage::{SnapshotStorage, StorageProblem, StorageSettings, render_storage_claim, storage_of_agents};

/// Version of a checkpoint's artifact where nothing else is said.
pub const FIRST_ARTIFACT: &str = "1";

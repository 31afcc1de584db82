//! Checkpoints of engine processes: pods that are captured, and pods that start from what was captured.
//!
//! An agent on the node takes and restores the processes of a container. It finds its task in a pod's labels and
//! annotations, and meets the engine in a folder of the pod. The agent is not ours: names and files here are its protocol.
//!
//! | file | what |
//! |---|---|
//! | `identity` | what a checkpoint is called |
//! | `storage` | where it is kept |
//! | `settings` | what an administrator says |
//! | `restore` | pods that start from one |
//! | `capture`, `claims`, `prepared` | the Job whose pod is captured |
//! | `cleanup` | the Job that removes what a checkpoint kept |
//! | `control` | the folder in which agent and engine meet |

mod capture;
mod claims;
mod cleanup;
mod control;
mod identity;
mod prepared;
mod restore;
mod settings;
mod storage;

pub use capture::{CaptureSettings, artifact_version, claims_of, render_capture_job};
pub use claims::{Claim, ClaimSource};
pub use cleanup::{DEFAULT_CLEANUP_IMAGE, render_cleanup_job};
pub use identity::{checkpoint_id, graph_checkpoint_id, identity_id};
pub use prepared::check_shared_gpu_memory;
pub use restore::{Restore, RestoreSource, restore_pod, share_gpu_memory};
pub use settings::{DEFAULT_SECCOMP_PROFILE, SnapshotSettings};
pub use storage::{SnapshotStorage, StorageProblem, StorageSettings, render_storage_claim, storage_of_agents};

/// Version of a checkpoint's artifact where nothing else is said.
pub const FIRST_ARTIFACT: &str = "1";

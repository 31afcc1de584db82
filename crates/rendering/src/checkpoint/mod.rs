//! Checkpoints of engine processes: pods that are captured, and pods that start from what was captured.
//!
//! An agent on the node takes and restores the processes of a container. It finds its task in a pod's labels and
//! annotations, and meets the engine in a folder of the pod. The agent is not ours: names and files here are its
//! protocol.
//!
//! | file | what |
//! |---|---|
//! | `identity` | what a checkpoint is called |
//! | `storage` | where it is kept |
//! | `model` | configuration, storage, and how pods start, as data |
//! | `start` | from what is known, how pods start |
//! | `restore` | pods that start from one, and the folder in which agent and engine meet |
//! | `captured_pod`, `overlay` | the pod that is captured for a component of a graph |
//! | `capture` | the Job whose pod is captured |
//! | `cleanup` | the Job that removes what a checkpoint kept |

mod capture;
mod captured_pod;
mod cleanup;
mod identity;
mod model;
mod overlay;
mod restore;
mod start;
mod storage;

pub use capture::{CaptureSettings, artifact_version, claims_of, render_capture_job};
pub use captured_pod::{CapturedComponent, CapturedPod, check_shared_gpu_memory, render_captured_pod};
pub use cleanup::{DEFAULT_CLEANUP_IMAGE, render_cleanup_job};
pub use identity::{checkpoint_id, graph_checkpoint_id, identity_id};
pub use model::{
    CheckpointConfig, CheckpointStorage, DEFAULT_SECCOMP_PROFILE, FIRST_ARTIFACT, Restore, RestoreSource,
    StorageSettings,
};
pub use restore::{restore_pod, share_gpu_memory};
pub use start::{CheckpointFacts, Start, start};
pub use storage::{StorageLocation, StorageProblem, render_storage_claim, storage_of_agents};

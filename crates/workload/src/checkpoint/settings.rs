//! What an administrator says about checkpoints.

use super::StorageSettings;

/// Profile of captured and restored processes: it keeps them from system calls whose state cannot be captured.
pub const DEFAULT_SECCOMP_PROFILE: &str = "profiles/block-iouring.json";

/// What an administrator says about checkpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointConfig {
    /// Where they are kept.
    pub storage: StorageSettings,
    /// Profile of captured and restored processes, a path below the node's profiles; `None` for none.
    pub seccomp_profile: Option<String>,
    /// Image of the Job that removes what a checkpoint kept; a default if empty.
    pub cleanup_image: String,
}

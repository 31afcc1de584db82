//! Data of checkpoints: configuration, storage, and how pods start from one.

use serde::{Deserialize, Serialize};

/// Version of a checkpoint's artifact where nothing else is said.
pub const FIRST_ARTIFACT: &str = "1";

/// Profile of captured and restored processes: it keeps them from system calls whose state cannot be captured.
pub const DEFAULT_SECCOMP_PROFILE: &str = "profiles/block-iouring.json";

/// Configuration of checkpoints by an administrator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointConfig {
    /// Storage of the checkpoints.
    pub storage: StorageSettings,
    /// Profile of captured and restored processes, a path below the node's profiles; `None` for none.
    pub seccomp_profile: Option<String>,
    /// Image of the Job that removes what a checkpoint kept; a default if empty.
    pub cleanup_image: String,
}

/// A volume of a namespace on which checkpoints are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointStorage {
    /// Name of its PersistentVolumeClaim.
    pub claim: String,
    /// Folder at which pods mount it; absolute, without a slash at its end.
    pub folder: String,
}

/// Configuration of storage by an administrator. The block `pvc` of the operator's configuration has all but the kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StorageSettings {
    /// Kind of storage; only `pvc` is served.
    #[serde(skip)]
    pub kind: String,
    /// Name of the PersistentVolumeClaim in each namespace that needs one.
    #[serde(rename = "pvcName")]
    pub claim: String,
    /// Folder at which pods mount it.
    #[serde(rename = "basePath")]
    pub folder: String,
    /// Whether the claim is made where it is missing.
    pub create: bool,
    /// Size of a claim that is made.
    pub size: String,
    /// Storage class of it; the cluster's default if empty.
    #[serde(rename = "storageClassName")]
    pub storage_class: String,
    /// Access mode of it; `ReadWriteMany` if empty.
    pub access_mode: String,
}

/// Method by which the pods of a component start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// Cold.
    Cold,
    /// From the checkpoint of that name if it is ready when they are created; admission sees to it, so that a template
    /// does not change, and nothing rolls, when the checkpoint becomes ready.
    AtAdmission(String),
    /// Not before the checkpoint is ready; why not yet.
    Awaited(String),
    /// From this checkpoint, which is ready; the template says so.
    Restored(Box<RestoreSource>),
}

/// A checkpoint that is ready, and what pods need to start from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreSource {
    /// Its identifier.
    pub id: String,
    /// Version of its artifact; the first if empty.
    pub artifact_version: String,
    /// Storage of the checkpoint.
    pub storage: CheckpointStorage,
    /// Whether the pod names the storage, because an administrator configured it and not the agents.
    pub tells_storage: bool,
    /// Profile under which captured processes ran, a path below the node's profiles; `None` for none.
    pub seccomp_profile: Option<String>,
    /// Whether its processes use GPU memory that a server beside them holds.
    pub shares_gpu_memory: bool,
}

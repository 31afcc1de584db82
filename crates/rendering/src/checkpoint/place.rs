//! Where the checkpoints of a namespace are kept, as far as that is known.

use super::{CheckpointStorage, StorageProblem};

/// Where the checkpoints of one namespace are kept, as far as that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StorageLocation {
    /// Unknown: neither the settings nor an agent in the namespace name it.
    #[default]
    Unknown,
    /// The settings say something that cannot be.
    Invalid(StorageProblem),
    /// An agent mounts it.
    OfAgent(CheckpointStorage),
    /// The settings name it.
    Named {
        /// What they name.
        storage: CheckpointStorage,
        /// Whether the claim exists.
        exists: bool,
    },
}

impl StorageLocation {
    /// The storage, if it is known.
    pub fn storage(&self) -> Option<&CheckpointStorage> {
        match self {
            Self::OfAgent(storage) | Self::Named { storage, .. } => Some(storage),
            Self::Unknown | Self::Invalid(_) => None,
        }
    }

    /// The storage, if an administrator chose it.
    pub fn named(&self) -> Option<&CheckpointStorage> {
        match self {
            Self::Named { storage, .. } => Some(storage),
            Self::Unknown | Self::Invalid(_) | Self::OfAgent(_) => None,
        }
    }

    /// What is in the way of using it, in words.
    pub fn hindrance(&self, namespace: &str) -> Option<String> {
        match self {
            Self::Unknown => Some(format!(
                "the operator's configuration names no checkpoint.storage.pvc, and namespace {namespace} has no agent \
                 whose DaemonSet mounts a claim for checkpoints"
            )),
            Self::Invalid(problem) => Some(problem.to_string()),
            Self::Named { storage, exists: false } => Some(format!(
                "PersistentVolumeClaim {namespace}/{}, which the operator's configuration names for checkpoints, does \
                 not exist",
                storage.claim
            )),
            Self::OfAgent(_) | Self::Named { exists: true, .. } => None,
        }
    }
}

//! Checkpoints of workers.

use rendering::checkpoint::{CheckpointConfig, DEFAULT_SECCOMP_PROFILE, StorageSettings};
use serde::Deserialize;

/// Checkpoints of workers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct Checkpoint {
    /// Default false.
    pub enabled: bool,
    /// Profile of captured and restored processes.
    pub seccomp: Seccomp,
    /// Where checkpoints are kept.
    pub storage: Storage,
    /// Image of the Job that removes what a checkpoint kept; it needs a shell and `rm`. Default `busybox:1.36`.
    pub cleanup_image: String,
}

/// Profile of captured and restored processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct Seccomp {
    /// No profile. Default false.
    pub disabled: bool,
    /// Path below the node's profiles. Default `profiles/block-iouring.json`.
    pub profile: String,
}

/// Where checkpoints are kept. Nothing said: where the agent of a namespace keeps them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct Storage {
    /// `pvc`, the default, is served.
    #[serde(rename = "type")]
    pub kind: String,
    /// The volume.
    pub pvc: StorageClaim,
}

/// The volume that keeps checkpoints, in each namespace that needs one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct StorageClaim {
    /// Name of the PersistentVolumeClaim.
    pub pvc_name: String,
    /// Folder at which pods mount it.
    pub base_path: String,
    /// Whether it is made where it is missing. Default false.
    pub create: bool,
    /// Size of a claim that is made.
    pub size: String,
    /// Storage class of it. Default: the cluster's.
    pub storage_class_name: String,
    /// Access mode of it. Default `ReadWriteMany`.
    pub access_mode: String,
}

impl Checkpoint {
    /// The settings as they are used; `None` if checkpoints are switched off.
    #[must_use]
    pub fn snapshots(&self) -> Option<CheckpointConfig> {
        let profile = self.seccomp.profile.trim();
        let profile = if profile.is_empty() { DEFAULT_SECCOMP_PROFILE } else { profile };
        let pvc = &self.storage.pvc;
        self.enabled.then(|| CheckpointConfig {
            storage: StorageSettings {
                kind: self.storage.kind.clone(),
                claim: pvc.pvc_name.clone(),
                folder: pvc.base_path.clone(),
                create: pvc.create,
                size: pvc.size.clone(),
                storage_class: pvc.storage_class_name.clone(),
                access_mode: pvc.access_mode.clone(),
            },
            seccomp_profile: (!self.seccomp.disabled).then(|| profile.to_owned()),
            cleanup_image: self.cleanup_image.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Checkpoint;

    #[test]
    fn settings_are_there_where_checkpoints_are_switched_on() {
        let read = |value: Value| serde_json::from_value::<Checkpoint>(value).unwrap().snapshots();
        assert_eq!(read(json!({"storage": {"pvc": {"pvcName": "c"}}})), None);
        let storage = json!({"type": "pvc", "pvc": {"pvcName": "c", "basePath": "/c", "create": true, "size": "1Gi",
            "storageClassName": "fast", "accessMode": "ReadWriteOnce"}});
        let named = read(json!({"enabled": true, "storage": storage, "cleanupImage": "i"})).unwrap();
        assert_eq!(named.storage.storage().unwrap().unwrap().claim, "c");
        assert_eq!((named.storage.size.as_str(), named.cleanup_image.as_str()), ("1Gi", "i"));
        let profile = |seccomp: Value| read(json!({"enabled": true, "seccomp": seccomp})).unwrap().seccomp_profile;
        assert_eq!(profile(json!({})).as_deref(), Some("profiles/block-iouring.json"));
        assert_eq!(profile(json!({"profile": "own.json"})).as_deref(), Some("own.json"));
        assert_eq!(profile(json!({"disabled": true, "profile": "own.json"})), None);
    }
}

//! Caches of checkpoints and of their storage, shared by the controllers of components and of checkpoints.

use api_types::v1alpha1::DynamoCheckpoint;
use controller_kit::store::{Key, Packed, Store, UnpackError};
use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::PersistentVolumeClaim};
use kube::core::PartialObjectMeta;
use rendering::checkpoint::{CheckpointConfig, StorageLocation, checkpoint_id, storage_of_agents};

/// The caches, and the configuration.
#[derive(Clone)]
pub struct CheckpointCaches {
    /// `None` if checkpoints are switched off.
    pub config: Option<CheckpointConfig>,
    /// All checkpoints.
    pub checkpoints: Store<Packed<DynamoCheckpoint>>,
    /// DaemonSets of the agents that capture and restore pods.
    pub agents: Store<Packed<DaemonSet>>,
    /// PersistentVolumeClaims of the configured name; `None` if none is configured.
    pub volumes: Option<Store<PartialObjectMeta<PersistentVolumeClaim>>>,
}

impl CheckpointCaches {
    /// Waits until all caches are complete: a partial cache would report missing objects.
    pub async fn wait_until_ready(&self) {
        self.checkpoints.wait_until_ready().await;
        self.agents.wait_until_ready().await;
        if let Some(volumes) = &self.volumes {
            volumes.wait_until_ready().await;
        }
    }

    /// The checkpoint of a name.
    ///
    /// # Errors
    /// If the cached object does not have the shape of its kind.
    pub fn checkpoint(&self, namespace: &str, name: &str) -> Result<Option<DynamoCheckpoint>, UnpackError> {
        self.checkpoints.get(&Key::new(namespace, name)).map(|packed| packed.unpack()).transpose()
    }

    /// Checkpoints of a namespace with an identifier, without unreadable ones.
    pub fn with_id(&self, namespace: &str, id: &str) -> Vec<DynamoCheckpoint> {
        let all = self.checkpoints.all();
        let here = all.iter().filter(|packed| packed.metadata.namespace.as_deref() == Some(namespace));
        here.filter_map(|packed| packed.unpack().ok()).filter(|found| checkpoint_id(found) == id).collect()
    }

    /// Where the checkpoints of a namespace are stored.
    pub fn storage_location(&self, namespace: &str) -> StorageLocation {
        let config = self.config.clone().unwrap_or_default();
        match config.storage.storage() {
            Err(problem) => StorageLocation::Invalid(problem),
            Ok(Some(storage)) => {
                let key = Key::new(namespace, &storage.claim);
                let exists = self.volumes.as_ref().is_none_or(|volumes| volumes.get(&key).is_some());
                StorageLocation::Named { storage, exists }
            }
            Ok(None) => {
                let all = self.agents.all();
                let here = all.iter().filter(|agent| agent.metadata.namespace.as_deref() == Some(namespace));
                let agents: Vec<DaemonSet> = here.filter_map(|agent| agent.unpack().ok()).collect();
                storage_of_agents(&agents).map_or(StorageLocation::Unknown, StorageLocation::OfAgent)
            }
        }
    }
}

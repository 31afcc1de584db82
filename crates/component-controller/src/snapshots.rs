//! What both controllers of this process know about checkpoints: the administrator's settings, where checkpoints are kept,
//! and which there are.

use api_types::v1alpha1::DynamoCheckpoint;
use controller_kit::store::{Key, Packed, Store, UnpackError};
use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::PersistentVolumeClaim};
use kube::core::PartialObjectMeta;
pub use workload::checkpoint::StorageLocation;
use workload::checkpoint::{CheckpointConfig, checkpoint_id, storage_of_agents};

/// The caches, and the settings.
#[derive(Clone)]
pub struct Snapshots {
    /// `None` if checkpoints are switched off.
    pub settings: Option<CheckpointConfig>,
    /// All checkpoints.
    pub checkpoints: Store<Packed<DynamoCheckpoint>>,
    /// DaemonSets of the agents that take and restore checkpoints.
    pub agents: Store<Packed<DaemonSet>>,
    /// Claims of the name that the settings give; `None` if they give none.
    pub claims: Option<Store<PartialObjectMeta<PersistentVolumeClaim>>>,
}

impl Snapshots {
    /// Waits until all caches are complete: half of one tells of lacks that there are none.
    pub async fn complete(&self) {
        self.checkpoints.wait_until_ready().await;
        self.agents.wait_until_ready().await;
        if let Some(claims) = &self.claims {
            claims.wait_until_ready().await;
        }
    }

    /// The checkpoint of that name.
    ///
    /// # Errors
    /// If the cached object does not have the shape of its kind.
    pub fn checkpoint(&self, namespace: &str, name: &str) -> Result<Option<DynamoCheckpoint>, UnpackError> {
        self.checkpoints.get(&Key::new(namespace, name)).map(|packed| packed.unpack()).transpose()
    }

    /// Checkpoints of a namespace with that identifier; those that cannot be read are left out.
    pub fn with_id(&self, namespace: &str, id: &str) -> Vec<DynamoCheckpoint> {
        let all = self.checkpoints.all();
        let here = all.iter().filter(|packed| packed.metadata.namespace.as_deref() == Some(namespace));
        here.filter_map(|packed| packed.unpack().ok()).filter(|found| checkpoint_id(found) == id).collect()
    }

    /// Where the checkpoints of a namespace are kept.
    pub fn place(&self, namespace: &str) -> StorageLocation {
        let settings = self.settings.clone().unwrap_or_default();
        match settings.storage.storage() {
            Err(problem) => StorageLocation::Invalid(problem),
            Ok(Some(storage)) => {
                let key = Key::new(namespace, &storage.claim);
                let exists = self.claims.as_ref().is_none_or(|claims| claims.get(&key).is_some());
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

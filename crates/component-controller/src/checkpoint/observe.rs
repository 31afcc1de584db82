//! Reads everything that the plan of a checkpoint depends on.
//!
//! The controllers of components and of checkpoints share the caches of checkpoints and of their storage.

use api_types::{external::PodSnapshot, labels, names, v1alpha1::DynamoCheckpoint, v1beta1::DEFAULT_DEVICE_CLASS};
use controller_kit::{
    apply::Applier,
    device_claims::spec_of,
    pods::{JobWaits, PodDiagnostics},
    request::Interruption,
    store::{Key, Packed, Store},
};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::DaemonSet,
        batch::v1::Job,
        core::v1::{PersistentVolumeClaim, Pod},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{ResourceExt, core::PartialObjectMeta};
use rendering::{
    PodDiagnosis,
    checkpoint::{CheckpointConfig, StorageLocation, artifact_version, checkpoint_id, claims_of, storage_of_agents},
};

use super::model::CheckpointObserved;

/// Reads the caches, and what no cache holds.
pub struct CheckpointObserver {
    /// Reads device claims.
    pub applier: Applier,
    /// Jobs that carry the identifier of a checkpoint.
    pub jobs: Store<Packed<Job>>,
    /// Pods that are being captured.
    pub captured: Store<PartialObjectMeta<Pod>>,
    /// PodSnapshots.
    pub captures: Store<Packed<PodSnapshot>>,
    /// Caches that the controller of components shares.
    pub checkpoints: CheckpointCaches,
    /// Diagnoses pods that do not start.
    pub pods: PodDiagnostics<PodDiagnosis>,
}

impl CheckpointObserver {
    /// Observes one checkpoint.
    ///
    /// # Errors
    /// An unreadable cached child, or a failed request.
    pub async fn observe(&self, checkpoint: DynamoCheckpoint) -> Result<CheckpointObserved, Interruption> {
        self.checkpoints.wait_until_ready().await;
        let Key { namespace, name } = Key::of(&checkpoint);
        let uid = checkpoint.metadata.uid.clone().unwrap_or_default();
        let id = checkpoint_id(&checkpoint);
        let desired = names::checkpoint_job(&id, artifact_version(&checkpoint));
        let jobs = self.jobs.children_of(&uid);
        let jobs = jobs.iter().map(|packed| packed.unpack()).collect::<Result<Vec<_>, _>>()?;
        let (mut own, other_jobs): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| job.name_any() == desired);
        let job = own.pop();
        let cleanup = Key::new(&namespace, &names::checkpoint_cleanup_job(&id));
        let pod = job.as_ref().and_then(|job| self.pod_of(job));
        if pod.is_some() {
            self.captures.need();
        }
        let capture = self.captures.get(&Key::new(&namespace, &name));
        Ok(CheckpointObserved {
            elder: self.elder(&checkpoint, &namespace, &id),
            waits: self.waits(&checkpoint, job.as_ref()).await,
            pod,
            is_captured: self.is_captured(&namespace, &name),
            cleanup: self.jobs.get(&cleanup).map(|packed| packed.unpack()).transpose()?,
            capture: capture.map(|packed| packed.unpack()).transpose()?,
            serves_captures: self.captures.is_served(),
            location: self.checkpoints.storage_location(&namespace),
            claimed_gpus: match job {
                Some(_) => Ok(0),
                // A deletion creates no capturing Job, and does not wait for claims.
                None if checkpoint.metadata.deletion_timestamp.is_some() => Ok(0),
                None => self.claimed_gpus(&checkpoint).await?,
            },
            config: self.checkpoints.config.clone(),
            checkpoint,
            namespace,
            uid,
            id,
            job,
            other_jobs,
        })
    }

    /// Of several checkpoints with one identifier, the oldest owns it, by name if they have the same age, and until it
    /// is deleted: its artifact may still be in removal.
    fn elder(&self, checkpoint: &DynamoCheckpoint, namespace: &str, id: &str) -> Option<String> {
        let age = |c: &DynamoCheckpoint| (c.metadata.creation_timestamp.clone(), c.metadata.name.clone());
        let others = self.checkpoints.with_id(namespace, id).into_iter();
        let elder = others.filter(|other| age(other) < age(checkpoint)).min_by_key(age)?;
        elder.metadata.name
    }

    async fn waits(&self, checkpoint: &DynamoCheckpoint, job: Option<&Job>) -> JobWaits {
        match job.filter(|_| checkpoint.metadata.deletion_timestamp.is_none()) {
            Some(job) => self.pods.waits_of_job(job, Timestamp::now()).await,
            None => JobWaits::default(),
        }
    }

    fn pod_of(&self, job: &Job) -> Option<ObjectMeta> {
        let pods = self.captured.children_of(job.metadata.uid.as_deref()?);
        let pods = pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        pods.min_by_key(|pod| pod.metadata.creation_timestamp.clone()).map(|pod| pod.metadata.clone())
    }

    fn is_captured(&self, namespace: &str, name: &str) -> bool {
        let owner = |pod: &ObjectMeta| pod.labels.as_ref()?.get(labels::SNAPSHOT_OWNER).cloned();
        let here = self.captured.in_namespace(namespace);
        here.iter().any(|pod| owner(&pod.metadata).as_deref() == Some(name))
    }

    /// Counts the GPUs of the device claims of a container. Read only until the Job exists.
    async fn claimed_gpus(&self, checkpoint: &DynamoCheckpoint) -> Result<Result<u32, String>, Interruption> {
        let namespace = checkpoint.metadata.namespace.as_deref().unwrap_or_default();
        let service = checkpoint.spec.gpu_memory_service.as_ref();
        let class = service.map(|service| service.device_class_name.as_str()).filter(|class| !class.is_empty());
        let class = class.unwrap_or(DEFAULT_DEVICE_CLASS);
        let mut total = 0;
        for claim in claims_of(checkpoint) {
            let Some(spec) = spec_of(&self.applier, namespace, &claim.source).await? else {
                return Ok(Err(format!("waiting for {}, which does not exist", claim.source)));
            };
            total += claim.devices(&spec, class);
        }
        Ok(Ok(total))
    }
}

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

    /// Checkpoints of a namespace with an identifier, without unreadable ones.
    pub fn with_id(&self, namespace: &str, id: &str) -> Vec<DynamoCheckpoint> {
        let here = self.checkpoints.in_namespace(namespace).into_iter();
        here.filter_map(|packed| packed.unpack().ok()).filter(|found| checkpoint_id(found) == id).collect()
    }

    /// Returns the storage of the checkpoints of a namespace.
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
                let here = self.agents.in_namespace(namespace).into_iter();
                let agents: Vec<DaemonSet> = here.filter_map(|agent| agent.unpack().ok()).collect();
                storage_of_agents(&agents).map_or(StorageLocation::Unknown, StorageLocation::OfAgent)
            }
        }
    }
}

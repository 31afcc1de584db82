//! I/O in: one snapshot of everything that a decision on a checkpoint needs.

use api_types::{external::PodSnapshot, labels, names, v1alpha1::DynamoCheckpoint, v1beta1::DEFAULT_DEVICE_CLASS};
use controller_kit::{
    apply::Applier,
    claims::spec_of,
    pods::{JobWaits, PodWatcher},
    read::Interruption,
    store::{Key, Packed, Store, controller_owner},
};
use jiff::Timestamp;
use k8s_openapi::{
    api::{batch::v1::Job, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Resource, core::PartialObjectMeta};
use workload::{
    Diagnosis,
    checkpoint::{CheckpointConfig, artifact_version, checkpoint_id, claims_of},
};

use crate::snapshots::{Snapshots, StorageLocation};

/// Everything that a decision needs.
#[derive(Debug)]
pub struct Observed {
    /// The checkpoint.
    pub checkpoint: DynamoCheckpoint,
    /// Its namespace.
    pub namespace: String,
    /// Its uid: the mark of what is ours.
    pub uid: String,
    /// Its identifier.
    pub id: String,
    /// An older checkpoint of the namespace with the same identifier.
    pub elder: Option<String>,
    /// Our Job for the present version of the artifact.
    pub job: Option<Job>,
    /// Our Jobs for other versions.
    pub other_jobs: Vec<Job>,
    /// The Job of the name of our cleanup Job, whoever made it.
    pub cleanup: Option<Job>,
    /// What our Job waits for while its pod does not run.
    pub waits: JobWaits,
    /// The pod of our Job.
    pub pod: Option<ObjectMeta>,
    /// Whether there is a pod, of whichever of its Jobs, whose processes are captured for it.
    pub is_captured: bool,
    /// The PodSnapshot of the checkpoint's name.
    pub capture: Option<PodSnapshot>,
    /// Whether PodSnapshots can be made.
    pub serves_captures: bool,
    /// Where checkpoints are kept.
    pub place: StorageLocation,
    /// GPUs that the captured container has through claims; or what is missing to know.
    pub claimed_gpus: Result<u32, String>,
    /// `None` if checkpoints are switched off.
    pub settings: Option<CheckpointConfig>,
}

impl Observed {
    /// Whether an object is the checkpoint's.
    pub fn is_ours<K: Resource>(&self, object: &K) -> bool {
        controller_owner(object).is_some_and(|owner| owner.uid == self.uid)
    }
}

/// The caches that decisions rest on.
pub struct Caches {
    /// Jobs that carry the identifier of a checkpoint.
    pub jobs: Store<Packed<Job>>,
    /// Pods that are captured and have not ended.
    pub pods: Store<PartialObjectMeta<Pod>>,
    /// PodSnapshots.
    pub captures: Store<Packed<PodSnapshot>>,
}

/// The caches, and who reads what no cache holds.
pub struct Observer {
    applier: Applier,
    caches: Caches,
    snapshots: Snapshots,
    pods: PodWatcher<Diagnosis>,
}

impl Observer {
    /// Looks into these caches, and at pods that do not start.
    pub fn new(applier: Applier, caches: Caches, snapshots: Snapshots, pods: PodWatcher<Diagnosis>) -> Self {
        Self { applier, caches, snapshots, pods }
    }

    /// The snapshot for one checkpoint.
    ///
    /// # Errors
    /// A cached child that cannot be read, or an API server that does not answer.
    pub async fn observe(&self, checkpoint: DynamoCheckpoint) -> Result<Observed, Interruption> {
        let Key { namespace, name } = Key::of(&checkpoint);
        let uid = checkpoint.metadata.uid.clone().unwrap_or_default();
        let id = checkpoint_id(&checkpoint);
        let wanted = names::checkpoint_job(&id, artifact_version(&checkpoint));
        let (mut job, mut other_jobs) = (None, Vec::new());
        for packed in self.caches.jobs.children_of(&uid) {
            let found = packed.unpack()?;
            match found.metadata.name.as_ref() == Some(&wanted) {
                true => job = Some(found),
                false => other_jobs.push(found),
            }
        }
        let cleanup = Key::new(&namespace, &names::checkpoint_cleanup_job(&id));
        let capture = self.caches.captures.get(&Key::new(&namespace, &name));
        Ok(Observed {
            elder: self.elder(&checkpoint, &namespace, &id),
            waits: self.waits(&checkpoint, job.as_ref()).await,
            pod: job.as_ref().and_then(|job| self.pod_of(job)),
            is_captured: self.is_captured(&namespace, &name),
            cleanup: self.caches.jobs.get(&cleanup).map(|packed| packed.unpack()).transpose()?,
            capture: capture.map(|packed| packed.unpack()).transpose()?,
            serves_captures: self.caches.captures.is_served(),
            place: self.snapshots.place(&namespace),
            claimed_gpus: match job {
                Some(_) => Ok(0),
                // No Job comes any more, and nothing that cannot be read may hold up a deletion.
                None if checkpoint.metadata.deletion_timestamp.is_some() => Ok(0),
                None => self.claimed_gpus(&checkpoint, &namespace).await?,
            },
            settings: self.snapshots.settings.clone(),
            checkpoint,
            namespace,
            uid,
            id,
            job,
            other_jobs,
        })
    }

    /// Of several with one identifier the oldest has it, by name where they are of one age, and until it is gone: what it kept may
    /// still be on its way out.
    fn elder(&self, checkpoint: &DynamoCheckpoint, namespace: &str, id: &str) -> Option<String> {
        let age = |c: &DynamoCheckpoint| (c.metadata.creation_timestamp.clone(), c.metadata.name.clone());
        let others = self.snapshots.with_id(namespace, id).into_iter();
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
        let pods = self.caches.pods.children_of(job.metadata.uid.as_deref()?);
        let pods = pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        pods.min_by_key(|pod| pod.metadata.creation_timestamp.clone()).map(|pod| pod.metadata.clone())
    }

    fn is_captured(&self, namespace: &str, name: &str) -> bool {
        let owner = |pod: &ObjectMeta| pod.labels.as_ref()?.get(labels::SNAPSHOT_OWNER).cloned();
        let pods = self.caches.pods.all();
        let mut here = pods.iter().filter(|pod| pod.metadata.namespace.as_deref() == Some(namespace));
        here.any(|pod| owner(&pod.metadata).as_deref() == Some(name))
    }

    /// Counts the GPUs behind a container's claims. Asked only until the Job is made.
    async fn claimed_gpus(
        &self,
        checkpoint: &DynamoCheckpoint,
        namespace: &str,
    ) -> Result<Result<u32, String>, Interruption> {
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

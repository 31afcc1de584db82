//! Data of a pass over a checkpoint.

use api_types::{external::PodSnapshot, v1alpha1::DynamoCheckpoint};
use controller_kit::{apply::ObjectId, pods::JobWaits};
use k8s_openapi::{
    api::{batch::v1::Job, core::v1::PersistentVolumeClaim},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use rendering::checkpoint::{CheckpointConfig, StorageLocation};

/// A checkpoint, its children, and what they depend on, at one moment.
#[derive(Debug)]
pub struct CheckpointObserved {
    /// The checkpoint.
    pub checkpoint: DynamoCheckpoint,
    /// Namespace of the checkpoint.
    pub namespace: String,
    /// Uid of the checkpoint, by which its children are recognized.
    pub uid: String,
    /// Identifier of the checkpoint.
    pub id: String,
    /// Name of an older checkpoint of the namespace with the same identifier.
    pub elder: Option<String>,
    /// The owned Job for the present version of the artifact.
    pub job: Option<Job>,
    /// Owned Jobs for other versions.
    pub other_jobs: Vec<Job>,
    /// The Job of the name of the cleanup Job, with any owner.
    pub cleanup: Option<Job>,
    /// Reason why the pod of the Job does not run.
    pub waits: JobWaits,
    /// The pod of the Job.
    pub pod: Option<ObjectMeta>,
    /// Whether a pod of any of its Jobs is being captured.
    pub is_captured: bool,
    /// The PodSnapshot of the checkpoint's name.
    pub capture: Option<PodSnapshot>,
    /// Whether the cluster serves PodSnapshots.
    pub serves_captures: bool,
    /// Storage of the checkpoints of the namespace.
    pub location: StorageLocation,
    /// GPUs that the captured container has through device claims; or the message that a claim is missing.
    pub claimed_gpus: Result<u32, String>,
    /// `None` if checkpoints are switched off.
    pub config: Option<CheckpointConfig>,
}

/// Desired writes, in the order of the fields.
#[derive(Debug, Default, PartialEq)]
pub struct CheckpointPlan {
    /// The PersistentVolumeClaim for checkpoints, if it is missing and the configuration says to create it.
    pub create_volume: Option<PersistentVolumeClaim>,
    /// The Job whose pod is captured.
    pub create_job: Option<Job>,
    /// The request to capture the pod.
    pub create_capture: Option<PodSnapshot>,
    /// The capture of another version.
    pub delete_capture: Option<PodSnapshot>,
    /// Jobs of other versions, and Jobs of finished captures.
    pub delete_jobs: Vec<Job>,
    /// Phase after the writes.
    pub phase: CapturePhase,
}

/// Awaited before the capture.
pub(super) const POD: &str = "waiting for the pod of the Job";

/// Phase of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CapturePhase {
    /// Not started: something outside the checkpoint must be changed.
    Blocked {
        /// Reason of `Stalled`.
        reason: &'static str,
        /// Missing requirement, and the remedy.
        message: String,
    },
    /// Not started: something is not ready yet.
    Waiting(String),
    /// The spec is invalid.
    Invalid {
        /// Reason of `JobCreated`.
        reason: &'static str,
        /// All violations.
        message: String,
    },
    /// The Job exists, or is being created.
    Capturing {
        /// Reason for the wait.
        waits: String,
        /// Reason of `Stalled`, if something must be changed.
        stalled: Option<&'static str>,
    },
    /// The end that the status records: ready or failed.
    #[default]
    Settled,
    /// Captured and stored.
    Ready(String),
    /// Given up.
    Failed {
        /// Reason of `JobCompleted`, or of `JobCreated` if the Job was deleted.
        reason: &'static str,
        /// The cause.
        message: String,
    },
}

/// Result of the writes.
#[derive(Debug, PartialEq)]
pub struct CheckpointApplied {
    /// Phase of the checkpoint.
    pub phase: CapturePhase,
    /// Created objects, in order.
    pub created: Vec<ObjectId>,
    /// Whether the API server rejected an object.
    pub rejected: bool,
}

/// The next step of a deletion.
#[derive(Clone, Debug, PartialEq)]
pub enum Cleanup {
    /// Delete the capturing Jobs first: they would write what is being removed.
    Stop(Vec<Job>),
    /// Create the Job that removes the artifact.
    Start(Box<Job>),
    /// Wait for the Job.
    Wait,
    /// Delete the Job, which failed or is of another checkpoint, to create another one.
    Retry(Box<Job>),
    /// Release the checkpoint.
    Done {
        /// The Job to delete.
        finished: Option<Box<Job>>,
        /// Remaining data, and the reason.
        left: Option<String>,
    },
}

/// The end of a deletion in a namespace that is being deleted, where no Job can be created.
pub(super) fn without_namespace(observed: &CheckpointObserved) -> Cleanup {
    let why = format!("namespace {} is being deleted, and nothing can run in it any more", observed.namespace);
    Cleanup::Done { finished: None, left: Some(left_behind(observed, &why)) }
}

/// The sentence about an artifact that stays.
pub(super) fn left_behind(observed: &CheckpointObserved, why: &str) -> String {
    format!("artifact {}: {why}", observed.id)
}

//! Data of a pass over an image build.

use std::time::Duration;

use api_types::v1alpha1::{ArchiveManifest, DynamoComponent};
use controller_kit::pods::JobWaits;
use k8s_openapi::api::batch::v1::Job;
use rendering::{JobEnd, PodDiagnosis};

/// A DynamoComponent, its image and its Jobs, at one moment.
#[derive(Clone, Debug)]
pub struct ImageBuildObserved {
    /// The component.
    pub component: DynamoComponent,
    /// Name of the image, or the violation in the spec.
    pub image: Result<String, String>,
    /// Whether the registry has the image; `None` if it is not queried, or its answer changes nothing.
    pub exists: Option<Result<bool, ImageBuildObstacle>>,
    /// Name of the Job that builds the present spec.
    pub job_name: String,
    /// The owned Job of that name.
    pub job: Option<Job>,
    /// Other owned Jobs: of earlier specs.
    pub other_jobs: Vec<Job>,
    /// The rendered Job; only if none exists and one is needed.
    pub rendered: Option<Result<Job, ImageBuildObstacle>>,
    /// End of the log of a failed build.
    pub log: Option<Log>,
    /// Reason why the pod of the build does not run.
    pub waits: JobWaits,
    /// Facts about the manifest in the archive.
    pub manifest: ManifestRead,
}

/// Facts about the manifest that a pass found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestRead {
    /// The manifest, or why it cannot be read; `None` if the status stays as it is.
    pub outcome: Option<Result<ArchiveManifest, ImageBuildObstacle>>,
    /// Longest delay until the next pass.
    pub retry_after: Option<Duration>,
}

/// End of a container's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Name of the container.
    pub container: String,
    /// The text.
    pub text: String,
}

/// Reason why the registry cannot be queried, or no Job rendered or created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageBuildObstacle {
    /// The spec or the settings are invalid.
    Invalid(String),
    /// An object of another owner has the Job's name, or a right or a login is missing.
    Blocked(String),
    /// The registry, the API store or an admission webhook does not answer; retried with backoff.
    Unreachable(String),
}

impl ImageBuildObstacle {
    /// The text for users.
    pub fn message(&self) -> &str {
        match self {
            Self::Invalid(text) | Self::Blocked(text) | Self::Unreachable(text) => text,
        }
    }
}

/// Desired writes.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageBuildPlan {
    /// The Job to create.
    pub create: Option<Box<Job>>,
    /// Jobs to delete.
    pub delete: Vec<Job>,
    /// Phase after the writes.
    pub phase: BuildPhase,
}

/// Phase of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildPhase {
    /// The build cannot go on.
    Obstructed(ImageBuildObstacle),
    /// Other builds come first.
    Queued(String),
    /// The Job exists, or is being created.
    Building {
        /// Whether it has an active pod.
        active: bool,
        /// Reason why the pod does not run.
        diagnosis: Option<PodDiagnosis>,
    },
    /// The build failed.
    Failed {
        /// Whether it exceeded its deadline.
        late: bool,
        /// The Job, the cause, and the end of its log.
        message: String,
    },
    /// The registry has the image.
    Available,
}

/// Result of the writes.
#[derive(Clone, Debug)]
pub struct ImageBuildApplied {
    /// Phase of the build.
    pub phase: BuildPhase,
    /// Whether a Job was created.
    pub created: bool,
    /// Backoff of a server that does not answer.
    pub backoff: Option<Duration>,
}

/// Whether a Job has completed or failed.
pub fn has_ended(job: &Job) -> bool {
    has_succeeded(job) || JobEnd::Failed.of(job).is_some()
}

/// Whether a Job has completed.
pub fn has_succeeded(job: &Job) -> bool {
    JobEnd::Complete.of(job).is_some()
}

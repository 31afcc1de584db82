//! What becomes of an image build, from one snapshot. Pure: no I/O, no clock.
//!
//! ```text
//!            registry has it
//! asked ─────────────────────────────► Available
//!   │ has it not       Job completes      ▲
//!   └─────► Queued ─► Building ───────────┘
//!                        │ Job fails, or takes too long
//!                        └─► Failed ── after a while, or with another spec ─► asked
//! ```
//!
//! Whether there is a slot for the Job is known only when it is made (`slots.rs`); until there is, the build is queued.
//! An image that is available is asked for again from time to time, and built again when the registry has it no longer.

use controller_kit::pods::JobWaits;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use workload::{Diagnosis, JobEnd};

/// How long after it failed a build is tried again.
const RETRY: SignedDuration = SignedDuration::from_mins(10);

/// Everything that a decision needs.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Name of the image, or the author's mistake.
    pub image: Result<String, String>,
    /// Whether the registry has it; none where that does not matter, or nothing speaks against what is known.
    pub exists: Option<Result<bool, Hindrance>>,
    /// Name of the Job that builds what the spec says now.
    pub job_name: String,
    /// Our Job of that name.
    pub job: Option<Job>,
    /// Our other Jobs: of earlier specs.
    pub other_jobs: Vec<Job>,
    /// The Job as it would be made; only where none is there. Mistakes, and what cannot be reached, are errors.
    pub rendered: Option<Result<Job, Hindrance>>,
    /// The end of the log of a build that failed.
    pub log: Option<Log>,
    /// Why the pod of a build does not run, as far as is known.
    pub waits: JobWaits,
}

/// The end of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Whose.
    pub container: String,
    /// What it says.
    pub text: String,
}

/// Why the registry cannot be asked, or no Job made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// Somebody has to change the spec or the settings.
    Mistake(String),
    /// Somebody has to give a login or a right.
    Blocked(String),
    /// Something does not answer.
    Unreachable(String),
}

impl Hindrance {
    fn stage(&self) -> Stage {
        match self.clone() {
            Self::Mistake(text) => Stage::Mistaken(text),
            Self::Blocked(text) => Stage::Blocked(text),
            Self::Unreachable(text) => Stage::Unreachable(text),
        }
    }
}

/// What shall be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The Job to make.
    pub make: Option<Box<Job>>,
    /// Jobs to delete.
    pub delete: Vec<Job>,
    /// Where the build stands after this.
    pub stage: Stage,
}

/// Where a build stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The spec or the settings have a mistake.
    Mistaken(String),
    /// The registry, the API store or a webhook of the API server does not answer; it is tried again.
    Unreachable(String),
    /// An object that is not ours is in the way, or a right or a login is missing.
    Blocked(String),
    /// Other builds come first.
    Queued(String),
    /// The Job is there, or being made.
    Building {
        /// Whether it has a pod.
        active: bool,
        /// Why that does not run.
        trouble: Option<Diagnosis>,
    },
    /// The build failed.
    Failed {
        /// Whether it took too long.
        late: bool,
        /// Which Job, why, and the end of its log.
        message: String,
    },
    /// The registry has the image.
    Available,
}

/// Decides on a component that is not being deleted.
pub fn decide(observed: &Observed, now: Timestamp) -> Decision {
    let delete: Vec<Job> =
        observed.other_jobs.iter().filter(|job| job.metadata.deletion_timestamp.is_none()).cloned().collect();
    let mut decision = Decision { make: None, delete, stage: Stage::Available };
    decision.stage = match (&observed.image, &observed.job, &observed.exists) {
        (Err(mistake), _, _) => Stage::Mistaken(mistake.clone()),
        (Ok(_), Some(job), _) => of_job(observed, job, now, &mut decision.delete),
        (Ok(_), None, Some(Err(hindrance))) => hindrance.stage(),
        (Ok(_), None, None | Some(Ok(true))) => Stage::Available,
        (Ok(_), None, Some(Ok(false))) => begin(observed, &mut decision.make),
    };
    decision
}

fn begin(observed: &Observed, make: &mut Option<Box<Job>>) -> Stage {
    match &observed.rendered {
        Some(Err(hindrance)) => hindrance.stage(),
        Some(Ok(job)) => {
            *make = Some(Box::new(job.clone()));
            Stage::Building { active: false, trouble: None }
        }
        None => Stage::Building { active: false, trouble: None },
    }
}

/// The Job tells. One that failed is deleted after a while, and with the next look another one is made.
fn of_job(observed: &Observed, job: &Job, now: Timestamp, delete: &mut Vec<Job>) -> Stage {
    if has_succeeded(job) {
        if observed.exists != Some(Ok(false)) {
            return Stage::Available;
        }
        // The registry had the image, and has it no longer. Another Job of the same name builds it again.
        if job.metadata.deletion_timestamp.is_none() {
            delete.push(job.clone());
        }
        return Stage::Building { active: false, trouble: None };
    }
    let Some(failed) = JobEnd::Failed.of(job) else {
        let active = job.status.as_ref().and_then(|status| status.active).unwrap_or_default() > 0;
        return Stage::Building { active, trouble: observed.waits.trouble.clone() };
    };
    if retry_after(job, now).is_none() && job.metadata.deletion_timestamp.is_none() {
        delete.push(job.clone());
    }
    let late = failed.reason.as_deref() == Some("DeadlineExceeded");
    let why = failed.message.as_deref().unwrap_or("it failed");
    let mut message = format!("Job {}: {why}", observed.job_name);
    if let Some(Log { container, text }) = observed.log.as_ref().filter(|log| !log.text.is_empty()) {
        message = format!("{message}; the end of the log of container {container}:\n{text}");
    }
    Stage::Failed { late, message }
}

/// Whether a Job has ended well or badly.
pub fn has_ended(job: &Job) -> bool {
    JobEnd::Complete.of(job).or_else(|| JobEnd::Failed.of(job)).is_some()
}

/// Whether a Job has succeeded.
pub fn has_succeeded(job: &Job) -> bool {
    JobEnd::Complete.of(job).is_some()
}

/// Whether a Job has failed.
pub fn has_failed(job: &Job) -> bool {
    JobEnd::Failed.of(job).is_some()
}

/// How long until a build that failed is tried again; none if the time has come.
pub fn retry_after(job: &Job, now: Timestamp) -> Option<SignedDuration> {
    let since = JobEnd::Failed.of(job)?.last_transition_time.as_ref().map(|time| time.0);
    let rest = since.map(|since| RETRY - now.duration_since(since))?;
    rest.is_positive().then_some(rest)
}

#[cfg(test)]
mod tests;

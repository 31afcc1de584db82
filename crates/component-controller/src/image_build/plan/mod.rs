//! Plans an image build. Pure: no I/O, no clock.
//!
//! ```text
//!            registry has it
//! queried ───────────────────────────► Available
//!   │ has it not       Job completes      ▲
//!   └─────► Queued ─► Building ───────────┘
//!                        │ Job fails, or exceeds its deadline
//!                        └─► Failed ── after a pause, or with another spec ─► queried
//! ```
//!
//! Whether the Job has a slot is known only when it is created (`build_slots/`); until then the build is queued. The
//! registry is queried again for an available image from time to time; one that was removed is built again.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use rendering::JobEnd;

use super::{
    model::{BuildPhase, ImageBuildObserved, ImageBuildObstacle, ImageBuildPlan, Log, has_succeeded},
    requeue::retry_after,
};

/// Plans the Jobs of a component that is not being deleted.
pub fn plan(observed: &ImageBuildObserved, now: Timestamp) -> ImageBuildPlan {
    let delete: Vec<Job> =
        observed.other_jobs.iter().filter(|job| job.metadata.deletion_timestamp.is_none()).cloned().collect();
    let mut planned = ImageBuildPlan { create: None, delete, phase: BuildPhase::Available };
    planned.phase = match (&observed.image, &observed.job, &observed.exists) {
        (Err(violation), _, _) => BuildPhase::Obstructed(ImageBuildObstacle::Invalid(violation.clone())),
        (Ok(_), Some(job), _) => of_job(observed, job, now, &mut planned.delete),
        (Ok(_), None, Some(Err(obstacle))) => BuildPhase::Obstructed(obstacle.clone()),
        (Ok(_), None, None | Some(Ok(true))) => BuildPhase::Available,
        (Ok(_), None, Some(Ok(false))) => begin(observed, &mut planned.create),
    };
    planned
}

fn begin(observed: &ImageBuildObserved, create: &mut Option<Box<Job>>) -> BuildPhase {
    match &observed.rendered {
        Some(Err(obstacle)) => return BuildPhase::Obstructed(obstacle.clone()),
        Some(Ok(job)) => *create = Some(Box::new(job.clone())),
        None => {}
    }
    BuildPhase::Building { active: false, diagnosis: None }
}

/// Plans with the owned Job. A failed one is deleted after a pause, and the next pass creates another.
fn of_job(observed: &ImageBuildObserved, job: &Job, now: Timestamp, delete: &mut Vec<Job>) -> BuildPhase {
    if has_succeeded(job) {
        if observed.exists != Some(Ok(false)) {
            return BuildPhase::Available;
        }
        // The image was removed from the registry. Another Job of the same name builds it again.
        if job.metadata.deletion_timestamp.is_none() {
            delete.push(job.clone());
        }
        return BuildPhase::Building { active: false, diagnosis: None };
    }
    let Some(failed) = JobEnd::Failed.of(job) else {
        let active = job.status.as_ref().and_then(|status| status.active).unwrap_or_default() > 0;
        return BuildPhase::Building { active, diagnosis: observed.waits.trouble.clone() };
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
    BuildPhase::Failed { late, message }
}

#[cfg(test)]
mod tests;

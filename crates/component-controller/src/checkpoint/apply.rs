//! Creates and deletes the children of a checkpoint.

use api_types::{conditions::checkpoint as reason, names};
use controller_kit::{
    apply,
    apply::{Applier, ApplyOutcome, Desired},
    failure::Class,
    request::Interruption,
};
use k8s_openapi::api::batch::v1::Job;
use kube::Resource;
use rendering::checkpoint::artifact_version;
use serde::Serialize;

use super::{
    model::{CapturePhase, CheckpointApplied, CheckpointObserved, CheckpointPlan, Cleanup},
    plan::{POD, cleanup::without_namespace},
};

/// Applies a plan. The volume is created before the pod that mounts it; deletions come last.
///
/// # Errors
/// Transient failures.
pub async fn apply(
    applier: &Applier,
    observed: &CheckpointObserved,
    plan: CheckpointPlan,
) -> Result<CheckpointApplied, Interruption> {
    let mut applied = CheckpointApplied { phase: plan.phase, created: Vec::new(), rejected: false };
    if let CapturePhase::Failed { reason: reason::JOB_DELETED | reason::JOB_DELETED_EARLY, .. } = applied.phase
        && job_exists(applier, observed).await?
    {
        // The cache is stale; a checkpoint is not given up because of it.
        applied.phase = CapturePhase::Capturing { waits: POD.to_owned(), stalled: None };
        return Ok(applied);
    }
    let mut blocked = None;
    if let Some(volume) = &plan.create_volume
        && let Err(error) = create(applier, volume, observed, &mut applied).await
    {
        blocked = on_rejected_volume(error)?;
        applied.rejected = blocked.is_some();
    }
    let job = plan.create_job.as_ref().filter(|_| blocked.is_none());
    applied.phase = blocked.unwrap_or(applied.phase);
    if let Some(job) = job
        && let Err(error) = create(applier, job, observed, &mut applied).await
    {
        (applied.phase, applied.rejected) = (on_rejected_job(error)?, true);
    }
    if let Some(capture) = &plan.create_capture
        && let Err(error) = create(applier, capture, observed, &mut applied).await
    {
        (applied.phase, applied.rejected) = (on_rejected_capture(error)?, true);
    }
    if let Some(capture) = &plan.delete_capture {
        applier.delete(capture, &observed.uid).await?;
    }
    for job in &plan.delete_jobs {
        applier.delete(job, &observed.uid).await?;
    }
    Ok(applied)
}

/// Applies the next step of a deletion, and returns it. Where no Job can be created any more, the deletion is done.
///
/// # Errors
/// Transient failures, and rejections.
pub async fn clean_up(
    applier: &Applier,
    observed: &CheckpointObserved,
    cleanup: Cleanup,
) -> Result<Cleanup, Interruption> {
    match &cleanup {
        Cleanup::Start(job) => match applier.apply(&Desired::of(job.as_ref(), &observed.uid)?, None).await {
            Err(error) if error.is_not_found() => return Ok(without_namespace(observed)),
            Err(error) if error.class() == Class::Foreign => {}
            other => drop(other?),
        },
        Cleanup::Stop(jobs) => {
            for job in jobs {
                applier.delete(job, &observed.uid).await?;
            }
        }
        Cleanup::Retry(job) | Cleanup::Done { finished: Some(job), .. } => {
            applier.delete(job.as_ref(), &observed.uid).await?;
        }
        Cleanup::Done { finished: None, .. } | Cleanup::Wait => {}
    }
    Ok(cleanup)
}

async fn job_exists(applier: &Applier, observed: &CheckpointObserved) -> Result<bool, Interruption> {
    let name = names::checkpoint_job(&observed.id, artifact_version(&observed.checkpoint));
    Ok(applier.find::<Job>(&observed.namespace, &name).await?.is_some())
}

async fn create<K>(
    applier: &Applier,
    object: &K,
    observed: &CheckpointObserved,
    applied: &mut CheckpointApplied,
) -> Result<(), apply::RequestError>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let desired = Desired::of(object, &observed.uid)?;
    if let ApplyOutcome::Created(_) = applier.apply(&desired, None).await? {
        applied.created.push(desired.id().clone());
    }
    Ok(())
}

fn on_rejected_volume(error: apply::RequestError) -> Result<Option<CapturePhase>, Interruption> {
    let message = error.to_string();
    match error.class() {
        // It was created meanwhile.
        Class::Foreign => Ok(None),
        Class::Invalid => Ok(Some(CapturePhase::Blocked { reason: reason::NO_STORAGE, message })),
        Class::Forbidden => Ok(Some(CapturePhase::Blocked { reason: reason::FORBIDDEN, message })),
        Class::Webhook => Ok(Some(CapturePhase::Waiting(message))),
        Class::Transient => Err(error.into()),
    }
}

fn on_rejected_job(error: apply::RequestError) -> Result<CapturePhase, Interruption> {
    let message = error.to_string();
    match error.class() {
        Class::Foreign => Ok(CapturePhase::Blocked { reason: reason::NAME_TAKEN, message }),
        Class::Invalid => Ok(CapturePhase::Invalid { reason: reason::INVALID_SPEC, message }),
        Class::Forbidden => Ok(CapturePhase::Blocked { reason: reason::FORBIDDEN, message }),
        Class::Webhook => Ok(CapturePhase::Waiting(message)),
        Class::Transient => Err(error.into()),
    }
}

fn on_rejected_capture(error: apply::RequestError) -> Result<CapturePhase, Interruption> {
    let message = error.to_string();
    match error.class() {
        Class::Foreign => Ok(CapturePhase::Failed { reason: reason::CAPTURE_NAME_TAKEN, message }),
        Class::Invalid => Ok(CapturePhase::Failed { reason: reason::CAPTURE_REFUSED, message }),
        Class::Forbidden => Ok(CapturePhase::Capturing { waits: message, stalled: Some(reason::FORBIDDEN) }),
        Class::Webhook => Ok(CapturePhase::Capturing { waits: message, stalled: None }),
        Class::Transient => Err(error.into()),
    }
}

//! Creates and deletes the children of a checkpoint.

use api_types::{conditions::checkpoint as reason, names};
use controller_kit::{
    apply::{Applier, ApplyOutcome, Desired, ObjectId},
    failure::Class,
    request::Interruption,
};
use k8s_openapi::api::batch::v1::Job;
use kube::Resource;
use rendering::checkpoint::artifact_version;
use serde::Serialize;

use super::model::{
    CapturePhase, CheckpointApplied, CheckpointObserved, CheckpointPlan, Cleanup, POD, without_namespace,
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
    create(applier, plan.create_volume.as_ref(), observed, on_rejected_volume, &mut applied).await?;
    let job = plan.create_job.as_ref().filter(|_| !applied.rejected);
    create(applier, job, observed, on_rejected_job, &mut applied).await?;
    create(applier, plan.create_capture.as_ref(), observed, on_rejected_capture, &mut applied).await?;
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

/// Creates an object, if one is planned. `on_rejection` is the phase after a rejection; `None` if that changes nothing.
async fn create<K: Resource<DynamicType = ()> + Serialize>(
    applier: &Applier,
    object: Option<&K>,
    observed: &CheckpointObserved,
    on_rejection: fn(Class, String) -> Option<CapturePhase>,
    applied: &mut CheckpointApplied,
) -> Result<(), Interruption> {
    let Some(object) = object else { return Ok(()) };
    let outcome = match Desired::of(object, &observed.uid) {
        Ok(desired) => applier.apply(&desired, None).await,
        Err(error) => Err(error),
    };
    match outcome {
        Ok(ApplyOutcome::Created(_)) => applied.created.push(ObjectId::of(object)),
        Ok(_) => {}
        Err(error) if error.class() == Class::Transient => return Err(error.into()),
        Err(error) => {
            if let Some(phase) = on_rejection(error.class(), error.to_string()) {
                (applied.phase, applied.rejected) = (phase, true);
            }
        }
    }
    Ok(())
}

fn on_rejected_volume(class: Class, message: String) -> Option<CapturePhase> {
    Some(match class {
        // It was created meanwhile.
        Class::Foreign => return None,
        Class::Invalid => CapturePhase::Blocked { reason: reason::NO_STORAGE, message },
        Class::Forbidden => CapturePhase::Blocked { reason: reason::FORBIDDEN, message },
        Class::Webhook | Class::Transient => CapturePhase::Waiting(message),
    })
}

fn on_rejected_job(class: Class, message: String) -> Option<CapturePhase> {
    Some(match class {
        Class::Foreign => CapturePhase::Blocked { reason: reason::NAME_TAKEN, message },
        Class::Invalid => CapturePhase::Invalid { reason: reason::INVALID_SPEC, message },
        Class::Forbidden => CapturePhase::Blocked { reason: reason::FORBIDDEN, message },
        Class::Webhook | Class::Transient => CapturePhase::Waiting(message),
    })
}

fn on_rejected_capture(class: Class, message: String) -> Option<CapturePhase> {
    Some(match class {
        Class::Foreign => CapturePhase::Failed { reason: reason::CAPTURE_NAME_TAKEN, message },
        Class::Invalid => CapturePhase::Failed { reason: reason::CAPTURE_REFUSED, message },
        Class::Forbidden => CapturePhase::Capturing { waits: message, stalled: Some(reason::FORBIDDEN) },
        Class::Webhook | Class::Transient => CapturePhase::Capturing { waits: message, stalled: None },
    })
}

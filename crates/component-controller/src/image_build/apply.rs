//! Creates and deletes the Jobs of image builds.

use std::time::Instant;

use api_types::v1alpha1::DynamoComponent;
use controller_kit::{
    apply::{Applier, ApplyOutcome, Desired, RequestError},
    failure::Class,
    request::Interruption,
    store::Key,
};
use k8s_openapi::api::batch::v1::Job;

use super::{
    build_slots::BuildSlots,
    model::{BuildPhase, ImageBuildApplied, ImageBuildObstacle, ImageBuildPlan},
};

/// Applies a plan. Jobs of earlier specs are deleted first: they would push an obsolete image.
///
/// # Errors
/// Transient failures.
pub async fn apply(
    applier: &Applier,
    slots: &BuildSlots,
    component: &DynamoComponent,
    plan: ImageBuildPlan,
) -> Result<ImageBuildApplied, Interruption> {
    let key = Key::of(component);
    let uid = component.metadata.uid.as_deref().unwrap_or_default();
    for job in &plan.delete {
        // A component that fails does not keep its place in the queue.
        applier.delete(job, uid).await.inspect_err(|_| slots.dequeue(&key, Instant::now()))?;
    }
    let mut applied = ImageBuildApplied { phase: plan.phase, created: false, backoff: None };
    let Some(job) = plan.create else {
        slots.dequeue(&key, Instant::now());
        return Ok(applied);
    };
    if !slots.try_acquire(&key, &Key::of(job.as_ref()), Instant::now()) {
        let limit = slots.limit;
        applied.phase = BuildPhase::Queued(format!("at most {limit} builds run at a time, and others come first"));
        return Ok(applied);
    }
    match create(applier, slots, uid, &job).await {
        Ok(outcome) => applied.created = matches!(outcome, ApplyOutcome::Created(_)),
        Err(error) => {
            let message = error.to_string();
            applied.phase = BuildPhase::Obstructed(match error.class() {
                Class::Foreign | Class::Forbidden => ImageBuildObstacle::Blocked(message),
                Class::Invalid => ImageBuildObstacle::Invalid(message),
                Class::Webhook => ImageBuildObstacle::Unreachable(message),
                Class::Transient => return Err(error.into()),
            });
        }
    }
    Ok(applied)
}

/// Creates the Job in its slot. While it is unknown whether the API server created it, the Job keeps the slot.
async fn create(applier: &Applier, slots: &BuildSlots, uid: &str, job: &Job) -> Result<ApplyOutcome, RequestError> {
    let key = Key::of(job);
    let desired = Desired::of(job, uid).inspect_err(|_| slots.release(&key, Instant::now()))?;
    let answer = applier.apply(&desired, None).await;
    match &answer {
        Ok(ApplyOutcome::Created(live) | ApplyOutcome::Updated(live)) => {
            let version = live.pointer("/metadata/resourceVersion").and_then(|version| version.as_str()?.parse().ok());
            slots.confirm(&key, version, Instant::now());
        }
        Ok(ApplyOutcome::Unchanged) => {}
        Ok(ApplyOutcome::Waiting { .. }) => slots.release(&key, Instant::now()),
        Err(error) if error.class() != Class::Transient || error.is_not_found() => {
            slots.release(&key, Instant::now());
        }
        Err(_) => {}
    }
    answer
}

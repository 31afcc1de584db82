//! Writes the children of a component.

use controller_kit::{
    apply,
    apply::{Applier, ApplyOutcome, Desired, ObjectId, Removed},
    failure::Class,
    request::Interruption,
};
use futures::join;
use kube::Resource;
use serde_json::Value;
use tracing::warn;

use super::model::{
    ChildStep, ChildVerb, ChildWrite, ComponentApplied, ComponentObserved, ComponentPlan, LiveObject, LiveWorkload,
    ObsoleteObject, Rejection, WorkloadKind,
};

/// Applies a plan.
///
/// All children are written concurrently: pods find each other by the Service, and start later than it is written.
/// Obsolete objects are deleted last, and only when the workload exists. A rejected write does not stop the others, so
/// that the user sees all rejections at once; a transient failure ends the pass.
///
/// # Errors
/// Transient failures.
pub async fn apply(
    applier: &Applier,
    observed: &ComponentObserved,
    plan: &ComponentPlan,
) -> Result<ComponentApplied, Interruption> {
    let mut applied = ComponentApplied {
        waiting: plan.waiting.clone(),
        lacks_api: plan.lacks_api,
        joins_nodes: plan.joins_nodes,
        runtime_namespace: plan.runtime_namespace.clone(),
        ..ComponentApplied::default()
    };
    for volume in &plan.volumes {
        create_if_missing(applier, volume, &mut applied).await?;
    }
    let service = step(applier, observed, &plan.service, observed.service.as_ref());
    let ingress = step(applier, observed, &plan.ingress, observed.ingress.as_ref());
    let virtual_service = step(applier, observed, &plan.virtual_service, observed.virtual_service.as_ref());
    let autoscaler = step(applier, observed, &plan.autoscaler, observed.autoscaler.as_ref());
    let model_services = write_model_services(applier, observed, plan);
    let workload = write_workload(applier, observed, plan);
    let (service, ingress, virtual_service, autoscaler, model_services, workload) =
        join!(service, ingress, virtual_service, autoscaler, model_services, workload);
    for part in [service, ingress, virtual_service, autoscaler, model_services, workload] {
        applied.append(part?);
    }
    applied.workload = applied.workload.or_else(|| observed.own_workload());
    if applied.workload.is_some() {
        let uid = &observed.uid;
        for object in &observed.obsolete {
            match object {
                ObsoleteObject::Deployment(object) => delete(applier, object.as_ref(), uid, &mut applied).await?,
                ObsoleteObject::LeaderWorkerSet(object) => delete(applier, object.as_ref(), uid, &mut applied).await?,
                ObsoleteObject::PodGroup(object) => delete(applier, object.as_ref(), uid, &mut applied).await?,
            }
        }
    }
    Ok(applied)
}

/// Applies or deletes a child that is not always desired.
async fn step<K: Resource<DynamicType = ()>>(
    applier: &Applier,
    observed: &ComponentObserved,
    step: &ChildStep,
    live: Option<&LiveObject<K>>,
) -> Result<ComponentApplied, Interruption> {
    let mut applied = ComponentApplied::default();
    match (step, live) {
        (ChildStep::Apply(desired), live) => {
            apply_one(applier, desired, live.map(|live| &live.value), &mut applied).await?;
        }
        (ChildStep::Delete, Some(live)) => {
            delete(applier, &live.object, &observed.uid, &mut applied).await?;
        }
        (ChildStep::Release(desired), Some(live)) => {
            applier.release(desired, &live.value).await.or_else(|error| record_rejection(error, &mut applied))?;
        }
        (ChildStep::Delete | ChildStep::Release(_) | ChildStep::Nothing, _) => {}
    }
    Ok(applied)
}

/// Applies the workload.
async fn write_workload(
    applier: &Applier,
    observed: &ComponentObserved,
    plan: &ComponentPlan,
) -> Result<ComponentApplied, Interruption> {
    let mut applied = ComponentApplied::default();
    let Some(workload) = &plan.workload else { return Ok(applied) };
    let kind = WorkloadKind::of(&observed.component);
    let live = match kind {
        WorkloadKind::LeaderWorkerSet => observed.leader_worker_set.as_ref().map(|live| &live.value),
        WorkloadKind::Deployment => observed.deployment.as_ref().map(|live| &live.value),
    };
    let answer = apply_one(applier, workload, live, &mut applied).await?;
    applied.workload = answer.map(|answer| read_workload(kind, workload, answer)).transpose()?;
    Ok(applied)
}

/// Applies the Services of models, which several components share. A Service of another owner serves as well.
async fn write_model_services(
    applier: &Applier,
    observed: &ComponentObserved,
    plan: &ComponentPlan,
) -> Result<ComponentApplied, Interruption> {
    let mut applied = ComponentApplied::default();
    for (model, service) in observed.models.iter().zip(&plan.model_services) {
        let mut written = step(applier, observed, service, model.service.as_ref()).await?;
        if !model.owners.iter().any(|owner| owner.uid == observed.uid) {
            // A Service that the component no longer needs says nothing about the component.
            for rejection in std::mem::take(&mut written.rejections) {
                warn!(service = %rejection.object, error = rejection.message, "failed to release the Service of a model");
            }
        }
        applied.append(written);
    }
    applied.rejections.retain(|rejection| rejection.class != Class::Foreign);
    Ok(applied)
}

/// Deletes an object that is no longer desired, if `uid` still controls it.
async fn delete<K: Resource<DynamicType = ()>>(
    applier: &Applier,
    object: &K,
    uid: &str,
    applied: &mut ComponentApplied,
) -> Result<(), Interruption> {
    match applier.delete(object, uid).await {
        Ok(Removed::Accepted) => {
            let object = ObjectId::of(object);
            applied.changes.push(ChildWrite { verb: ChildVerb::Deleted, object, generation: None });
        }
        Ok(Removed::Gone) => {}
        Err(error) => record_rejection(error, applied)?,
    }
    Ok(())
}

/// Applies one object; returns the API server's answer if it was written.
async fn apply_one(
    applier: &Applier,
    desired: &Desired,
    live: Option<&Value>,
    applied: &mut ComponentApplied,
) -> Result<Option<Value>, Interruption> {
    let (verb, answer) = match applier.apply(desired, live).await {
        Ok(ApplyOutcome::Created(answer)) => (ChildVerb::Created, answer),
        Ok(ApplyOutcome::Updated(answer)) => (ChildVerb::Updated, answer),
        Ok(ApplyOutcome::Unchanged) => return Ok(None),
        Ok(ApplyOutcome::Waiting { reason }) => {
            applied.waiting.push(format!("waiting for {}: {reason}", desired.id()));
            return Ok(None);
        }
        Err(error) => return record_rejection(error, applied).map(|()| None),
    };
    let generation = answer.pointer("/metadata/generation").and_then(Value::as_i64);
    applied.changes.push(ChildWrite { verb, object: desired.id().clone(), generation });
    Ok(Some(answer))
}

fn record_rejection(error: apply::RequestError, applied: &mut ComponentApplied) -> Result<(), Interruption> {
    let class = error.class();
    if class == Class::Transient {
        return Err(error.into());
    }
    applied.rejections.push(Rejection { class, object: error.object().clone(), message: error.to_string() });
    Ok(())
}

/// Creates an object without owner, unless it exists.
async fn create_if_missing(
    applier: &Applier,
    desired: &Desired,
    applied: &mut ComponentApplied,
) -> Result<(), Interruption> {
    match applier.apply(desired, None).await {
        Ok(ApplyOutcome::Created(_)) => {
            let object = desired.id().clone();
            applied.changes.push(ChildWrite { verb: ChildVerb::Created, object, generation: None });
        }
        Err(error) if error.class() != Class::Foreign => record_rejection(error, applied)?,
        Ok(_) | Err(_) => {}
    }
    Ok(())
}

fn read_workload(kind: WorkloadKind, desired: &Desired, answer: Value) -> Result<LiveWorkload, Interruption> {
    let read = match kind {
        WorkloadKind::LeaderWorkerSet => serde_json::from_value(answer).map(LiveWorkload::LeaderWorkerSet),
        WorkloadKind::Deployment => serde_json::from_value(answer).map(LiveWorkload::Deployment),
    };
    let object = desired.id().clone();
    Ok(read.map_err(|error| apply::RequestError::Render { object, reason: error.to_string() })?)
}

//! I/O out: carries a decision out, in an order that has a reason.

use controller_kit::{
    apply::{self, Applier, Desired, ObjectId, Outcome, Removed},
    failure::Class,
    read::Interruption,
};
use futures::join;
use kube::Resource;
use serde_json::Value;

use super::{
    acted::{Acted, Cause, Change, Refusal, Verb},
    decide::{Decision, Step},
    observe::{Live, Observed},
    workload::{LiveWorkload, WorkloadKind},
};

/// Carries a decision out.
///
/// Everything is written at once: pods look for each other by the name of the Service, and take longer to start than it takes
/// to be written. What is left over goes last, and only when there is something in its place. A refused object does not
/// hold up the others, so that the author learns everything that is in the way at once; what is in the way of nobody's
/// doing ends the attempt, and the whole is tried again.
///
/// # Errors
/// What goes away by itself.
pub async fn apply(applier: &Applier, observed: &Observed, decision: &Decision) -> Result<Acted, Interruption> {
    let mut acted = Acted { waiting: decision.waiting.clone(), ..Acted::default() };
    for claim in &decision.storage_claims {
        make_once(applier, claim, &mut acted).await?;
    }
    let service = step(applier, observed, &decision.service, observed.service.as_ref());
    let ingress = step(applier, observed, &decision.ingress, observed.ingress.as_ref());
    let virtual_service = step(applier, observed, &decision.virtual_service, observed.virtual_service.as_ref());
    let model_service = share(applier, observed, decision);
    let workload = write_workload(applier, observed, decision);
    let (service, ingress, virtual_service, model_service, workload) =
        join!(service, ingress, virtual_service, model_service, workload);
    for part in [service, ingress, virtual_service, model_service, workload] {
        acted.append(part?);
    }
    acted.workload = acted.workload.or_else(|| observed.own_workload());
    if acted.workload.is_some() {
        for leftover in &observed.leftovers {
            let removed = leftover.delete(applier, &observed.uid).await;
            gone(leftover.id(), removed, &mut acted)?;
        }
    }
    Ok(acted)
}

/// Makes an object be there, or not.
async fn step<K>(
    applier: &Applier,
    observed: &Observed,
    step: &Step,
    live: Option<&Live<K>>,
) -> Result<Acted, Interruption>
where
    K: Resource<DynamicType = ()>,
{
    let mut acted = Acted::default();
    match (step, live) {
        (Step::Apply(desired), live) => {
            one(applier, desired, live.map(|live| &live.value), &mut acted).await?;
        }
        (Step::Delete, Some(live)) => {
            let removed = applier.delete(&live.object, &observed.uid).await;
            gone(ObjectId::of(&live.object), removed, &mut acted)?;
        }
        (Step::Delete | Step::Nothing, _) => {}
    }
    Ok(acted)
}

/// Applies what runs the pods.
async fn write_workload(applier: &Applier, observed: &Observed, decision: &Decision) -> Result<Acted, Interruption> {
    let mut acted = Acted::default();
    let Some(workload) = &decision.workload else { return Ok(acted) };
    let live = match decision.kind {
        WorkloadKind::LeaderWorkerSet => observed.leader_worker_set.as_ref().map(|live| &live.value),
        WorkloadKind::Deployment => observed.deployment.as_ref().map(|live| &live.value),
    };
    let answer = one(applier, workload, live, &mut acted).await?;
    acted.workload = answer.map(|answer| read(decision.kind, workload, answer)).transpose()?;
    Ok(acted)
}

/// Applies the Service of a model, which several share. One that is somebody else's serves as well.
async fn share(applier: &Applier, observed: &Observed, decision: &Decision) -> Result<Acted, Interruption> {
    let mut acted = Acted::default();
    let Some(desired) = &decision.model_service else { return Ok(acted) };
    let live = observed.model.as_ref().and_then(|facts| facts.service.as_ref()).map(|live| &live.value);
    one(applier, desired, live, &mut acted).await?;
    acted.refusals.retain(|refusal| refusal.cause != Cause::NameTaken);
    Ok(acted)
}

/// Takes down that an object was told to go.
fn gone(object: ObjectId, removed: Result<Removed, apply::Error>, acted: &mut Acted) -> Result<(), Interruption> {
    match removed {
        Ok(Removed::Accepted) => acted.changes.push(Change { verb: Verb::Deleted, object, generation: None }),
        Ok(Removed::Gone) => {}
        Err(error) => refused(error, acted)?,
    }
    Ok(())
}

/// Applies one object; returns it as the API server answered, if it was written.
async fn one(
    applier: &Applier,
    desired: &Desired,
    live: Option<&Value>,
    acted: &mut Acted,
) -> Result<Option<Value>, Interruption> {
    let change = |verb, answer: &Value| Change {
        verb,
        object: desired.id().clone(),
        generation: answer.pointer("/metadata/generation").and_then(Value::as_i64),
    };
    match applier.apply(desired, live).await {
        Ok(Outcome::Created(answer)) => {
            acted.changes.push(change(Verb::Created, &answer));
            Ok(Some(answer))
        }
        Ok(Outcome::Updated(answer)) => {
            acted.changes.push(change(Verb::Updated, &answer));
            Ok(Some(answer))
        }
        Ok(Outcome::Unchanged) => Ok(None),
        Ok(Outcome::Waiting { reason }) => {
            acted.waiting.push(format!("waiting for {}: {reason}", desired.id()));
            Ok(None)
        }
        Err(error) => refused(error, acted).map(|()| None),
    }
}

fn refused(error: apply::Error, acted: &mut Acted) -> Result<(), Interruption> {
    let Some(cause) = Cause::of(error.class()) else { return Err(error.into()) };
    acted.refusals.push(Refusal { cause, object: error.object().clone(), message: error.to_string() });
    Ok(())
}

/// Makes an object that belongs to nobody, unless it is there by now.
async fn make_once(applier: &Applier, desired: &Desired, acted: &mut Acted) -> Result<(), Interruption> {
    match applier.apply(desired, None).await {
        Ok(Outcome::Created(_)) => {
            let object = desired.id().clone();
            acted.changes.push(Change { verb: Verb::Created, object, generation: None });
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(error) if error.class() == Class::Foreign => Ok(()),
        Err(error) => refused(error, acted),
    }
}

fn read(kind: WorkloadKind, desired: &Desired, answer: Value) -> Result<LiveWorkload, Interruption> {
    let object = desired.id();
    let unreadable = |e: serde_json::Error| apply::Error::Render { object: object.clone(), reason: e.to_string() };
    Ok(LiveWorkload::read(kind, answer).map_err(unreadable)?)
}

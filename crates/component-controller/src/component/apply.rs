//! Writes the children of a component.

use api_types::typed::typed;
use controller_kit::{
    apply::{self, Applier, ApplyOutcome, Desired, ObjectId, Removed},
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
    let writer = || ChildWriter { applier, observed, applied: ComponentApplied::default() };
    let applied = ComponentApplied {
        waiting: plan.waiting.clone(),
        lacks_api: plan.lacks_api,
        joins_nodes: plan.joins_nodes,
        runtime_namespace: plan.runtime_namespace.clone(),
        ..ComponentApplied::default()
    };
    let mut whole = ChildWriter { applied, ..writer() };
    for volume in &plan.volumes {
        whole.create_if_missing(volume).await?;
    }
    let service = writer().step(&plan.service, observed.service.as_ref());
    let ingress = writer().step(&plan.ingress, observed.ingress.as_ref());
    let virtual_service = writer().step(&plan.virtual_service, observed.virtual_service.as_ref());
    let autoscaler = writer().step(&plan.autoscaler, observed.autoscaler.as_ref());
    let model_services = writer().write_model_services(plan);
    let workload = writer().write_workload(plan);
    let (service, ingress, virtual_service, autoscaler, model_services, workload) =
        join!(service, ingress, virtual_service, autoscaler, model_services, workload);
    for part in [service, ingress, virtual_service, autoscaler, model_services, workload] {
        whole.applied.append(part?);
    }
    whole.applied.workload = whole.applied.workload.or_else(|| observed.own_workload());
    if whole.applied.workload.is_some() {
        for object in &observed.obsolete {
            match object {
                ObsoleteObject::Deployment(object) => whole.delete(object.as_ref()).await?,
                ObsoleteObject::LeaderWorkerSet(object) => whole.delete(object.as_ref()).await?,
                ObsoleteObject::PodGroup(object) => whole.delete(object.as_ref()).await?,
            }
        }
    }
    Ok(whole.applied)
}

/// Writes children of a component, and keeps what was done.
struct ChildWriter<'a> {
    applier: &'a Applier,
    observed: &'a ComponentObserved,
    applied: ComponentApplied,
}

impl ChildWriter<'_> {
    /// Applies or deletes a child that is not always desired.
    async fn step<K: Resource<DynamicType = ()>>(
        mut self,
        step: &ChildStep,
        live: Option<&LiveObject<K>>,
    ) -> Result<ComponentApplied, Interruption> {
        match (step, live) {
            (ChildStep::Apply(desired), live) => drop(self.write(desired, live.map(|live| &live.value)).await?),
            (ChildStep::Delete, Some(live)) => self.delete(&live.object).await?,
            (ChildStep::Release(desired), Some(live)) => {
                let released = self.applier.release(desired, &live.value).await;
                released.or_else(|error| self.record_rejection(error))?;
            }
            (ChildStep::Delete | ChildStep::Release(_) | ChildStep::Nothing, _) => {}
        }
        Ok(self.applied)
    }

    /// Applies the workload.
    async fn write_workload(mut self, plan: &ComponentPlan) -> Result<ComponentApplied, Interruption> {
        let Some(workload) = &plan.workload else { return Ok(self.applied) };
        let observed = self.observed;
        let kind = WorkloadKind::of(&observed.component);
        let live = match kind {
            WorkloadKind::LeaderWorkerSet => observed.leader_worker_set.as_ref().map(|live| &live.value),
            WorkloadKind::Deployment => observed.deployment.as_ref().map(|live| &live.value),
        };
        let answer = self.write(workload, live).await?;
        self.applied.workload = answer.map(|answer| read_workload(kind, workload, answer)).transpose()?;
        Ok(self.applied)
    }

    /// Applies the Services of models, which several components share. A Service of another owner serves as well.
    async fn write_model_services(mut self, plan: &ComponentPlan) -> Result<ComponentApplied, Interruption> {
        let (applier, observed) = (self.applier, self.observed);
        for (model, service) in observed.models.iter().zip(&plan.model_services) {
            let writer = ChildWriter { applier, observed, applied: ComponentApplied::default() };
            let mut written = writer.step(service, model.service.as_ref()).await?;
            if !model.owners.iter().any(|owner| owner.uid == observed.uid) {
                // A Service that the component no longer needs says nothing about the component.
                for Rejection { object, message, .. } in std::mem::take(&mut written.rejections) {
                    warn!(service = %object, error = message, "failed to release the Service of a model");
                }
            }
            self.applied.append(written);
        }
        self.applied.rejections.retain(|rejection| rejection.class != Class::Foreign);
        Ok(self.applied)
    }

    /// Deletes an object that is no longer desired, if the component still controls it.
    async fn delete<K: Resource<DynamicType = ()>>(&mut self, object: &K) -> Result<(), Interruption> {
        match self.applier.delete(object, &self.observed.uid).await {
            Ok(Removed::Accepted) => {
                let object = ObjectId::of(object);
                self.applied.changes.push(ChildWrite { verb: ChildVerb::Deleted, object, generation: None });
            }
            Ok(Removed::Gone) => {}
            Err(error) => self.record_rejection(error)?,
        }
        Ok(())
    }

    /// Applies one object; returns the API server's answer if it was written.
    async fn write(&mut self, desired: &Desired, live: Option<&Value>) -> Result<Option<Value>, Interruption> {
        let (verb, answer) = match self.applier.apply(desired, live).await {
            Ok(ApplyOutcome::Created(answer)) => (ChildVerb::Created, answer),
            Ok(ApplyOutcome::Updated(answer)) => (ChildVerb::Updated, answer),
            Ok(ApplyOutcome::Unchanged) => return Ok(None),
            Ok(ApplyOutcome::Waiting { reason }) => {
                self.applied.waiting.push(format!("waiting for {}: {reason}", desired.id()));
                return Ok(None);
            }
            Err(error) => return self.record_rejection(error).map(|()| None),
        };
        let generation = answer.pointer("/metadata/generation").and_then(Value::as_i64);
        self.applied.changes.push(ChildWrite { verb, object: desired.id().clone(), generation });
        Ok(Some(answer))
    }

    /// Creates an object without owner, unless it exists.
    async fn create_if_missing(&mut self, desired: &Desired) -> Result<(), Interruption> {
        match self.applier.apply(desired, None).await {
            Ok(ApplyOutcome::Created(_)) => {
                let object = desired.id().clone();
                self.applied.changes.push(ChildWrite { verb: ChildVerb::Created, object, generation: None });
            }
            Err(error) if error.class() != Class::Foreign => self.record_rejection(error)?,
            Ok(_) | Err(_) => {}
        }
        Ok(())
    }

    fn record_rejection(&mut self, error: apply::RequestError) -> Result<(), Interruption> {
        let class = error.class();
        if class == Class::Transient {
            return Err(error.into());
        }
        let rejection = Rejection { class, object: error.object().clone(), message: error.to_string() };
        self.applied.rejections.push(rejection);
        Ok(())
    }
}

fn read_workload(kind: WorkloadKind, desired: &Desired, answer: Value) -> Result<LiveWorkload, Interruption> {
    let read = match kind {
        WorkloadKind::LeaderWorkerSet => typed(answer).map(LiveWorkload::LeaderWorkerSet),
        WorkloadKind::Deployment => typed(answer).map(LiveWorkload::Deployment),
    };
    let object = desired.id().clone();
    Ok(read.map_err(|error| apply::RequestError::Render { object, reason: error.to_string() })?)
}

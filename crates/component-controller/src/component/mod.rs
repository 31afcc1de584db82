//! Reconciles `DynamoComponentDeployment`: a Deployment or a LeaderWorkerSet, and a Service.

pub mod apply;
pub mod events;
pub mod legacy;
pub mod model;
pub mod observe;
pub mod plan;
pub mod requeue;
pub mod status;
pub mod validate;

use api_types::{
    LEGACY_FINALIZER,
    conditions::UNOBSERVED,
    typed::typed,
    v1beta1::{DynamoComponentDeployment, DynamoComponentDeploymentStatus},
};
use controller_kit::{
    conditions::age,
    controller::{Action, Conclusion, Outputs, Reconcile, StatusPace},
    device_claims::claimed_gpus,
    pods::PodDiagnostics,
    request::Interruption,
    store::{Packed, UnpackError, controller_owner},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use rendering::{PodDiagnosis, PodSettings};

use self::{
    model::{ComponentApplied, ComponentBlocked, ComponentObserved, ComponentPlan, WorkloadKind},
    observe::{ComponentObserver, pods},
    status::ComponentStatusInputs,
};

/// Reconciles components.
pub struct ComponentReconciler {
    /// Reads.
    pub observer: ComponentObserver,
    /// Diagnoses pods that do not become ready.
    pub pods: PodDiagnostics<PodDiagnosis>,
    /// Writes.
    pub outputs: Outputs,
    /// Settings of the operator that reach pods.
    pub settings: PodSettings,
}

impl Reconcile for ComponentReconciler {
    type Object = DynamoComponentDeployment;
    type Observed = ComponentObserved;
    /// The error is an object that cannot be written as JSON; never for a valid component.
    type Plan = Result<Result<ComponentPlan, ComponentBlocked>, Interruption>;
    type Applied = Result<ComponentApplied, ComponentBlocked>;
    type Status = DynamoComponentDeploymentStatus;

    fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// Removes the finalizer of the upstream operator. Children are deleted by their owner references.
    async fn finalize(&self, packed: &Packed<Self::Object>) -> Result<Action, Interruption> {
        self.outputs.applier.remove_finalizer(packed, LEGACY_FINALIZER).await?;
        Ok(Action::AwaitChange)
    }

    fn unreadable(
        &self,
        packed: &Packed<Self::Object>,
        _: &UnpackError,
        now: Timestamp,
    ) -> Option<Conclusion<Self::Status>> {
        // An unreadable child is no violation of the component's.
        let blocked = validate::invalid_spec(packed.unpack().err()?.to_string());
        let live: Option<DynamoComponentDeploymentStatus> = typed(packed.status()).ok();
        let inputs = ComponentStatusInputs::from_unreadable(packed.metadata.generation, live.as_ref(), &blocked);
        let status = Some(status::status(live.as_ref(), &inputs, now));
        Some(Conclusion { status, status_events: vec![events::blocked(&blocked)], ..Conclusion::default() })
    }

    async fn observe(&self, _: &Packed<Self::Object>, component: Self::Object) -> Result<Self::Observed, Interruption> {
        let mut observed = self.observer.observe(component).await?;
        observed.legacy_needs = legacy::convert(&mut observed.component, &observed.legacy);
        plan::autoscaler::keep_replicas(&mut observed);
        let claims = validate::gpu_claims(&observed);
        observed.claimed_gpus = claimed_gpus(&self.outputs.applier, &observed.namespace, &claims).await?;
        Ok(observed)
    }

    fn plan(&self, observed: &Self::Observed, _: Timestamp) -> Self::Plan {
        let gpus = observed.claimed_gpus.as_ref().ok().copied();
        match validate::validate(observed) {
            Ok((valid, start)) => plan::plan(observed, &valid, &self.settings, &start, gpus).map(Ok),
            Err(blocked) => Ok(Err(blocked)),
        }
    }

    async fn apply(&self, observed: &Self::Observed, plan: Self::Plan) -> Result<Self::Applied, Interruption> {
        let plan = plan?;
        let lacks_api = plan.as_ref().is_ok_and(|plan| plan.lacks_api);
        self.observer.need(WorkloadKind::of(&observed.component), lacks_api);
        let plan = match plan {
            Ok(plan) => plan,
            Err(blocked) => return Ok(Err(blocked)),
        };
        let mut applied = apply::apply(&self.outputs.applier, observed, &plan).await?;
        self.diagnose(observed, &mut applied).await;
        Ok(Ok(applied))
    }

    fn conclude(&self, observed: &Self::Observed, applied: &Self::Applied, now: Timestamp) -> Conclusion<Self::Status> {
        let live = observed.component.status.as_ref();
        match applied {
            Ok(applied) => {
                let status = status::status(live, &ComponentStatusInputs::from_applied(observed, applied), now);
                // A new object has the default status.
                let generation = live.and_then(|status| status.observed_generation);
                let is_new = generation.is_none_or(|generation| generation == UNOBSERVED);
                let is_new_part = is_new && controller_owner(&observed.component).is_some();
                Conclusion {
                    pace: StatusPace::Limited,
                    events: events::changes(applied, is_new_part).into_iter().collect(),
                    status_events: events::of_status(applied, live, &status),
                    next: requeue::next(observed, applied, &status.conditions, now),
                    status: Some(status),
                }
            }
            Err(blocked) => Conclusion {
                status: Some(status::status(live, &ComponentStatusInputs::from_blocked(observed, blocked), now)),
                status_events: vec![events::blocked(blocked)],
                next: blocked.retry.map_or(Action::AwaitChange, Action::Requeue),
                ..Conclusion::default()
            },
        }
    }
}

impl ComponentReconciler {
    /// Reads pods, and events about them, while the workload lacks replicas for no other known reason.
    async fn diagnose(&self, observed: &ComponentObserved, applied: &mut ComponentApplied) {
        let component = &observed.component;
        let pods = pods::pods_of(component);
        if !applied.lacks_replicas() || !status::needs_diagnosis(applied) {
            self.pods.forget(pods.uid);
            return;
        }
        let replicas = applied.workload.as_ref().map_or(0, |live| live.get().desired_replicas());
        let diagnose = async |found: Vec<Pod>| pods::diagnose(&self.pods, component, replicas, &found).await;
        let conditions = component.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let (diagnosis, after) = self.pods.observe(&pods, age(conditions, Timestamp::now()), diagnose).await;
        (applied.diagnosis, applied.diagnose_after) = (diagnosis, Some(after));
    }
}

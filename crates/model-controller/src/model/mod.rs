//! Reconciles `DynamoModel`: keeps its adapter loaded on the engines of its base model, and reports where it is served.

mod apply;
pub mod endpoint_summary;
pub mod endpoints;
pub mod events;
pub mod fallback;
pub mod finalize;
pub mod memory_annotation;
#[expect(clippy::module_inception, reason = "the folder has the name of the kind, the file that of its content")]
pub mod model;
pub mod observe;
pub mod ownership;
pub mod plan;
mod requeue;
pub mod status;
#[cfg(test)]
mod tests;
pub mod validate;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use api_types::{
    typed::typed,
    v1alpha1::{DynamoModel, DynamoModelStatus},
};
use controller_kit::{
    controller::{Action, Conclusion, Outputs, Reconcile, StatusPace},
    request::Interruption,
    store::{Packed, UnpackError},
};
use finalize::ReleaseWaits;
use jiff::Timestamp;
use kube::Resource;
use model::{FINALIZER, ModelApplied, ModelClaim, ModelObserved, ModelPlan};
use observe::ModelObserver;

/// Reconciles models.
pub struct ModelReconciler {
    /// Reads, and syncs the engines.
    pub observer: Arc<ModelObserver>,
    /// Writes.
    pub outputs: Outputs,
    /// Longest wait of a deleted model for engines that do not unload its adapter.
    pub release_timeout: Duration,
    /// Deleted models that wait.
    pub waits: ReleaseWaits,
}

impl Reconcile for ModelReconciler {
    type Object = DynamoModel;
    type Observed = ModelObserved;
    type Plan = ModelPlan;
    type Applied = ModelApplied;
    type Status = DynamoModelStatus;

    fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    async fn finalize(&self, packed: &Packed<Self::Object>) -> Result<Action, Interruption> {
        if !packed.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER) {
            return Ok(Action::AwaitChange);
        }
        // The adapter of a model that cannot be read was never loaded.
        let model = packed.unpack().ok();
        let uid = packed.metadata.uid.as_deref().unwrap_or_default();
        let waited = self.waits.waited(uid);
        let holders = match &model {
            Some(model) => match self.observer.holders(model).await {
                Err(error) if waited < self.release_timeout => return Err(error),
                holders => holders.unwrap_or_default(),
            },
            None => BTreeSet::new(),
        };
        if let Some(rest) = finalize::plan(holders.len(), waited, self.release_timeout) {
            return Ok(Action::Requeue(rest));
        }
        self.outputs.applier.remove_finalizer(packed, FINALIZER).await?;
        self.waits.forget(uid);
        if model.is_some_and(|model| !ModelClaim::of(&model).leftovers().is_empty()) {
            self.outputs.events.publish(&packed.object_ref(&()), events::released(&holders));
        }
        Ok(Action::AwaitChange)
    }

    fn unreadable(
        &self,
        packed: &Packed<Self::Object>,
        error: &UnpackError,
        now: Timestamp,
    ) -> Option<Conclusion<Self::Status>> {
        let before: Option<DynamoModelStatus> = typed(packed.status()).ok();
        let status = status::unreadable(before.as_ref(), packed.metadata.generation, error.to_string(), now);
        Some(concluded(before.as_ref(), status))
    }

    async fn observe(&self, _: &Packed<Self::Object>, model: Self::Object) -> Result<Self::Observed, Interruption> {
        self.observer.observe(model).await
    }

    fn plan(&self, observed: &Self::Observed, _: Timestamp) -> Self::Plan {
        plan::plan(observed)
    }

    async fn apply(&self, observed: &Self::Observed, plan: Self::Plan) -> Result<Self::Applied, Interruption> {
        apply::apply(&self.outputs.applier, observed, plan).await
    }

    fn conclude(&self, observed: &Self::Observed, applied: &Self::Applied, now: Timestamp) -> Conclusion<Self::Status> {
        let before = observed.model.status.as_ref();
        let conclusion = concluded(before, status::of_applied(before, applied, now));
        Conclusion { next: requeue::next(applied), ..conclusion }
    }

    async fn after_status(&self, observed: Self::Observed, applied: Self::Applied) -> Result<(), Interruption> {
        apply::keep_memory(&self.outputs.applier, &observed, applied).await
    }
}

fn concluded(before: Option<&DynamoModelStatus>, status: DynamoModelStatus) -> Conclusion<DynamoModelStatus> {
    let status_events = events::between(before, &status).into_iter().collect();
    Conclusion { pace: StatusPace::Limited, status_events, ..Conclusion::of_status(status) }
}

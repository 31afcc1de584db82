//! Reconciles `DynamoCheckpoint`: a Job, whose pod an agent captures at the request of a PodSnapshot.

pub mod apply;
pub mod events;
#[cfg(test)]
mod fixtures;
pub mod model;
pub mod observe;
pub mod plan;
pub mod requeue;
pub mod status;
pub mod validate;

use api_types::{
    LEGACY_FINALIZER,
    typed::typed,
    v1alpha1::{DynamoCheckpoint, DynamoCheckpointStatus},
};
use controller_kit::{
    controller::{Action, Conclusion, Outputs, Reconcile},
    request::Interruption,
    store::{Packed, UnpackError},
};
use jiff::Timestamp;
use kube::Resource;
use tracing::warn;

use self::{
    model::{CheckpointApplied, CheckpointObserved, CheckpointPlan, Cleanup},
    observe::CheckpointObserver,
    plan::cleanup,
};

/// Reconciles checkpoints.
pub struct CheckpointReconciler {
    /// Reads.
    pub observer: CheckpointObserver,
    /// Writes.
    pub outputs: Outputs,
}

impl Reconcile for CheckpointReconciler {
    type Object = DynamoCheckpoint;
    type Observed = CheckpointObserved;
    type Plan = CheckpointPlan;
    type Applied = CheckpointApplied;
    type Status = DynamoCheckpointStatus;

    fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// Removes the artifact by a Job, then the finalizer; the finalizer at the latest after a deadline.
    async fn finalize(&self, packed: &Packed<Self::Object>) -> Result<Action, Interruption> {
        let mut finalizers = packed.metadata.finalizers.iter().flatten();
        if !finalizers.any(|finalizer| finalizer == LEGACY_FINALIZER) {
            return Ok(Action::AwaitChange);
        }
        let Ok(checkpoint) = packed.unpack() else { return self.release(packed).await };
        let observed = self.observer.observe(checkpoint).await?;
        let now = Timestamp::now();
        let cleanup = cleanup::plan(&observed, now);
        let cleanup = apply::clean_up(&self.outputs.applier, &observed, cleanup).await?;
        let Cleanup::Done { left, .. } = cleanup else { return Ok(requeue::next_of_cleanup(&observed, now)) };
        if let Some(left) = left {
            // No event can be created in a namespace that is being deleted.
            warn!(left, "artifact not removed");
            self.outputs.events.publish(&packed.object_ref(&()), events::artifact_left(&left));
        }
        self.release(packed).await
    }

    /// Only the checkpoint's own form is a violation of its user; what was captured stays.
    fn unreadable(
        &self,
        packed: &Packed<Self::Object>,
        _: &UnpackError,
        now: Timestamp,
    ) -> Option<Conclusion<Self::Status>> {
        let message = packed.unpack().err()?.to_string();
        let before = typed(packed.status()).unwrap_or_default();
        let status = status::of_unreadable(before, packed.metadata.generation, &message, now);
        Some(Conclusion::of_status(status))
    }

    async fn observe(&self, _: &Packed<Self::Object>, object: Self::Object) -> Result<Self::Observed, Interruption> {
        self.observer.observe(object).await
    }

    fn plan(&self, observed: &Self::Observed, _: Timestamp) -> Self::Plan {
        plan::plan(observed)
    }

    async fn apply(&self, observed: &Self::Observed, plan: Self::Plan) -> Result<Self::Applied, Interruption> {
        apply::apply(&self.outputs.applier, observed, plan).await
    }

    fn conclude(&self, observed: &Self::Observed, applied: &Self::Applied, now: Timestamp) -> Conclusion<Self::Status> {
        let status = status::status(observed, applied, now);
        Conclusion {
            events: events::created(applied),
            status_events: events::of_status(observed.checkpoint.status.as_ref(), &status).into_iter().collect(),
            next: requeue::next(observed, applied),
            status: Some(status),
            ..Conclusion::default()
        }
    }
}

impl CheckpointReconciler {
    async fn release(&self, packed: &Packed<DynamoCheckpoint>) -> Result<Action, Interruption> {
        self.outputs.applier.remove_finalizer(packed, LEGACY_FINALIZER).await?;
        Ok(Action::AwaitChange)
    }
}

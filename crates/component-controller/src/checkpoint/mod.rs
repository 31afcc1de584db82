//! Reconciles `DynamoCheckpoint`: a Job, whose pod an agent captures at the request of a PodSnapshot.
//!
//! The time of the next pass over a checkpoint is computed in this file, without I/O.

pub mod apply;
pub mod events;
#[cfg(test)]
mod fixtures;
pub mod model;
pub mod observe;
pub mod plan;
pub mod status;

use std::time::Duration;

use api_types::{
    LEGACY_FINALIZER,
    v1alpha1::{DynamoCheckpoint, DynamoCheckpointStatus},
};
use controller_kit::{
    controller::{Action, Conclusion, Outputs, Reconcile},
    request::Interruption,
    store::{Packed, UnpackError},
};
use jiff::{SignedDuration, Timestamp};
use kube::Resource;
use tracing::warn;

use self::{
    model::{Applied, CapturePhase, Cleanup, Observed, Plan},
    observe::Observer,
    plan::cleanup,
};

/// Reconciles checkpoints.
pub struct Reconciler {
    /// Reads.
    pub observer: Observer,
    /// Writes.
    pub outputs: Outputs,
}

impl Reconcile for Reconciler {
    type Object = DynamoCheckpoint;
    type Observed = Observed;
    type Plan = Plan;
    type Applied = Applied;
    type Status = DynamoCheckpointStatus;

    fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// Removes the artifact by a Job, then the finalizer; the finalizer at the latest after a deadline.
    async fn finalize(&self, packed: &Packed<DynamoCheckpoint>) -> Result<Action, Interruption> {
        let mut finalizers = packed.metadata.finalizers.iter().flatten();
        if !finalizers.any(|finalizer| finalizer == LEGACY_FINALIZER) {
            return Ok(Action::await_change());
        }
        let Ok(checkpoint) = packed.unpack() else { return self.release(packed).await };
        let observed = self.observer.observe(checkpoint).await?;
        let now = Timestamp::now();
        let cleanup = cleanup::plan(&observed, now);
        let cleanup = apply::clean_up(&self.outputs.applier, &observed, cleanup).await?;
        let Cleanup::Done { left, .. } = cleanup else { return Ok(next_of_cleanup(&observed, now)) };
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
        packed: &Packed<DynamoCheckpoint>,
        _: &UnpackError,
        now: Timestamp,
    ) -> Option<Conclusion<DynamoCheckpointStatus>> {
        let message = packed.unpack().err()?.to_string();
        let before = serde_json::from_value(packed.status()).unwrap_or_default();
        let status = status::of_unreadable(before, packed.metadata.generation, &message, now);
        Some(Conclusion::of_status(status))
    }

    async fn observe(
        &self,
        _: &Packed<DynamoCheckpoint>,
        checkpoint: DynamoCheckpoint,
    ) -> Result<Observed, Interruption> {
        self.observer.observe(checkpoint).await
    }

    fn plan(&self, observed: &Observed, _: Timestamp) -> Plan {
        plan::plan(observed)
    }

    async fn apply(&self, observed: &Observed, plan: Plan) -> Result<Applied, Interruption> {
        apply::apply(&self.outputs.applier, observed, plan).await
    }

    fn conclude(&self, observed: &Observed, applied: &Applied, now: Timestamp) -> Conclusion<DynamoCheckpointStatus> {
        let status = status::status(observed, applied, now);
        Conclusion {
            events: events::created(applied),
            status_events: events::of_status(observed.checkpoint.status.as_ref(), &status).into_iter().collect(),
            next: next(observed, applied),
            status: Some(status),
            ..Conclusion::default()
        }
    }
}

impl Reconciler {
    async fn release(&self, packed: &Packed<DynamoCheckpoint>) -> Result<Action, Interruption> {
        self.outputs.applier.remove_finalizer(packed, LEGACY_FINALIZER).await?;
        Ok(Action::await_change())
    }
}

/// Interval of lookups of an obstacle that no watch shows.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Deadline for the removal of an artifact.
const CLEANUP_DEADLINE: SignedDuration = SignedDuration::from_mins(10);

/// Determines when the next pass is due.
pub fn next(observed: &Observed, applied: &Applied) -> Action {
    match applied.phase {
        // A failed checkpoint stays failed.
        CapturePhase::Failed { .. } => Action::await_change(),
        _ if applied.rejected => Action::requeue(RETRY_INTERVAL),
        CapturePhase::Blocked { .. } | CapturePhase::Waiting(_) | CapturePhase::Capturing { stalled: Some(_), .. } => {
            Action::requeue(RETRY_INTERVAL)
        }
        CapturePhase::Capturing { stalled: None, .. } => {
            observed.waits.look_again.map_or_else(Action::await_change, Action::requeue)
        }
        CapturePhase::Invalid { .. } | CapturePhase::Settled | CapturePhase::Ready(_) => Action::await_change(),
    }
}

/// Determines when the next pass over a checkpoint that is being deleted is due.
pub fn next_of_cleanup(observed: &Observed, now: Timestamp) -> Action {
    let rest =
        cleanup_rest(observed, now).and_then(|rest| Duration::try_from(rest.max(SignedDuration::from_secs(1))).ok());
    rest.map_or(Action::await_change(), Action::requeue)
}

/// Whether the removal has exceeded its deadline.
pub fn cleanup_is_late(observed: &Observed, now: Timestamp) -> bool {
    cleanup_rest(observed, now).is_some_and(|rest| rest.is_negative())
}

/// The time until the deadline of the removal.
fn cleanup_rest(observed: &Observed, now: Timestamp) -> Option<SignedDuration> {
    let since = observed.checkpoint.metadata.deletion_timestamp.as_ref()?.0;
    Some(CLEANUP_DEADLINE - now.duration_since(since))
}

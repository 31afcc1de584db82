//! A DynamoCheckpoint becomes a Job, whose pod an agent captures at the request of a PodSnapshot.

pub mod apply;
pub mod decide;
pub mod deletion;
#[cfg(test)]
mod fixtures;
pub mod observe;
pub mod status;

use std::{sync::Arc, time::Duration};

use api_types::{
    LEGACY_FINALIZER,
    v1alpha1::{CheckpointPhase, DynamoCheckpoint, DynamoCheckpointStatus},
};
use apply::Acted;
use controller_kit::{
    apply::Applier,
    controller::Action,
    events::{Event, EventSink, EventType},
    read::Interruption,
    store::Packed,
};
use decide::Stage;
use deletion::Cleanup;
use jiff::Timestamp;
use kube::Resource;
use observe::{Observed, Observer};
use tracing::warn;

/// How long after somebody else had to do something it is looked for again, where no watch shows it.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Reconciles checkpoints.
pub struct Reconciler {
    /// Reads.
    pub observer: Observer,
    /// Writes.
    pub applier: Applier,
    /// Tells.
    pub events: EventSink,
}

impl Reconciler {
    /// Brings one checkpoint a step further.
    ///
    /// # Errors
    /// What goes away by itself; everything else is told in the status.
    pub async fn reconcile(&self, packed: Arc<Packed<DynamoCheckpoint>>) -> Result<Action, Interruption> {
        if packed.metadata.deletion_timestamp.is_some() {
            return self.release(&packed).await;
        }
        // One that does not have the shape of its kind cannot have come through its schema.
        let observed = self.observer.observe(packed.unpack()?).await?;
        let decision = decide::decide(&observed);
        let acted = apply::apply(&self.applier, &observed, decision).await?;
        let status = status::status(&observed, &acted, Timestamp::now());
        for object in &acted.made {
            let reason = if object.kind == "PodSnapshot" { "PodSnapshotCreated" } else { "Created" };
            let action = format!("Create{}", object.kind);
            self.tell(&packed, EventType::Normal, reason, &action, &format!("created {object}"));
        }
        if self.applier.patch_status(&packed, &status).await? {
            self.tell_phase(&packed, observed.checkpoint.status.as_ref(), &status);
        }
        Ok(next(&observed, &acted))
    }

    /// The checkpoint is being deleted. What it kept is removed by a Job; then the finalizer goes, in any case before long.
    async fn release(&self, packed: &Packed<DynamoCheckpoint>) -> Result<Action, Interruption> {
        let finalizers = packed.metadata.finalizers.iter().flatten();
        if !finalizers.into_iter().any(|finalizer| finalizer == LEGACY_FINALIZER) {
            return Ok(Action::await_change());
        }
        let Ok(checkpoint) = packed.unpack() else { return self.let_go(packed).await };
        let observed = self.observer.observe(checkpoint).await?;
        let now = Timestamp::now();
        let cleanup = deletion::clean_up(&observed, now);
        let cleanup = apply::clean_up(&self.applier, &observed, cleanup).await?;
        let Cleanup::Done { left, .. } = cleanup else { return Ok(await_cleanup(&observed, now)) };
        if let Some(left) = left {
            // In a namespace that goes as well, no event can be made.
            warn!(left, "not removed");
            self.tell(packed, EventType::Warning, "ArtifactLeft", "Delete", &format!("not removed: {left}"));
        }
        self.let_go(packed).await
    }

    async fn let_go(&self, packed: &Packed<DynamoCheckpoint>) -> Result<Action, Interruption> {
        self.applier.remove_finalizer(packed, LEGACY_FINALIZER).await?;
        Ok(Action::await_change())
    }

    fn tell_phase(
        &self,
        packed: &Packed<DynamoCheckpoint>,
        before: Option<&DynamoCheckpointStatus>,
        after: &DynamoCheckpointStatus,
    ) {
        let message = after.message.as_deref().unwrap_or_default();
        if before.and_then(|before| before.phase) == after.phase && before.map(|b| &b.message) == Some(&after.message) {
            return;
        }
        match after.phase {
            Some(CheckpointPhase::Ready) => {
                self.tell(packed, EventType::Normal, "CheckpointReady", "Update", "pods can start from it");
            }
            Some(CheckpointPhase::Failed) => {
                self.tell(packed, EventType::Warning, "CheckpointFailed", "Update", message)
            }
            Some(CheckpointPhase::Pending | CheckpointPhase::Creating) if !message.is_empty() => {
                self.tell(packed, EventType::Warning, "CheckpointBlocked", "Update", message);
            }
            _ => {}
        }
    }

    fn tell(
        &self,
        packed: &Packed<DynamoCheckpoint>,
        type_: EventType,
        reason: &'static str,
        action: &str,
        note: &str,
    ) {
        let (reason, action, note) = (reason.to_owned(), action.to_owned(), note.to_owned());
        self.events.publish(&packed.object_ref(&()), Event { type_, reason, action, note });
    }
}

fn next(observed: &Observed, acted: &Acted) -> Action {
    match acted.stage {
        // What has failed stays so.
        Stage::Failed { .. } => Action::await_change(),
        _ if acted.refused => Action::requeue(LOOK_AGAIN),
        Stage::Blocked { .. } | Stage::Waiting(_) | Stage::Capturing { stalled: Some(_), .. } => {
            Action::requeue(LOOK_AGAIN)
        }
        Stage::Capturing { stalled: None, .. } => {
            observed.waits.look_again.map_or_else(Action::await_change, Action::requeue)
        }
        Stage::Mistaken { .. } | Stage::Settled | Stage::Ready(_) => Action::await_change(),
    }
}

fn await_cleanup(observed: &Observed, now: Timestamp) -> Action {
    let patience = deletion::patience(observed, now).and_then(|patience| Duration::try_from(patience).ok());
    patience.map_or(Action::await_change(), Action::requeue)
}

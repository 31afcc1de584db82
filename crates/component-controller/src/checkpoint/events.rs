//! Events of a checkpoint.

use api_types::v1alpha1::{CheckpointPhase, DynamoCheckpointStatus};
use controller_kit::events::Event;

use super::model::CheckpointApplied;

/// The events about created objects.
pub fn created(applied: &CheckpointApplied) -> Vec<Event> {
    let event = |object: &controller_kit::apply::ObjectId| {
        let reason = if object.kind == "PodSnapshot" { "PodSnapshotCreated" } else { "Created" };
        Event::normal(reason, format!("Create{}", object.kind), format!("created {object}"))
    };
    applied.created.iter().map(event).collect()
}

/// The event about a changed phase or message.
pub fn of_status(before: Option<&DynamoCheckpointStatus>, after: &DynamoCheckpointStatus) -> Option<Event> {
    let message = after.message.as_deref().unwrap_or_default();
    if before.and_then(|before| before.phase) == after.phase && before.map(|b| &b.message) == Some(&after.message) {
        return None;
    }
    match after.phase {
        Some(CheckpointPhase::Ready) => Some(Event::normal("CheckpointReady", "Update", "pods can start from it")),
        Some(CheckpointPhase::Failed) => Some(Event::warning("CheckpointFailed", "Update", message)),
        Some(CheckpointPhase::Pending | CheckpointPhase::Creating) if !message.is_empty() => {
            Some(Event::warning("CheckpointBlocked", "Update", message))
        }
        _ => None,
    }
}

/// The event that an artifact was not removed with its checkpoint.
pub fn artifact_left(left: &str) -> Event {
    Event::warning("ArtifactLeft", "Delete", format!("not removed: {left}"))
}

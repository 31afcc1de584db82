//! Method by which the pods of a component start, from the known facts about its checkpoint.

use api_types::{
    v1alpha1::{CheckpointPhase, DynamoCheckpoint},
    v1beta1::CheckpointStartupPolicy,
};

use super::{CheckpointConfig, RestoreSource, Start, StorageLocation, artifact_version, checkpoint_id};
use crate::ValidatedComponent;

/// Known facts about the checkpoint of a component; empty if it has none.
#[derive(Debug, Default)]
pub struct CheckpointFacts {
    /// Namespace of the component.
    pub namespace: String,
    /// `None` if checkpoints are switched off.
    pub settings: Option<CheckpointConfig>,
    /// The checkpoint.
    pub live: Option<DynamoCheckpoint>,
    /// Location of the checkpoints.
    pub place: StorageLocation,
}

/// Plans the start from the state of the component's checkpoint.
///
/// With checkpoints switched off, and as long as there is none, pods start cold.
///
/// # Errors
/// The change that the user has to make.
pub fn start(valid: &ValidatedComponent<'_>, facts: &CheckpointFacts) -> Result<Start, String> {
    let Some(usage) = valid.checkpoint else { return Ok(Start::Cold) };
    let Some(settings) = &facts.settings else { return Ok(Start::Cold) };
    let waits = usage.policy == CheckpointStartupPolicy::WaitForCheckpoint;
    let Some(live) = &facts.live else {
        return Ok(match (usage.reference, waits) {
            (Some(name), _) => Start::Awaited(format!(
                "waiting for DynamoCheckpoint {}/{name}, which spec.experimental.checkpoint.checkpointRef names and \
                 which does not exist",
                facts.namespace
            )),
            (None, true) => Start::Awaited("waiting for a checkpoint to be made of this component".to_owned()),
            (None, false) => Start::Cold,
        });
    };
    let name = live.metadata.name.clone().unwrap_or_default();
    let shares = live.spec.gpu_memory_service.as_ref().is_some_and(|service| service.enabled);
    check_sharing(valid, &name, shares)?;
    if !waits {
        return Ok(Start::AtAdmission(name));
    }
    if !live.can_be_restored() {
        return Ok(Start::Awaited(format!("waiting for DynamoCheckpoint {name}, which is {}", state(live))));
    }
    let Some(storage) = facts.place.storage() else {
        let why = facts.place.hindrance(&facts.namespace).unwrap_or_default();
        return Ok(Start::Awaited(format!("cannot restore from DynamoCheckpoint {name}: {why}")));
    };
    Ok(Start::Restored(Box::new(RestoreSource {
        id: checkpoint_id(live),
        artifact_version: artifact_version(live).to_owned(),
        storage: storage.clone(),
        tells_storage: facts.place.named().is_some(),
        seccomp_profile: settings.seccomp_profile.clone(),
        shares_gpu_memory: shares,
    })))
}

/// Formats the state of a checkpoint.
fn state(checkpoint: &DynamoCheckpoint) -> String {
    if checkpoint.metadata.deletion_timestamp.is_some() {
        return "being deleted".to_owned();
    }
    let phase = checkpoint.status.as_ref().and_then(|status| status.phase).unwrap_or(CheckpointPhase::Pending);
    format!("{phase:?}")
}

/// Processes find the memory again that they were captured with, or cannot be restored.
fn check_sharing(valid: &ValidatedComponent<'_>, name: &str, shares: bool) -> Result<(), String> {
    let field = "spec.experimental.gpuMemoryService";
    match (valid.shared_gpus.is_some(), shares) {
        (true, false) => Err(format!(
            "{field}: DynamoCheckpoint {name} was made without shared GPU memory; remove the field, or name another \
             checkpoint"
        )),
        (false, true) => Err(format!(
            "{field}: is missing, and the processes of {} in DynamoCheckpoint {name} share GPU memory; set the field, or \
             name another checkpoint",
            valid.restore_target()
        )),
        _ => Ok(()),
    }
}

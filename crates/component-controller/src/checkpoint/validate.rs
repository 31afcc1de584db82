//! Validates a checkpoint and what it depends on, before its Job is created.

use api_types::{conditions::checkpoint as reason, violations::Violation};
use k8s_openapi::api::{batch::v1::Job, core::v1::PersistentVolumeClaim};
use rendering::checkpoint::{CaptureSettings, check_shared_gpu_memory, render_capture_job};

use super::model::{CapturePhase, CheckpointObserved};

/// The message while checkpoints are switched off.
pub const SWITCHED_OFF: &str = "checkpoints are switched off; an administrator switches them on with \
                                checkpoint.enabled in the operator's configuration";

/// Objects that a valid checkpoint needs, without owners.
#[derive(Debug, PartialEq)]
pub struct ValidatedCheckpoint {
    /// The PersistentVolumeClaim for checkpoints, if it is missing and the configuration says to create it.
    pub missing_volume: Option<PersistentVolumeClaim>,
    /// The Job whose pod is captured.
    pub capture_job: Job,
}

/// Validates a checkpoint whose Job does not exist.
///
/// # Errors
/// The phase of a checkpoint that is invalid, or that something outside it stops or delays.
pub fn validate(observed: &CheckpointObserved) -> Result<ValidatedCheckpoint, CapturePhase> {
    let Some(config) = &observed.config else {
        return Err(CapturePhase::Blocked { reason: reason::DISABLED, message: SWITCHED_OFF.to_owned() });
    };
    let missing_volume = observed.location.missing_claim(&observed.namespace, &config.storage);
    let missing_volume =
        missing_volume.map_err(|message| CapturePhase::Blocked { reason: reason::NO_STORAGE, message })?;
    let claimed_gpus = observed.claimed_gpus.clone().map_err(CapturePhase::Waiting)?;
    let (seccomp_profile, storage) = (config.seccomp_profile.as_deref(), observed.location.named());
    let settings = CaptureSettings { seccomp_profile, storage, claimed_gpus };
    let capture_job = render_capture_job(&observed.checkpoint, &observed.id, settings);
    let capture_job = capture_job.map_err(|violations| invalid(observed, &violations))?;
    Ok(ValidatedCheckpoint { missing_volume, capture_job })
}

fn invalid(observed: &CheckpointObserved, violations: &[Violation]) -> CapturePhase {
    let prepared = check_shared_gpu_memory(&observed.checkpoint).is_ok();
    let reason = if prepared { reason::INVALID_SPEC } else { reason::NOT_PREPARED };
    let message = violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    CapturePhase::Invalid { reason, message }
}

//! Events of an image build.

use controller_kit::events::Event;

use super::model::{BuildPhase, ImageBuildApplied, ImageBuildObserved, ImageBuildObstacle};

const ACTION: &str = "Build";

/// The event that a build was started.
pub fn started(observed: &ImageBuildObserved, applied: &ImageBuildApplied) -> Option<Event> {
    let image = observed.image.as_deref().unwrap_or_default();
    let note = || format!("building {image} by Job {}", observed.job_name);
    applied.created.then(|| Event::normal("BuildStarted", ACTION, note()))
}

/// The event about the phase of a build whose status has changed.
pub fn of_phase(observed: &ImageBuildObserved, phase: &BuildPhase) -> Option<Event> {
    match phase {
        BuildPhase::Available => {
            let note = format!("the registry has {}", observed.image.as_deref().unwrap_or_default());
            Some(Event::normal("ImageAvailable", ACTION, note))
        }
        BuildPhase::Failed { message, .. } => Some(Event::warning("BuildFailed", ACTION, message)),
        BuildPhase::Obstructed(ImageBuildObstacle::Invalid(message)) => Some(invalid_spec(message)),
        // The pod is deleted with its Job at the deadline, so the diagnosis is recorded before.
        BuildPhase::Building { diagnosis: Some(diagnosis), .. } if !diagnosis.cause.is_expected() => {
            Some(Event::warning(diagnosis.cause.reason(), ACTION, &diagnosis.message))
        }
        BuildPhase::Obstructed(_) | BuildPhase::Queued(_) | BuildPhase::Building { .. } => None,
    }
}

/// The event that the spec is invalid.
pub fn invalid_spec(message: &str) -> Event {
    Event::warning("InvalidSpec", ACTION, message)
}

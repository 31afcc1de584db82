//! Events about an adapter. Pure.

use controller_kit::events::Event;

use super::model::{ComponentScale, ScaleOutcome, ScalingAdapterApplied};

/// The event about a pass.
pub fn of_applied(applied: &ScalingAdapterApplied) -> Option<Event> {
    let scale = match &applied.plan {
        Err(no_effect) => return Some(Event::warning(no_effect.reason, "Scale", &no_effect.message)),
        Ok(plan) => plan.scale.as_ref()?,
    };
    let ComponentScale { component, from, to, .. } = scale;
    let from = from.unwrap_or(1);
    match &applied.outcome {
        ScaleOutcome::Unchanged | ScaleOutcome::Failed(_) => None,
        ScaleOutcome::Scaled => {
            let note = format!("component {component} goes from {from} to {to} replicas");
            Some(Event::normal("Scaled", "Scale", note))
        }
        ScaleOutcome::Rejected(why) => {
            let note = format!("component {component} cannot go from {from} to {to} replicas: {why}");
            Some(Event::warning("UpdateFailed", "Scale", note))
        }
    }
}

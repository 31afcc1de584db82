//! Events about an adapter. Pure.

use controller_kit::events::Event;

use super::model::{Applied, Outcome, Plan, Scale};

/// The event about a pass.
pub fn of_applied(applied: &Applied) -> Option<Event> {
    let scale = match &applied.plan {
        Plan::Idle(no_effect) => return Some(Event::warning(no_effect.reason, "Scale", &no_effect.message)),
        Plan::Follow { scale, .. } => scale.as_ref()?,
    };
    let Scale { component, from, to, .. } = scale;
    let from = from.unwrap_or(1);
    match &applied.outcome {
        Outcome::Unchanged | Outcome::Failed(_) => None,
        Outcome::Scaled => {
            let note = format!("component {component} goes from {from} to {to} replicas");
            Some(Event::normal("Scaled", "Scale", note))
        }
        Outcome::Rejected(why) => {
            let note = format!("component {component} cannot go from {from} to {to} replicas: {why}");
            Some(Event::warning("UpdateFailed", "Scale", note))
        }
    }
}

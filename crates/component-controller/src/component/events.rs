//! Events: what really changed, and what somebody has to change.

use super::acted::{Acted, Cause, Change, Refusal, Verb};
use api_types::conditions;
use controller_kit::events::EventType;

/// One event to be published on the component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Normal or Warning.
    pub type_: EventType,
    /// One CamelCase word.
    pub reason: &'static str,
    /// One CamelCase word. It names the kind, because events that differ in their notes alone are counted as one.
    pub action: String,
    /// The object and what happened to it.
    pub note: String,
}

/// Reason of the warning that the API server rejects what we made of the spec.
const REJECTED: &str = "Rejected";
/// Reason of the warning that a right or a quota is missing.
const FORBIDDEN: &str = "Forbidden";

/// What was written; nothing if nothing was.
pub fn changes(acted: &Acted) -> Vec<Event> {
    let tell = |change: &Change| {
        let (reason, action, word) = match change.verb {
            Verb::Created => ("Created", "Create", "created"),
            Verb::Updated => ("Updated", "Update", "updated"),
            Verb::Deleted => ("Deleted", "Delete", "deleted"),
        };
        let generation = match (change.verb, change.generation) {
            (Verb::Updated, Some(generation)) => format!(", now at generation {generation}"),
            _ => String::new(),
        };
        let action = format!("{action}{}", change.object.kind);
        Event { type_: EventType::Normal, reason, action, note: format!("{word} {}{generation}", change.object) }
    };
    acted.changes.iter().map(tell).collect()
}

/// What is in the way. To be told when it is news, not at every attempt.
pub fn refusals(acted: &Acted) -> Vec<Event> {
    let tell = |refusal: &Refusal| {
        let reason = match refusal.cause {
            Cause::NameTaken => conditions::component::NAME_TAKEN,
            Cause::Rejected => REJECTED,
            Cause::Forbidden => FORBIDDEN,
        };
        let action = format!("Apply{}", refusal.object.kind);
        Event { type_: EventType::Warning, reason, action, note: refusal.message.clone() }
    };
    acted.refusals.iter().map(tell).collect()
}

/// The event that tells of a spec that cannot be used.
pub fn invalid_spec(message: &str) -> Event {
    Event {
        type_: EventType::Warning,
        reason: conditions::component::INVALID_SPEC,
        action: "Validate".to_owned(),
        note: message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_kit::apply::ObjectId;
    use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
    use kube::api::ObjectMeta;

    fn metadata() -> ObjectMeta {
        ObjectMeta { name: Some("w".into()), namespace: Some("n".into()), ..ObjectMeta::default() }
    }

    #[test]
    fn nothing_done_is_nothing_told() {
        assert!(changes(&Acted::default()).is_empty() && refusals(&Acted::default()).is_empty());
    }

    #[test]
    fn every_change_and_every_refusal_is_told_once() {
        let deployment = ObjectId::of(&Deployment { metadata: metadata(), ..Deployment::default() });
        let service = ObjectId::of(&Service { metadata: metadata(), ..Service::default() });
        let acted = Acted {
            changes: vec![
                Change { verb: Verb::Created, object: service.clone(), generation: None },
                Change { verb: Verb::Updated, object: deployment, generation: Some(4) },
            ],
            refusals: vec![Refusal {
                cause: Cause::NameTaken,
                object: service,
                message: "Service n/w is taken".into(),
            }],
            ..Acted::default()
        };
        let told = [changes(&acted), refusals(&acted)].concat();
        let told: Vec<String> =
            told.iter().map(|e| format!("{:?} {} {}: {}", e.type_, e.reason, e.action, e.note)).collect();
        assert_eq!(
            told,
            [
                "Normal Created CreateService: created Service n/w",
                "Normal Updated UpdateDeployment: updated Deployment n/w, now at generation 4",
                "Warning NameTaken ApplyService: Service n/w is taken",
            ]
        );
    }
}

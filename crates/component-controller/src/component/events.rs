//! Events: what really changed, and what somebody has to change.

use api_types::{conditions, v1beta1::DynamoComponentDeploymentStatus};
use controller_kit::{conditions::find, events::Event};

use super::acted::{Acted, Cause, Change, Refusal, Verb};

/// Reason of the warning that the API server rejects what we made of the spec.
const REJECTED: &str = "Rejected";
/// Reason of the warning that a right or a quota is missing.
const FORBIDDEN: &str = "Forbidden";

/// What was written, all of it in one event, because every event is a write itself; `None` if nothing was.
///
/// The reason is what was done, or `Updated` if that differs from object to object. `told_by_graph`: the component is new and
/// somebody else's part, who tells how far it is; that its first objects were made is no news then.
pub fn changes(acted: &Acted, told_by_graph: bool) -> Option<Event> {
    let first = acted.changes.first()?.verb;
    let alike = acted.changes.iter().all(|change| change.verb == first);
    if told_by_graph && alike && first == Verb::Created {
        return None;
    }
    let (reason, ..) = words(if alike { first } else { Verb::Updated });
    let (mut action, mut note, mut last) = (String::new(), String::new(), None);
    for Change { verb, object, generation } in &acted.changes {
        if last.is_some() {
            action.push_str("And");
            note.push_str(" and ");
        }
        if last != Some(*verb) {
            let (_, imperative, past) = words(*verb);
            action.push_str(imperative);
            note.push_str(past);
            note.push(' ');
        }
        action.push_str(&object.kind);
        note.push_str(&object.to_string());
        if let (Verb::Updated, Some(generation)) = (verb, generation) {
            note.push_str(&format!(", now at generation {generation}"));
        }
        last = Some(*verb);
    }
    Some(Event::normal(reason, action, note))
}

/// A verb as reason, in an action, and in a note.
fn words(verb: Verb) -> (&'static str, &'static str, &'static str) {
    match verb {
        Verb::Created => ("Created", "Create", "created"),
        Verb::Updated => ("Updated", "Update", "updated"),
        Verb::Deleted => ("Deleted", "Delete", "deleted"),
    }
}

/// What is in the way. To be told when it is news, not at every attempt.
pub fn refusals(acted: &Acted) -> Vec<Event> {
    let tell = |refusal: &Refusal| {
        let reason = match refusal.cause {
            Cause::NameTaken => conditions::component::NAME_TAKEN,
            Cause::Rejected => REJECTED,
            Cause::Forbidden => FORBIDDEN,
            Cause::Webhook => conditions::component::WEBHOOK_UNAVAILABLE,
        };
        let action = format!("Apply{}", refusal.object.kind);
        Event::warning(reason, action, refusal.message.clone())
    };
    acted.refusals.iter().map(tell).collect()
}

/// The event that tells why nothing was tried.
pub fn stuck(reason: &'static str, message: &str) -> Event {
    Event::warning(reason, "Validate", message)
}

/// The event that pods do not come up and somebody has to help, when it is news.
pub fn trouble(
    before: Option<&DynamoComponentDeploymentStatus>,
    after: &DynamoComponentDeploymentStatus,
) -> Option<Event> {
    let troubled = |status: &DynamoComponentDeploymentStatus| {
        let found = find(&status.conditions, conditions::RECONCILING).filter(|c| c.status == "True");
        found.and_then(|c| Some((conditions::component::trouble(&c.reason)?, c.message.clone())))
    };
    let (reason, note) = troubled(after)?;
    let known = before.and_then(troubled).is_some_and(|(known, _)| known == reason);
    (!known).then(|| Event::warning(reason, "WatchPods", note))
}

#[cfg(test)]
mod tests {
    use controller_kit::apply::ObjectId;
    use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
    use kube::api::ObjectMeta;

    use super::*;

    fn metadata() -> ObjectMeta {
        ObjectMeta { name: Some("w".into()), namespace: Some("n".into()), ..ObjectMeta::default() }
    }

    #[test]
    fn nothing_done_is_nothing_told() {
        assert!(told(changes(&Acted::default(), false)).is_empty() && told(refusals(&Acted::default())).is_empty());
    }

    fn change(verb: Verb, object: &ObjectId, generation: Option<i64>) -> Change {
        Change { verb, object: object.clone(), generation }
    }

    fn told(events: impl IntoIterator<Item = Event>) -> Vec<String> {
        let tell = |e: Event| format!("{:?} {} {}: {}", e.type_, e.reason, e.action, e.note);
        events.into_iter().map(tell).collect()
    }

    fn children() -> (ObjectId, ObjectId) {
        (
            ObjectId::of(&Service { metadata: metadata(), ..Service::default() }),
            ObjectId::of(&Deployment { metadata: metadata(), ..Deployment::default() }),
        )
    }

    #[test]
    fn all_changes_of_a_pass_are_one_event() {
        let (service, deployment) = children();
        for (changes_made, expected) in [
            (
                vec![change(Verb::Created, &service, None), change(Verb::Created, &deployment, Some(1))],
                "Normal Created CreateServiceAndDeployment: created Service n/w and Deployment n/w",
            ),
            (
                vec![change(Verb::Created, &service, None), change(Verb::Updated, &deployment, Some(4))],
                "Normal Updated CreateServiceAndUpdateDeployment: \
                 created Service n/w and updated Deployment n/w, now at generation 4",
            ),
            (
                vec![change(Verb::Updated, &service, None), change(Verb::Updated, &deployment, Some(4))],
                "Normal Updated UpdateServiceAndDeployment: \
                 updated Service n/w and Deployment n/w, now at generation 4",
            ),
            (vec![change(Verb::Deleted, &service, None)], "Normal Deleted DeleteService: deleted Service n/w"),
        ] {
            assert_eq!(told(changes(&Acted { changes: changes_made, ..Acted::default() }, false)), [expected]);
        }
    }

    #[test]
    fn the_first_objects_of_a_graphs_component_are_no_news_and_everything_else_is() {
        let (service, deployment) = children();
        let (made, adopted) = (change(Verb::Created, &service, None), change(Verb::Updated, &deployment, Some(2)));
        let told = |changes_made: &[Change], told_by_graph| {
            changes(&Acted { changes: changes_made.to_vec(), ..Acted::default() }, told_by_graph).is_some()
        };
        assert!(!told(std::slice::from_ref(&made), true));
        assert!(told(std::slice::from_ref(&made), false), "it stands alone, or the object was gone");
        assert!(told(&[made, adopted], true), "what was there has changed");
    }

    #[test]
    fn trouble_with_pods_is_told_when_it_begins_and_only_if_somebody_can_help() {
        let status = |reason: &str, message: &str| {
            let mut status = DynamoComponentDeploymentStatus::default();
            let (holds, now) = (controller_kit::conditions::Status::True, jiff::Timestamp::UNIX_EPOCH);
            let all = &mut status.conditions;
            controller_kit::conditions::set_condition(all, conditions::RECONCILING, holds, reason, message, None, now);
            status
        };
        let (pull, probe) = (status("ImagePullFailed", "pod w-1: no"), status("ProbeNotPassed", "pod w-1: loads"));
        assert_eq!(told(trouble(None, &pull)), ["Warning ImagePullFailed WatchPods: pod w-1: no"]);
        assert_eq!(told(trouble(Some(&probe), &pull)).len(), 1);
        assert!(trouble(Some(&pull), &status("ImagePullFailed", "pod w-2: no")).is_none(), "told already");
        assert!(trouble(None, &probe).is_none(), "engines take their time");
    }

    #[test]
    fn every_refusal_is_told() {
        let (service, deployment) = children();
        let refusal = |cause, object, message: &str| Refusal { cause, object, message: message.to_owned() };
        let refusals_met = vec![
            refusal(Cause::NameTaken, service, "Service n/w is taken"),
            refusal(Cause::Forbidden, deployment, "exceeded quota"),
        ];
        assert_eq!(
            told(refusals(&Acted { refusals: refusals_met, ..Acted::default() })),
            [
                "Warning NameTaken ApplyService: Service n/w is taken",
                "Warning Forbidden ApplyDeployment: exceeded quota"
            ]
        );
    }
}

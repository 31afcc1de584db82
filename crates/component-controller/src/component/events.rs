//! Events of a component: writes, rejections, and why pods do not serve.

use api_types::{conditions, v1beta1::DynamoComponentDeploymentStatus};
use controller_kit::{conditions::find, events::Event, failure::Class};

use super::model::{ChildVerb, ChildWrite, ComponentApplied, ComponentBlocked, Rejection};

/// Reason of the warning that the API server rejects a child.
const REJECTED: &str = "Rejected";
/// Reason of the warning that a right or a quota is missing.
const FORBIDDEN: &str = "Forbidden";

/// The event about all writes of a pass; `None` if there were none. It is one event because every event is a write
/// itself.
///
/// The reason is the operation, or `Updated` if operations differ. The action names the kinds, because events that
/// differ in their notes alone are counted as one. `reported_by_graph`: the component is new and part of a graph, which
/// reports its progress; the creation of its first children has no event then.
pub fn changes(applied: &ComponentApplied, reported_by_graph: bool) -> Option<Event> {
    let first = applied.changes.first()?.verb;
    let alike = applied.changes.iter().all(|change| change.verb == first);
    if reported_by_graph && alike && first == ChildVerb::Created {
        return None;
    }
    let (reason, ..) = words(if alike { first } else { ChildVerb::Updated });
    let text = |change: &ChildWrite| match (change.verb, change.generation) {
        (ChildVerb::Updated, Some(generation)) => format!("{}, now at generation {generation}", change.object),
        _ => change.object.to_string(),
    };
    let (mut actions, mut notes) = (Vec::new(), Vec::new());
    for same_verb in applied.changes.chunk_by(|one, next| one.verb == next.verb) {
        let (_, imperative, past) = words(same_verb[0].verb);
        let kinds: Vec<&str> = same_verb.iter().map(|change| change.object.kind.as_str()).collect();
        let objects: Vec<String> = same_verb.iter().map(text).collect();
        actions.push(format!("{imperative}{}", kinds.join("And")));
        notes.push(format!("{past} {}", objects.join(" and ")));
    }
    Some(Event::normal(reason, actions.join("And"), notes.join(" and ")))
}

/// A verb as reason, in an action, and in a note.
fn words(verb: ChildVerb) -> (&'static str, &'static str, &'static str) {
    match verb {
        ChildVerb::Created => ("Created", "Create", "created"),
        ChildVerb::Updated => ("Updated", "Update", "updated"),
        ChildVerb::Deleted => ("Deleted", "Delete", "deleted"),
    }
}

/// The events about rejected writes, to be recorded when the status changes, not at every attempt.
fn rejections(applied: &ComponentApplied) -> Vec<Event> {
    let event = |rejection: &Rejection| {
        let reason = match rejection.class {
            Class::Foreign => conditions::component::NAME_TAKEN,
            Class::Invalid => REJECTED,
            Class::Forbidden => FORBIDDEN,
            Class::Webhook | Class::Transient => conditions::component::WEBHOOK_UNAVAILABLE,
        };
        let action = format!("Apply{}", rejection.object.kind);
        Event::warning(reason, action, rejection.message.clone())
    };
    applied.rejections.iter().map(event).collect()
}

/// The event that a component cannot be planned.
pub fn blocked(blocked: &ComponentBlocked) -> Event {
    Event::warning(blocked.reason, "Validate", &blocked.message)
}

/// The events of a pass whose status was written.
pub fn of_status(
    applied: &ComponentApplied,
    before: Option<&DynamoComponentDeploymentStatus>,
    after: &DynamoComponentDeploymentStatus,
) -> Vec<Event> {
    rejections(applied).into_iter().chain(diagnosis(before, after)).collect()
}

/// The event that pods do not become ready and need a change, when the reason is new.
fn diagnosis(
    before: Option<&DynamoComponentDeploymentStatus>,
    after: &DynamoComponentDeploymentStatus,
) -> Option<Event> {
    let problem = |status: &DynamoComponentDeploymentStatus| {
        let found = find(&status.conditions, conditions::RECONCILING).filter(|c| c.status == "True");
        found.and_then(|c| Some((conditions::component::trouble(&c.reason)?, c.message.clone())))
    };
    let (reason, note) = problem(after)?;
    let known = before.and_then(problem).is_some_and(|(known, _)| known == reason);
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
    fn a_pass_without_writes_has_no_events() {
        assert!(
            texts(changes(&ComponentApplied::default(), false)).is_empty()
                && texts(rejections(&ComponentApplied::default())).is_empty()
        );
    }

    fn change(verb: ChildVerb, object: &ObjectId, generation: Option<i64>) -> ChildWrite {
        ChildWrite { verb, object: object.clone(), generation }
    }

    fn texts(events: impl IntoIterator<Item = Event>) -> Vec<String> {
        let text = |e: Event| format!("{:?} {} {}: {}", e.type_, e.reason, e.action, e.note);
        events.into_iter().map(text).collect()
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
                vec![change(ChildVerb::Created, &service, None), change(ChildVerb::Created, &deployment, Some(1))],
                "Normal Created CreateServiceAndDeployment: created Service n/w and Deployment n/w",
            ),
            (
                vec![change(ChildVerb::Created, &service, None), change(ChildVerb::Updated, &deployment, Some(4))],
                "Normal Updated CreateServiceAndUpdateDeployment: \
                 created Service n/w and updated Deployment n/w, now at generation 4",
            ),
            (
                vec![change(ChildVerb::Updated, &service, None), change(ChildVerb::Updated, &deployment, Some(4))],
                "Normal Updated UpdateServiceAndDeployment: \
                 updated Service n/w and Deployment n/w, now at generation 4",
            ),
            (vec![change(ChildVerb::Deleted, &service, None)], "Normal Deleted DeleteService: deleted Service n/w"),
        ] {
            assert_eq!(
                texts(changes(&ComponentApplied { changes: changes_made, ..ComponentApplied::default() }, false)),
                [expected]
            );
        }
    }

    #[test]
    fn only_the_first_children_of_a_graphs_component_have_no_event() {
        let (service, deployment) = children();
        let (made, adopted) =
            (change(ChildVerb::Created, &service, None), change(ChildVerb::Updated, &deployment, Some(2)));
        let has_event = |changes_made: &[ChildWrite], reported_by_graph| {
            changes(
                &ComponentApplied { changes: changes_made.to_vec(), ..ComponentApplied::default() },
                reported_by_graph,
            )
            .is_some()
        };
        assert!(!has_event(std::slice::from_ref(&made), true));
        assert!(has_event(std::slice::from_ref(&made), false), "standalone, or the child was recreated");
        assert!(has_event(&[made, adopted], true), "a live child has changed");
    }

    #[test]
    fn a_diagnosis_has_an_event_when_it_is_new_and_needs_a_change() {
        let status = |reason: &str, message: &str| {
            let mut status = DynamoComponentDeploymentStatus::default();
            let (holds, now) = (controller_kit::conditions::Status::True, jiff::Timestamp::UNIX_EPOCH);
            let all = &mut status.conditions;
            controller_kit::conditions::set_condition(all, conditions::RECONCILING, holds, reason, message, None, now);
            status
        };
        let (pull, probe) = (status("ImagePullFailed", "pod w-1: no"), status("ProbeNotPassed", "pod w-1: loads"));
        assert_eq!(texts(diagnosis(None, &pull)), ["Warning ImagePullFailed WatchPods: pod w-1: no"]);
        assert_eq!(texts(diagnosis(Some(&probe), &pull)).len(), 1);
        assert!(diagnosis(Some(&pull), &status("ImagePullFailed", "pod w-2: no")).is_none(), "recorded already");
        assert!(diagnosis(None, &probe).is_none(), "loading a model takes time");
    }

    #[test]
    fn every_rejection_has_texts() {
        let (service, deployment) = children();
        let rejection = |class, object, message: &str| Rejection { class, object, message: message.to_owned() };
        let rejected = vec![
            rejection(Class::Foreign, service, "Service n/w is taken"),
            rejection(Class::Forbidden, deployment, "exceeded quota"),
        ];
        assert_eq!(
            texts(rejections(&ComponentApplied { rejections: rejected, ..ComponentApplied::default() })),
            [
                "Warning NameTaken ApplyService: Service n/w is taken",
                "Warning Forbidden ApplyDeployment: exceeded quota"
            ]
        );
    }
}

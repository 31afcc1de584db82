//! Events of a graph: what changed between two of its statuses. Pure.

use api_types::{
    conditions,
    v1beta1::{DynamoGraphDeploymentStatus, RestartPhase, RollingUpdatePhase},
};
use controller_kit::{
    conditions::{Status, find_with},
    events::Event,
};

use crate::graph::model::RolloutCondition;

/// Action of every event.
const ACTION: &str = "Reconcile";

/// The events between two statuses.
pub(super) fn events(before: Option<&DynamoGraphDeploymentStatus>, after: &DynamoGraphDeploymentStatus) -> Vec<Event> {
    let mut events = Vec::new();
    let phase = |s: &DynamoGraphDeploymentStatus| s.rolling_update.as_ref().and_then(|r| r.phase);
    match (before.and_then(phase), phase(after)) {
        (was, Some(RollingUpdatePhase::InProgress)) if was != Some(RollingUpdatePhase::InProgress) => {
            events.push(Event::normal("RollingUpdateStarted", ACTION, "A new worker revision takes over"))
        }
        (Some(RollingUpdatePhase::InProgress | RollingUpdatePhase::Pending), Some(RollingUpdatePhase::Completed)) => {
            events.push(Event::normal("RollingUpdateCompleted", ACTION, "Only the new worker revision is left"));
        }
        _ => {}
    }
    for state in [superseded, late, stalled, hindered, unplaced] {
        let known = before.and_then(state).map(|(known, _)| known);
        events.extend(state(after).filter(|(key, _)| known.as_ref() != Some(key)).map(|(_, event)| event));
    }
    events
}

/// Key that distinguishes a state from another one of its kind, and the event published when it begins.
type KeyedEvent = (String, Event);

fn superseded(status: &DynamoGraphDeploymentStatus) -> Option<KeyedEvent> {
    let restart = status.restart.as_ref().filter(|restart| restart.phase == Some(RestartPhase::Superseded))?;
    let id = restart.observed_id.clone()?;
    let note = format!("Restart {id} is not carried out: a change of workers is in progress, and starts them anew");
    Some((id, Event::warning("RestartSuperseded", ACTION, note)))
}

fn late(status: &DynamoGraphDeploymentStatus) -> Option<KeyedEvent> {
    let found = find_with(&status.conditions, conditions::ROLLOUT_PROGRESSING, Status::False)?;
    let (note, _) = RolloutCondition::stored(&status.conditions)?;
    let undone = found.reason == conditions::graph::ROLLOUT_UNDONE;
    let reason = if undone { conditions::graph::ROLLOUT_UNDONE } else { conditions::graph::DEADLINE_EXCEEDED };
    Some((found.reason.clone(), Event::warning(reason, ACTION, note)))
}

fn stalled(status: &DynamoGraphDeploymentStatus) -> Option<KeyedEvent> {
    let found = find_with(&status.conditions, conditions::STALLED, Status::True)?;
    Some((found.message.clone(), Event::warning("Stalled", ACTION, &found.message)))
}

fn hindered(status: &DynamoGraphDeploymentStatus) -> Option<KeyedEvent> {
    let found = find_with(&status.conditions, conditions::RECONCILING, Status::True)?;
    let reason = conditions::component::trouble(&found.reason)?;
    Some((reason.to_owned(), Event::warning(reason, ACTION, &found.message)))
}

fn unplaced(status: &DynamoGraphDeploymentStatus) -> Option<KeyedEvent> {
    let found = find_with(&status.conditions, conditions::TOPOLOGY_AVAILABLE, Status::False)?;
    let levels = found.reason == conditions::graph::TOPOLOGY_LEVELS_UNAVAILABLE;
    let reason =
        if levels { conditions::graph::TOPOLOGY_LEVELS_UNAVAILABLE } else { conditions::graph::TOPOLOGY_NOT_FOUND };
    Some((format!("{}: {}", found.reason, found.message), Event::warning(reason, ACTION, &found.message)))
}

#[cfg(test)]
mod tests {
    use api_types::v1beta1::RollingUpdateStatus;

    use super::*;

    fn in_phase(phase: RollingUpdatePhase) -> DynamoGraphDeploymentStatus {
        let rolling_update = Some(RollingUpdateStatus { phase: Some(phase), ..RollingUpdateStatus::default() });
        DynamoGraphDeploymentStatus { rolling_update, ..DynamoGraphDeploymentStatus::default() }
    }

    #[test]
    fn a_topology_that_goes_is_published_once() {
        let mut gone = DynamoGraphDeploymentStatus::default();
        let (type_, reason) = (conditions::TOPOLOGY_AVAILABLE, conditions::graph::TOPOLOGY_NOT_FOUND);
        let (status, now) = (controller_kit::conditions::Status::False, k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
        controller_kit::conditions::set_condition(&mut gone.conditions, type_, status, reason, "m", None, now);
        assert_eq!(reasons(&DynamoGraphDeploymentStatus::default(), &gone), [reason]);
        assert_eq!(reasons(&gone, &gone), [""; 0]);
    }

    #[test]
    fn a_deadline_that_passes_is_published_once_without_its_record() {
        let status = |holds: bool, reason: &str| {
            let mut status = DynamoGraphDeploymentStatus::default();
            let now = k8s_openapi::jiff::Timestamp::UNIX_EPOCH;
            let (type_, message) = (conditions::ROLLOUT_PROGRESSING, "why [undone v1:0 1]");
            let all = &mut status.conditions;
            controller_kit::conditions::set_condition(all, type_, holds.into(), reason, message, None, now);
            status
        };
        let (waits, undone) = (status(true, "WorkersAwaited"), status(false, "RolloutUndone"));
        let late = status(false, "ProgressDeadlineExceeded");
        assert_eq!(reasons(&DynamoGraphDeploymentStatus::default(), &waits), [""; 0]);
        assert_eq!(reasons(&waits, &undone), ["RolloutUndone"]);
        assert_eq!(reasons(&undone, &undone), [""; 0]);
        assert_eq!(reasons(&waits, &late), ["ProgressDeadlineExceeded"]);
        assert_eq!(reasons(&late, &undone), ["RolloutUndone"]);
        assert_eq!(events(Some(&waits), &undone)[0].note, "why");
    }

    #[test]
    fn trouble_with_pods_is_published_when_it_begins() {
        let status = |reason: &str| {
            let mut status = DynamoGraphDeploymentStatus::default();
            let (holds, now) = (controller_kit::conditions::Status::True, k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
            let all = &mut status.conditions;
            controller_kit::conditions::set_condition(all, conditions::RECONCILING, holds, reason, "m", None, now);
            status
        };
        assert_eq!(reasons(&status("Progressing"), &status("Unschedulable")), ["Unschedulable"]);
        assert_eq!(reasons(&status("Unschedulable"), &status("Unschedulable")), [""; 0]);
        assert_eq!(reasons(&status("Unschedulable"), &status("Progressing")), [""; 0]);
    }

    fn reasons(before: &DynamoGraphDeploymentStatus, after: &DynamoGraphDeploymentStatus) -> Vec<String> {
        events(Some(before), after).into_iter().map(|event| event.reason).collect()
    }

    #[test]
    fn each_transition_is_published_once() {
        let none = DynamoGraphDeploymentStatus::default();
        let (running, done) = (in_phase(RollingUpdatePhase::InProgress), in_phase(RollingUpdatePhase::Completed));
        assert_eq!(reasons(&none, &running), ["RollingUpdateStarted"]);
        assert_eq!(reasons(&running, &running), [""; 0]);
        assert_eq!(reasons(&running, &done), ["RollingUpdateCompleted"]);
        assert_eq!(reasons(&done, &done), [""; 0]);
        assert_eq!(reasons(&done, &running), ["RollingUpdateStarted"]);
        assert_eq!(reasons(&none, &none), [""; 0]);
    }
}

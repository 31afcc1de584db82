//! The deadline of a rollout: how long it waits for the next worker of the new revision, and what follows.

use api_types::{
    annotations::PROGRESS_DEADLINE, conditions as c, names::RevisionSuffix, rollout_control::ProgressDeadline,
    v1beta1::DynamoComponentDeployment,
};
use controller_kit::conditions::find;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::Course;
use crate::graph::{
    model::{Observed, RolloutCondition, RolloutHold, RolloutRecord, ValidGraph},
    plan::{
        revision::live::{Revision, live_counts},
        rollout,
    },
};

/// The most characters of a cause.
const MOST_CHARS: usize = 600;

/// When a refusal that was decided on is looked up in the status.
const ACT_AFTER: SignedDuration = SignedDuration::from_secs(1);

/// State of the deadline of a rollout.
#[derive(Clone, Debug, Default)]
pub struct Deadline {
    /// The condition; `None` if nothing is waited for.
    pub condition: Option<RolloutCondition>,
    /// Why the rollout neither continues nor can be undone.
    pub hold: Option<RolloutHold>,
    /// When to reconcile again.
    pub again: Option<Timestamp>,
}

/// Determines the state of the deadline. `new` are the objects of the target revision, `old` the other revisions,
/// oldest first.
pub fn deadline(
    course: &Course,
    graph: &ValidGraph<'_>,
    observed: &Observed,
    components: &[(&str, &rollout::Component)],
    (new, old): (&[&DynamoComponentDeployment], &[Revision<'_>]),
    now: Timestamp,
) -> Deadline {
    let settled = Deadline { condition: course.refused(), ..Deadline::default() };
    let Some(deadline) = graph.control.deadline.as_ref() else { return settled };
    let is_complete = components.iter().all(|(_, component)| component.is_complete());
    if !course.is_of_spec || course.is_frozen || old.is_empty() || is_complete {
        return settled;
    }
    let fingerprint = course.target.fingerprint.clone();
    let (available, since) = progress(observed, &fingerprint, components, now);
    let ends = since.checked_add(SignedDuration::from_secs(deadline.seconds)).unwrap_or(Timestamp::MAX);
    let waiting = RolloutRecord::Waiting { fingerprint: fingerprint.clone(), available, since };
    if now < ends {
        let text = format!("{available} workers of the new revision are available; the next one has until {ends}");
        let condition = RolloutCondition { holds: true, reason: c::graph::WORKERS_AWAITED, text, record: waiting };
        return Deadline { condition: Some(condition), hold: None, again: Some(ends) };
    }
    let what = exceeded(deadline, available, new);
    match old.iter().rev().find(|revision| revision.serves(graph)) {
        Some(kept) => {
            let suffix = kept.suffix.as_ref().map_or("without suffix", RevisionSuffix::as_str);
            let text = format!(
                "{what}. The workers return to revision {suffix}, until those in spec.components change: correct or \
                 revert them"
            );
            let record = RolloutRecord::Undone { fingerprint, kept: kept.suffix.clone() };
            let condition = RolloutCondition { holds: false, reason: c::graph::ROLLOUT_UNDONE, text, record };
            Deadline { condition: Some(condition), hold: None, again: now.checked_add(ACT_AFTER).ok() }
        }
        None => {
            let text = format!(
                "{what}. No older revision serves to which the workers could return: correct or revert them in \
                 spec.components"
            );
            let reason = c::graph::DEADLINE_EXCEEDED;
            let hold = RolloutHold { reason, message: text.clone(), stalled: true };
            let condition = RolloutCondition { holds: false, reason, text, record: waiting };
            Deadline { condition: Some(condition), hold: Some(hold), again: None }
        }
    }
}

/// The most workers of the new revision that were available at once, and since when.
fn progress(
    observed: &Observed,
    revision: &str,
    components: &[(&str, &rollout::Component)],
    now: Timestamp,
) -> (i32, Timestamp) {
    let available: i32 = components.iter().map(|(_, c)| c.new.serving().min(c.desired)).sum();
    let stored = observed.graph.status.as_ref().and_then(|status| RolloutCondition::stored(&status.conditions));
    match stored {
        Some((_, RolloutRecord::Waiting { fingerprint, available: before, since }))
            if fingerprint == revision && before >= available =>
        {
            (before, since)
        }
        // Conditions have whole seconds.
        _ => (available, Timestamp::from_second(now.as_second()).unwrap_or(now)),
    }
}

/// What has not happened in time, and why as far as components report it.
fn exceeded(deadline: &ProgressDeadline, available: i32, new: &[&DynamoComponentDeployment]) -> String {
    let text = format!(
        "No worker of the new revision became available within {PROGRESS_DEADLINE} {}, beside {available} that were",
        deadline.text
    );
    let causes = new.iter().filter_map(|d| {
        let counts = live_counts(d);
        let conditions = &d.status.as_ref().filter(|_| counts.serving() < counts.spec)?.conditions;
        let stalled = find(conditions, c::STALLED).filter(|found| found.status == "True");
        let reconciling = || find(conditions, c::RECONCILING).filter(|found| found.status == "True");
        let available = || find(conditions, c::AVAILABLE).filter(|found| found.status != "True");
        let cause = stalled.or_else(reconciling).or_else(available)?;
        Some(format!("{}: {}", d.name_any(), cause.message))
    });
    let causes: String = causes.collect::<Vec<_>>().join("; ").chars().take(MOST_CHARS).collect();
    if causes.is_empty() { text } else { format!("{text} ({causes})") }
}

//! Control of a rollout by its user: which revision is the target, whether replicas may move, how far the target goes,
//! and how long a rollout waits for its next worker.
//!
//! | state | target | replicas |
//! |---|---|---|
//! | no annotation | the revision of the spec | as `rollout` plans |
//! | `rollout-step` | the same | the same, with a cap for each component |
//! | paused, no rollout in progress | the live revision | follow the desired count |
//! | paused in the middle of a rollout | the newest live revision, or that of the spec | stay where they are |
//! | undone by its user, or by its deadline | an older revision | as `rollout` plans, so back |
//!
//! Everything follows from live objects but the rejection of a revision whose deadline has passed. That is recorded in
//! the graph's status before the controller acts on it.

use api_types::{
    annotations::{PROGRESS_DEADLINE, ROLLOUT, ROLLOUT_STEP},
    conditions as c,
    conditions::graph as reasons,
    names::RevisionSuffix,
    rollout_control::{ProgressDeadline, RolloutStep, RolloutStop},
    v1beta1::DynamoComponentDeployment,
};
use controller_kit::conditions::{Status, find, find_with};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::{
    revision::{Revision, TargetRevision, revisions, sort_by_age},
    rollout::{self, Component},
};
use crate::graph::{
    model::{GraphObserved, GraphObstacle, ObstacleProgress, RolloutCondition, RolloutRecord, ValidGraph},
    plan::revision::live_counts,
};

/// Destination of a rollout.
#[derive(Clone, Debug)]
pub struct Course {
    /// The desired revision of the workers.
    pub target: TargetRevision,
    /// Whether that is the revision of the spec. Objects of another one stay as they are, but for their replicas.
    pub is_of_spec: bool,
    /// Whether no live revision is older than the target.
    pub is_oldest: bool,
    /// Whether all replicas stay where they are.
    pub is_frozen: bool,
    /// The most that the target gets.
    pub step: Option<RolloutStep>,
    /// Text and record of the rejection by which the target is not that of the spec.
    stored_rejection: Option<(String, RolloutRecord)>,
}

/// Determines the course. `spec` is the revision that the spec asks for.
pub fn course(
    graph: &ValidGraph<'_>,
    observed: &GraphObserved,
    workers: &[&DynamoComponentDeployment],
    spec: TargetRevision,
) -> Course {
    let mut workers = workers.to_vec();
    sort_by_age(&mut workers);
    let live = revisions(&workers);
    let others: Vec<_> = live.iter().filter(|revision| revision.suffix != spec.suffix).collect();
    let is_paused = graph.control.stop == Some(RolloutStop::Paused);
    let starts = others.len() == live.len();
    let stored_rejection = stored_rejection(observed, &spec.fingerprint);
    let kept = match &stored_rejection {
        _ if others.is_empty() => None,
        Some((_, RolloutRecord::Undone { kept, .. })) => {
            let recorded = others.iter().find(|revision| revision.suffix == *kept);
            recorded.or(others.first()).copied()
        }
        _ if graph.control.stop == Some(RolloutStop::Undone) => {
            // The oldest served alone before. One that was reverted to already is that itself. Which of them serve now
            // does not count, so that no old picture chooses another one.
            others.first().copied().filter(|_| !is_oldest(&live, spec.suffix.as_ref()))
        }
        _ if is_paused && starts => others.last().copied(),
        _ => None,
    };
    let target = match kept {
        Some(kept) => TargetRevision { suffix: kept.suffix.clone(), fingerprint: spec.fingerprint },
        None => spec,
    };
    let (is_of_spec, is_oldest) = (kept.is_none(), is_oldest(&live, target.suffix.as_ref()));
    Course {
        is_of_spec,
        is_oldest,
        is_frozen: is_paused && live.iter().any(|revision| revision.suffix != target.suffix),
        step: graph.control.step.filter(|_| is_of_spec && !others.is_empty() && !is_oldest),
        stored_rejection: stored_rejection.filter(|_| kept.is_some()),
        target,
    }
}

/// Whether a live revision is older than all others. Of two that were created within one second, neither is: a step
/// must hold the new one.
fn is_oldest(live: &[Revision<'_>], suffix: Option<&RevisionSuffix>) -> bool {
    let created =
        |revision: &Revision<'_>| revision.members.first().and_then(|d| d.metadata.creation_timestamp.clone());
    let (own, others): (Vec<_>, Vec<_>) = live.iter().partition(|revision| revision.suffix.as_ref() == suffix);
    own.first().is_some_and(|own| others.iter().all(|other| created(own) < created(other)))
}

/// The stored rejection of the revision that the spec asks for.
fn stored_rejection(observed: &GraphObserved, fingerprint: &str) -> Option<(String, RolloutRecord)> {
    let stored = RolloutCondition::stored(&observed.graph.status.as_ref()?.conditions)?;
    let is_it = matches!(&stored.1, RolloutRecord::Undone { fingerprint: refused, .. } if refused == fingerprint);
    is_it.then_some(stored)
}

impl Course {
    /// The reason why the workers are not, or not all, of the revision of the spec. `in_progress`: several revisions
    /// are live.
    pub fn hold(&self, graph: &ValidGraph<'_>, components: &[Component], in_progress: bool) -> Option<GraphObstacle> {
        let counts = counts(components);
        let hold = |reason, message| Some(held(ObstacleProgress::Reconciling(reason), message));
        if self.is_frozen {
            let message =
                format!("The rollout of workers is paused: {counts}; remove annotation {ROLLOUT} to continue");
            return hold(reasons::ROLLOUT_PAUSED, message);
        }
        if let Some((text, _)) = &self.stored_rejection {
            let moves = if in_progress { ObstacleProgress::Reconciling } else { ObstacleProgress::Stalled };
            return Some(held(moves(reasons::ROLLOUT_UNDONE), text.clone()));
        }
        if !self.is_of_spec {
            let suffix = self.target.suffix.as_ref().map_or("without suffix", RevisionSuffix::as_str);
            if graph.control.stop == Some(RolloutStop::Undone) {
                let message = format!(
                    "The rollout of workers is undone by annotation {ROLLOUT}: they are of revision {suffix}; set the \
                     workers in spec.components back, then remove the annotation"
                );
                return hold(reasons::ROLLOUT_UNDONE, message);
            }
            let message = format!(
                "The rollout of workers is paused: they stay of revision {suffix}, and the change in spec.components \
                 is not rolled out; remove annotation {ROLLOUT} to continue"
            );
            return hold(reasons::ROLLOUT_PAUSED, message);
        }
        let step = self.step?;
        let is_short = components.iter().any(|c| c.new.spec < c.desired);
        if !rollout::is_at_cap(components) || !is_short {
            return None;
        }
        let message = format!(
            "The rollout of workers is held at {ROLLOUT_STEP} {step}: {counts}; raise or remove the annotation to \
             continue"
        );
        hold(reasons::ROLLOUT_HELD, message)
    }

    /// The condition of a rejection that stays.
    pub fn refused(&self) -> Option<RolloutCondition> {
        let (text, record) = self.stored_rejection.clone()?;
        Some(RolloutCondition { holds: false, reason: reasons::ROLLOUT_UNDONE, text, record })
    }
}

/// A rollout that is held.
fn held(progress: ObstacleProgress, message: String) -> GraphObstacle {
    GraphObstacle { ready_reason: reasons::ROLLING_UPDATE_HELD, progress, message }
}

/// Formats the live workers of each component.
fn counts(components: &[Component]) -> String {
    let count = |c: &Component| {
        let old: i32 = c.old.iter().flatten().map(|old| old.spec).sum();
        format!("{} has {} new and {old} old of {} desired workers", c.name, c.new.spec, c.desired)
    };
    components.iter().map(count).collect::<Vec<_>>().join(", ")
}

/// The most characters of a cause.
const MOST_CHARS: usize = 600;

/// Delay between the plan to undo a rollout and the pass that acts on it, once the status has recorded it.
const ACT_AFTER: SignedDuration = SignedDuration::from_secs(1);

/// State of the deadline of a rollout.
#[derive(Clone, Debug, Default)]
pub struct Deadline {
    /// The condition; `None` if nothing is waited for.
    pub condition: Option<RolloutCondition>,
    /// Reason why the rollout neither continues nor can be undone.
    pub hold: Option<GraphObstacle>,
    /// Time of the next reconcile.
    pub again: Option<Timestamp>,
}

/// Determines the state of the deadline. `new` are the objects of the target revision, `old` the other revisions,
/// oldest first.
pub fn deadline(
    course: &Course,
    graph: &ValidGraph<'_>,
    observed: &GraphObserved,
    components: &[Component],
    (new, old): (&[&DynamoComponentDeployment], &[Revision<'_>]),
    now: Timestamp,
) -> Deadline {
    let settled = Deadline { condition: course.refused(), ..Deadline::default() };
    let Some(deadline) = graph.control.deadline.as_ref() else { return settled };
    let is_complete = components.iter().all(Component::is_complete);
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
            let hold = held(ObstacleProgress::Stalled(reason), text.clone());
            let condition = RolloutCondition { holds: false, reason, text, record: waiting };
            Deadline { condition: Some(condition), hold: Some(hold), again: None }
        }
    }
}

/// The most workers of the new revision that were available at once, and since when.
fn progress(observed: &GraphObserved, revision: &str, components: &[Component], now: Timestamp) -> (i32, Timestamp) {
    let available: i32 = components.iter().map(|c| c.new.serving().min(c.desired)).sum();
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

/// Describes the progress that is missing at the deadline, and its cause as far as components report it.
fn exceeded(deadline: &ProgressDeadline, available: i32, new: &[&DynamoComponentDeployment]) -> String {
    let text = format!(
        "No worker of the new revision became available within {PROGRESS_DEADLINE} {}, beside {available} that were",
        deadline.text
    );
    let causes = new.iter().filter_map(|d| {
        let counts = live_counts(d);
        let conditions = &d.status.as_ref().filter(|_| counts.serving() < counts.spec)?.conditions;
        let stalled = find_with(conditions, c::STALLED, Status::True);
        let reconciling = || find_with(conditions, c::RECONCILING, Status::True);
        let available = || find(conditions, c::AVAILABLE).filter(|found| found.status != "True");
        let cause = stalled.or_else(reconciling).or_else(available)?;
        Some(format!("{}: {}", d.name_any(), cause.message))
    });
    let causes: String = causes.collect::<Vec<_>>().join("; ").chars().take(MOST_CHARS).collect();
    if causes.is_empty() { text } else { format!("{text} ({causes})") }
}

#[cfg(test)]
mod tests;

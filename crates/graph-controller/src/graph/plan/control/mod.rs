//! Control of a rollout by its user: which revision is the target, whether replicas may move, how far the target goes.
//!
//! | state | target | replicas |
//! |---|---|---|
//! | no annotation | the revision of the spec | as `rollout` plans |
//! | `rollout-step` | the same | the same, with a cap for each component |
//! | paused, no rollout in progress | the live revision | follow the desired count |
//! | paused in the middle of a rollout | the newest live revision, or that of the spec | stay where they are |
//! | undone by its user, or by its deadline | an older revision | as `rollout` plans, so back |
//!
//! Everything follows from live objects but the refusal of a revision whose deadline has passed. That is recorded in
//! the graph's status before the controller acts on it.

mod deadline;

use api_types::{
    annotations::{ROLLOUT, ROLLOUT_STEP},
    conditions::graph as reasons,
    names::RevisionSuffix,
    rollout_control::{RolloutStep, RolloutStop},
    v1beta1::DynamoComponentDeployment,
};

pub use self::deadline::{Deadline, deadline};
use super::{
    revision::{
        Target,
        live::{Revision, revisions, sort_by_age},
    },
    rollout,
};
use crate::graph::model::{Observed, RolloutCondition, RolloutHold, RolloutRecord, ValidGraph};

/// Where a rollout goes.
#[derive(Clone, Debug)]
pub struct Course {
    /// The revision that the workers shall be of.
    pub target: Target,
    /// Whether that is the revision of the spec. Objects of another one stay as they are, but for their replicas.
    pub is_of_spec: bool,
    /// Whether no live revision is older than the target.
    pub is_oldest: bool,
    /// Whether all replicas stay where they are.
    pub is_frozen: bool,
    /// The most that the target gets.
    pub step: Option<RolloutStep>,
    /// Text and record of the refusal by which the target is not that of the spec.
    refusal: Option<(String, RolloutRecord)>,
}

/// Determines the course. `spec` is the revision that the spec asks for.
pub fn course(
    graph: &ValidGraph<'_>,
    observed: &Observed,
    workers: &[&DynamoComponentDeployment],
    spec: Target,
) -> Course {
    let mut workers = workers.to_vec();
    sort_by_age(&mut workers);
    let live = revisions(&workers);
    let others: Vec<_> = live.iter().filter(|revision| revision.suffix != spec.suffix).collect();
    let is_paused = graph.control.stop == Some(RolloutStop::Paused);
    let starts = others.len() == live.len();
    let refusal = refusal(observed, &spec.fingerprint);
    let kept = match &refusal {
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
        Some(kept) => Target { suffix: kept.suffix.clone(), fingerprint: spec.fingerprint },
        None => spec,
    };
    let (is_of_spec, is_oldest) = (kept.is_none(), is_oldest(&live, target.suffix.as_ref()));
    Course {
        is_of_spec,
        is_oldest,
        is_frozen: is_paused && live.iter().any(|revision| revision.suffix != target.suffix),
        step: graph.control.step.filter(|_| is_of_spec && !others.is_empty() && !is_oldest),
        refusal: refusal.filter(|_| kept.is_some()),
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

/// The stored refusal of the revision that the spec asks for.
fn refusal(observed: &Observed, fingerprint: &str) -> Option<(String, RolloutRecord)> {
    let stored = RolloutCondition::stored(&observed.graph.status.as_ref()?.conditions)?;
    let is_it = matches!(&stored.1, RolloutRecord::Undone { fingerprint: refused, .. } if refused == fingerprint);
    is_it.then_some(stored)
}

/// Sets the caps of a step.
pub fn set_caps(course: &Course, components: &mut [rollout::Component]) {
    for component in components.iter_mut() {
        component.cap = course.step.map(|step| step.workers(component.desired));
    }
}

/// Replicas of all components, while no checkpoint is waited for.
pub fn replicas(course: &Course, components: &[rollout::Component]) -> Vec<rollout::Targets> {
    if course.is_frozen { rollout::freeze(components, course.is_oldest) } else { rollout::plan_capped(components) }
}

impl Course {
    /// What holds the rollout. `components` by name, with their live replicas; `in_progress`: several revisions are
    /// live.
    pub fn hold(
        &self,
        graph: &ValidGraph<'_>,
        components: &[(&str, &rollout::Component)],
        in_progress: bool,
    ) -> Option<RolloutHold> {
        let counts = counts(components);
        let hold = |reason, message| Some(RolloutHold { reason, message, stalled: false });
        if self.is_frozen {
            let message =
                format!("The rollout of workers is paused: {counts}; remove annotation {ROLLOUT} to continue");
            return hold(reasons::ROLLOUT_PAUSED, message);
        }
        if let Some((text, _)) = &self.refusal {
            return Some(RolloutHold { reason: reasons::ROLLOUT_UNDONE, message: text.clone(), stalled: !in_progress });
        }
        if !self.is_of_spec {
            return match graph.control.stop {
                Some(RolloutStop::Undone) => {
                    let message = format!(
                        "The rollout of workers is undone by annotation {ROLLOUT}: they are of revision {}; set the \
                         workers in spec.components back, then remove the annotation",
                        self.suffix()
                    );
                    hold(reasons::ROLLOUT_UNDONE, message)
                }
                _ => {
                    let message = format!(
                        "The rollout of workers is paused: they stay of revision {}, and the change in \
                         spec.components is not rolled out; remove annotation {ROLLOUT} to continue",
                        self.suffix()
                    );
                    hold(reasons::ROLLOUT_PAUSED, message)
                }
            };
        }
        let step = self.step?;
        let all: Vec<_> = components.iter().map(|(_, component)| (*component).clone()).collect();
        let is_short = all.iter().any(|c| c.new.spec < c.desired);
        (rollout::is_at_cap(&all) && is_short).then(|| RolloutHold {
            reason: reasons::ROLLOUT_HELD,
            message: format!(
                "The rollout of workers is held at {ROLLOUT_STEP} {step}: {counts}; raise or remove the annotation to \
                 continue"
            ),
            stalled: false,
        })
    }

    /// The condition of a refusal that stays.
    pub fn refused(&self) -> Option<RolloutCondition> {
        let (text, record) = self.refusal.clone()?;
        Some(RolloutCondition { holds: false, reason: reasons::ROLLOUT_UNDONE, text, record })
    }

    fn suffix(&self) -> &str {
        self.target.suffix.as_ref().map_or("without suffix", |suffix| suffix.as_str())
    }
}

/// Live workers of each component, in words.
fn counts(components: &[(&str, &rollout::Component)]) -> String {
    let count = |(name, c): &(&str, &rollout::Component)| {
        let old: i32 = c.old.iter().flatten().map(|old| old.spec).sum();
        format!("{name} has {} new and {old} old of {} desired workers", c.new.spec, c.desired)
    };
    components.iter().map(count).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;

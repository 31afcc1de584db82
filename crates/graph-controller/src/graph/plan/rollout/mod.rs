//! Number of replicas that each worker revision of a graph should have now.
//!
//! This is the only place that plans worker replicas. Whatever happens (first deployment, edit, revert in the
//! middle, second edit, scaling, zero), the same function answers, from what is live and nothing else.
//!
//! Workers of one revision talk to each other only, so a revision serves as much as the scarcest of its components: its
//! share is the least `ready / desired`. Three promises hold after every single write:
//!
//! - The shares of all revisions sum up to at least `1 − max(maxUnavailable / desired)`, or to what they were before.
//! - Serving workers of a component are at least `desired − maxUnavailable`, or as many as before.
//! - Workers of a component are at most `desired + maxSurge`, or as many as before.
//!
//! One old revision always leaves a way on: the component that limits the target revision has no more old workers than
//! `desired − maxUnavailable − new`, so there is room for another new one. Several old revisions can leave fragments:
//! of three workers two revisions that serve one half hold two each. Only where such fragments leave no other way on
//! may a step lose less than one worker of a component for each old revision but one.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use rendering::RolloutStrategy;

use crate::graph::model::Capture;

/// Surge and unavailable in workers. A percentage of unavailable can round to zero and one of surge cannot, so where
/// both are zero the user excluded a surge: one worker is unavailable then, because a rollout must move.
fn bounds(max_surge: &IntOrString, max_unavailable: &IntOrString, desired: i32) -> (i32, i32) {
    let (surge, unavailable) = (workers(max_surge, desired, 99), workers(max_unavailable, desired, 0));
    let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable };
    (surge, unavailable.min(desired))
}

/// A count, or a percentage of `desired` to which `carry` hundredths are added before it is cut; saturates instead of
/// overflowing. Text that is no percentage cannot occur after validation and counts as zero.
fn workers(amount: &IntOrString, desired: i32, carry: i64) -> i32 {
    match amount {
        IntOrString::Int(count) => (*count).max(0),
        IntOrString::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            i32::try_from((percent.max(0).saturating_mul(i64::from(desired)) + carry) / 100).unwrap_or(i32::MAX)
        }
    }
}

/// Live counts of one revision of one component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveCounts {
    /// Desired replicas of the revision as its spec has them.
    pub spec: i32,
    /// Workers of it that can serve.
    pub available: i32,
}

impl LiveCounts {
    /// Workers that can serve and will not be taken away by a scale-down that is already written.
    pub fn serving(self) -> i32 {
        self.available.clamp(0, self.spec.max(0))
    }
}

/// One worker component.
#[derive(Clone, Debug)]
pub struct Component {
    /// Its name.
    pub name: String,
    /// Strategy for the replacement of its workers.
    pub strategy: RolloutStrategy,
    /// Desired replicas.
    pub desired: i32,
    /// Live counts of the target revision.
    pub new: LiveCounts,
    /// Live counts of each other revision of the graph, oldest first; none where a revision has no such component.
    pub old: Vec<Option<LiveCounts>>,
    /// Whether no pod of another revision is left (only for `Recreate`).
    pub drained: bool,
    /// Progress of the capture that its new workers wait for (only [`hold`] reads it).
    pub capture: Capture,
    /// The most replicas that the target revision gets; none is taken away for it.
    pub cap: Option<i32>,
}

/// Replicas to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets {
    /// Replicas of the target revision.
    pub new: i32,
    /// Replicas of each old revision, in the order given; zero where it has no such component.
    pub old: Vec<i32>,
}

/// The part of its work that a revision can do: the least `ready / desired` of its components.
#[derive(Clone, Copy, Debug)]
struct RevisionShare {
    ready: i64,
    desired: i64,
}

impl RevisionShare {
    /// The least of `(ready, desired)`; everything where no component is desired.
    fn least(parts: impl Iterator<Item = (i32, i32)>) -> Self {
        let parts = parts.filter(|(_, desired)| *desired > 0);
        let shares = parts.map(|(ready, desired)| Self { ready: ready.into(), desired: desired.into() });
        shares.min_by(|a, b| (a.ready * b.desired).cmp(&(b.ready * a.desired))).unwrap_or(Self { ready: 1, desired: 1 })
    }

    /// Whole workers of a component in this share.
    fn floor(self, desired: i32) -> i32 {
        saturated(self.ready * i64::from(desired) / self.desired)
    }

    /// Workers of a component that this share needs.
    fn ceil(self, desired: i32) -> i32 {
        saturated((self.ready * i64::from(desired) + self.desired - 1) / self.desired)
    }
}

fn saturated(workers: i64) -> i32 {
    i32::try_from(workers).unwrap_or(i32::MAX)
}

impl Component {
    /// Returns the live counts of one old revision.
    fn old(&self, revision: usize) -> LiveCounts {
        self.old.get(revision).copied().flatten().unwrap_or_default()
    }

    fn has_old(&self) -> bool {
        self.old.iter().any(Option::is_some)
    }

    fn old_spec(&self) -> i32 {
        self.old.iter().flatten().map(|o| o.spec).sum()
    }

    /// Surge and unavailable; with `Recreate`, all old workers go.
    fn bounds(&self) -> (i32, i32) {
        match &self.strategy {
            RolloutStrategy::Recreate => (0, self.desired),
            RolloutStrategy::RollingUpdate { max_surge, max_unavailable } => {
                bounds(max_surge, max_unavailable, self.desired)
            }
        }
    }

    /// Replicas that the target revision ends with: those of its cap, of what is there, or all.
    fn end(&self) -> i32 {
        self.cap.map_or(self.desired, |cap| self.desired.min(cap.max(self.new.spec)))
    }

    /// Replicas of the target revision beside the old ones that are live now.
    fn new_target(&self) -> i32 {
        // A scale-down of the target revision in the same step makes room.
        let new_spec = self.new.spec.min(self.desired);
        match self.strategy {
            RolloutStrategy::Recreate if self.drained => self.desired,
            RolloutStrategy::Recreate => new_spec.max(0),
            RolloutStrategy::RollingUpdate { .. } if !self.has_old() => self.end(),
            RolloutStrategy::RollingUpdate { .. } => {
                let room = self.desired.saturating_add(self.bounds().0) - self.old_spec() - new_spec;
                self.end().min(new_spec + room.max(0).min(self.desired))
            }
        }
    }

    /// Whether all workers serve that the target revision gets.
    pub fn is_complete(&self) -> bool {
        self.new.serving() >= self.end()
    }

    /// Whether the target revision has workers that come up without another step.
    fn is_moving(&self) -> bool {
        self.new.serving() < self.new.spec || (self.strategy == RolloutStrategy::Recreate && !self.drained)
    }
}

/// The share of the target revision. A scale-down of it in the same step must not be counted as capacity.
fn target_share(components: &[Component]) -> RevisionShare {
    RevisionShare::least(components.iter().map(|c| (c.new.serving().min(c.desired), c.desired)))
}

/// Plans one step for all worker components of a graph, in the order given.
pub fn plan(components: &[Component]) -> Vec<Targets> {
    let share = target_share(components);
    // What the target revision never gets, the old ones keep.
    let need = |c: &Component| (c.desired - c.bounds().1 - share.floor(c.desired)).max(c.desired - c.end());
    let needs: Vec<i32> = components.iter().map(need).collect();
    let with = |whole| {
        let kept = keep(components, &needs, whole, 1).into_iter();
        let planned = components.iter().zip(kept).map(|(c, old)| Targets { new: c.new_target(), old });
        planned.collect::<Vec<_>>()
    };
    let targets = with(RevisionShare::ceil);
    let stays = |(c, t): (&Component, &Targets)| {
        t.new == c.new.spec && t.old.iter().enumerate().all(|(revision, target)| *target == c.old(revision).spec)
    };
    let moves = components.iter().any(Component::is_moving) || !components.iter().zip(&targets).all(stays);
    if moves || is_at_cap(components) {
        return targets;
    }
    // Without this, nothing would move again: the old revisions give up fragments.
    with(RevisionShare::floor)
}

/// Plans while new pods of the target revision wait for a checkpoint: keeps the serving workers that are desired.
/// With `Recreate`, old workers are removed at once while their own capture runs, because both must not exist together;
/// if the capture is lost, the revision that served last comes back.
pub fn hold(components: &[Component]) -> Vec<Targets> {
    let share = target_share(components);
    let is_removed = |c: &Component| c.strategy == RolloutStrategy::Recreate && c.capture == Capture::Running;
    let need = |c: &Component| c.desired - share.floor(c.desired);
    let needs: Vec<i32> = components.iter().map(|c| if is_removed(c) { 0 } else { need(c).max(0) }).collect();
    let kept = keep(components, &needs, RevisionShare::ceil, usize::MAX).into_iter();
    let planned = components.iter().zip(&needs).zip(kept).map(|((c, needed), mut old)| {
        let recreate = c.strategy == RolloutStrategy::Recreate;
        // A component that is at zero for another reason stays there: the capture of another one needs the room.
        let emptied = recreate && c.capture == Capture::Lost && c.old_spec() == 0 && c.new.spec <= 0;
        // All revisions before it are deleted once one serves alone, so the oldest is the one that did.
        let oldest = c.old.iter().position(Option::is_some).and_then(|oldest| old.get_mut(oldest));
        if let Some(oldest) = oldest.filter(|_| emptied) {
            *oldest = *needed;
        }
        Targets { new: c.new.spec.clamp(0, c.desired.max(0)), old }
    });
    planned.collect()
}

/// Splits what each component needs over the old revisions: their replicas, by component. The newest keeps what it can
/// serve, the oldest gives first. What a revision cannot use, because another of its components lacks workers, counts
/// for nothing, and is kept only where its own component would have too few. `whole` says how a share becomes workers.
/// Of the first `unready` revisions, workers that do not serve now are kept as well: of the others, they were
/// superseded before they ever did.
fn keep(
    components: &[Component],
    needs: &[i32],
    whole: fn(RevisionShare, i32) -> i32,
    unready: usize,
) -> Vec<Vec<i32>> {
    let revisions = components.iter().map(|c| c.old.len()).max().unwrap_or(0);
    let mut kept: Vec<Vec<i32>> = components.iter().map(|c| vec![0; c.old.len()]).collect();
    let mut left: Vec<i32> = needs.iter().map(|need| (*need).max(0)).collect();
    for revision in (0..revisions).rev() {
        // A revision that was never completed serves no requests. A component that no old revision has was added since.
        let parts = components.iter().filter(|c| c.has_old()).map(|c| (c.old(revision).serving(), c.desired));
        let share = RevisionShare::least(parts);
        for ((c, kept), left) in components.iter().zip(&mut kept).zip(&mut left) {
            let Some(kept) = kept.get_mut(revision) else { continue };
            *kept = whole(share, c.desired).min(*left).min(c.old(revision).serving());
            *left -= share.floor(c.desired).min(*kept);
        }
    }
    for ((c, kept), need) in components.iter().zip(&mut kept).zip(needs) {
        let missing = fill(c, kept, *need);
        let unready = unready.min(kept.len());
        fill_unready(c, &mut kept[..unready], missing);
    }
    kept
}

/// Adds serving workers until `need` is met, the oldest revision's first. Gives what is missing then.
fn fill(component: &Component, kept: &mut [i32], need: i32) -> i32 {
    let mut missing = need - kept.iter().sum::<i32>();
    for (revision, kept) in kept.iter_mut().enumerate() {
        let take = missing.clamp(0, component.old(revision).serving() - *kept);
        *kept += take;
        missing -= take;
    }
    missing
}

/// Adds workers that do not serve now, the newest revision's first, as far as workers are missing.
fn fill_unready(component: &Component, kept: &mut [i32], mut missing: i32) {
    for (revision, kept) in kept.iter_mut().enumerate().rev() {
        let take = missing.clamp(0, (component.old(revision).spec - *kept).max(0));
        *kept += take;
        missing -= take;
    }
}

/// Whether the target revision has all replicas of its caps. False without caps.
pub fn is_at_cap(components: &[Component]) -> bool {
    components.iter().all(|c| c.cap.is_some() && c.new.spec >= c.end())
}

/// Plans one step for components with caps. A revision that stays for long must follow the desired count. Growing
/// workers are given to the oldest revision, which is the one that served before the rollout. Where the cap leaves less
/// than the desired count, the oldest revision grows. Without caps, this is [`plan`].
pub fn plan_capped(components: &[Component]) -> Vec<Targets> {
    let mut targets = plan(components);
    for (c, targets) in components.iter().zip(&mut targets).filter(|(c, _)| c.cap.is_some()) {
        let missing = c.desired - targets.new - targets.old.iter().sum::<i32>();
        // Below its cap, the target revision grows by itself.
        if missing <= 0 || targets.new < c.end() {
            continue;
        }
        let room = (c.desired.saturating_add(c.bounds().0) - targets.new - c.old_spec()).max(0);
        if let Some(oldest) = c.old.iter().position(Option::is_some)
            && let Some(target) = targets.old.get_mut(oldest)
        {
            *target = (*target + missing).min(c.old(oldest).spec + room).max(*target);
        }
    }
    targets
}

/// Keeps all replicas where they are. Only where the specs of all revisions together have fewer replicas than
/// `desired − maxUnavailable`, as after a scale-up, the oldest revision grows by what is missing. With
/// `target_is_oldest`, no old revision is older than the target revision.
pub fn freeze(components: &[Component], target_is_oldest: bool) -> Vec<Targets> {
    let frozen = components.iter().map(|c| {
        let mut old: Vec<i32> = c.old.iter().map(|live| live.map_or(0, |live| live.spec)).collect();
        let missing = (c.desired - c.bounds().1 - c.new.spec - c.old_spec()).max(0);
        let oldest = c.old.iter().position(Option::is_some).and_then(|oldest| old.get_mut(oldest));
        match oldest.filter(|_| !target_is_oldest) {
            Some(oldest) => {
                *oldest += missing;
                Targets { new: c.new.spec, old }
            }
            None => Targets { new: c.new.spec + missing, old },
        }
    });
    frozen.collect()
}

#[cfg(test)]
mod tests;

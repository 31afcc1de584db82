//! How many replicas each worker generation of one component should have right now.
//!
//! This is the only place that decides over worker replicas. Whatever happens (first deployment, edit, revert in the
//! middle, second edit, scaling, zero), the same function answers, from what is live and nothing else. Its promise: the
//! workers that can serve never fall below `desired − maxUnavailable`, and their sum never exceeds `desired + maxSurge`.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use workload::RolloutStrategy;

/// Surge and unavailable in workers; both zero would be a standstill, so surge is then one.
fn bounds(max_surge: &IntOrString, max_unavailable: &IntOrString, desired: i32) -> (i32, i32) {
    let (surge, unavailable) = (workers(max_surge, desired, 99), workers(max_unavailable, desired, 0));
    if surge == 0 && unavailable == 0 { (1, 0) } else { (surge, unavailable.min(desired)) }
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

/// What is live of one generation of one component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Wanted replicas of the generation as they stand in its spec.
    pub spec: i32,
    /// Workers of it that can serve.
    pub available: i32,
}

impl Live {
    /// Workers that can serve and will not be taken away by a scale-down that is already written.
    fn serving(self) -> i32 {
        self.available.clamp(0, self.spec.max(0))
    }
}

/// Replicas to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets {
    /// Replicas of the target generation.
    pub new: i32,
    /// Replicas of each old generation, in the order given.
    pub old: Vec<i32>,
}

/// How far the capture is that new workers of a component wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capture {
    /// They wait for none of their own, or for one that has not begun.
    #[default]
    Idle,
    /// Its pod is there or waits for room, which the component's old workers may hold.
    Running,
    /// It is there; other components may wait for theirs.
    Done,
    /// It will not come without somebody's help.
    Lost,
}

/// Plans one step for one component.
///
/// `old` holds the other generations, oldest first; `drained` says that no pod of theirs is left (only `Recreate` asks).
/// Without old generations the target is simply what the author wants.
pub fn plan(strategy: &RolloutStrategy, desired: i32, new: Live, old: &[Live], drained: bool) -> Targets {
    if old.is_empty() {
        return Targets { new: desired, old: Vec::new() };
    }
    let (surge, unavailable) = match strategy {
        RolloutStrategy::Recreate => {
            return Targets { new: if drained { desired } else { 0 }, old: vec![0; old.len()] };
        }
        RolloutStrategy::RollingUpdate { max_surge, max_unavailable } => bounds(max_surge, max_unavailable, desired),
    };
    let old_spec: i32 = old.iter().map(|o| o.spec).sum();
    let old_serving: i32 = old.iter().map(|o| o.serving()).sum();
    // A scale-down of the target generation in the same step must not be counted as capacity.
    let (new_spec, new_serving) = (new.spec.min(desired), new.serving().min(desired));

    let floor = desired - unavailable;
    let new_missing = (new_spec - new_serving).max(0);
    let may_go = (old_spec + new_spec - floor - new_missing).max(0);
    let not_serving = (old_spec - old_serving).max(0);
    let spare = (old_serving + new_serving - floor).max(0);
    let old_target = (old_spec - may_go.min(not_serving + spare)).max(0);
    let room = desired.saturating_add(surge) - old_spec - new_spec;
    let new_target = desired.min(new_spec + room.max(0).min(desired));
    Targets { new: new_target, old: spread(old_target, old) }
}

/// The same while new pods of the target generation must wait. Nobody gives way to pods that do not come: what serves goes on,
/// as far as it is wanted. Only for a capture of their own that runs the old ones of a `Recreate` go at once, because both shall
/// not be there together; if it is lost, the generation that served last comes back.
pub fn hold(strategy: &RolloutStrategy, desired: i32, new: Live, old: &[Live], capture: Capture) -> Targets {
    let new_target = new.spec.clamp(0, desired.max(0));
    let recreate = *strategy == RolloutStrategy::Recreate;
    if recreate && capture == Capture::Running {
        return Targets { new: new_target, old: vec![0; old.len()] };
    }
    let old_spec: i32 = old.iter().map(|o| o.spec).sum();
    let needed = (desired - new.serving().min(desired)).max(0);
    let mut targets = spread(old_spec.min(needed), old);
    // Whoever is at zero for another reason stays there: nobody takes the room that the capture of another one needs.
    let emptied = recreate && capture == Capture::Lost && old_spec == 0 && new.spec <= 0;
    // All generations before it are deleted once one serves alone, so the oldest is the one that did.
    if let Some(oldest) = targets.first_mut().filter(|_| emptied) {
        *oldest = needed;
    }
    Targets { new: new_target, old: targets }
}

/// Splits `total` over the old generations: serving workers stay first, the oldest generation gives first.
fn spread(total: i32, old: &[Live]) -> Vec<i32> {
    let mut targets: Vec<i32> = old.iter().map(|o| o.serving()).collect();
    let mut surplus = targets.iter().sum::<i32>() - total;
    for target in &mut targets {
        let give = surplus.clamp(0, *target);
        *target -= give;
        surplus -= give;
    }
    for (target, live) in targets.iter_mut().zip(old).rev() {
        let take = (-surplus).clamp(0, live.spec - *target);
        *target += take;
        surplus += take;
    }
    targets
}

#[cfg(test)]
#[path = "rollout_tests.rs"]
mod tests;

//! Replicas of worker revisions that stay side by side: a paused rollout, and one that is held at a step.
//!
//! A revision that stays for long must follow the desired count. Growing workers are given to the oldest revision,
//! which is the one that served before the rollout.

use super::{Component, Targets, plan};

/// Whether the target revision has all replicas of its caps. False without caps.
pub fn is_at_cap(components: &[Component]) -> bool {
    components.iter().all(|c| c.cap.is_some() && c.new.spec >= c.end())
}

/// Plans one step for components with caps. Where the cap leaves less than the desired count, the oldest revision
/// grows. Without caps, this is [`plan`].
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

/// Keeps all replicas where they are. Only where all revisions together are asked for less than
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

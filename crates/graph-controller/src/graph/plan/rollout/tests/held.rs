//! Replicas of revisions that stay side by side.

use super::*;

fn capped(cap: i32, component: Component) -> Component {
    Component { cap: Some(cap), ..component }
}

#[test]
fn a_step_ends_with_its_share_beside_the_old_workers() {
    // desired, cap -> new, old, if everything comes up
    for (strategy, desired, cap, expected) in [
        (quarter(), 4, 1, (1, 3)),
        (quarter(), 8, 2, (2, 6)),
        (quarter(), 4, 4, (4, 0)),
        (quarter(), 1, 1, (1, 0)),
        (rolling(IntOrString::Int(0), IntOrString::Int(1)), 8, 2, (2, 6)),
        (rolling(IntOrString::Int(2), IntOrString::Int(0)), 3, 1, (1, 2)),
    ] {
        let mut components = [capped(cap, component(&strategy, desired, live(0, 0), &[live(desired, desired)]))];
        for _ in 0..16 {
            let targets = plan_capped(&components);
            come_up(&mut components, targets);
        }
        let [c] = components;
        assert_eq!((c.new.spec, c.old_spec()), expected, "{desired} desired, cap {cap}");
    }
}

#[test]
fn a_canary_that_does_not_come_up_takes_one_worker_at_most() {
    let mut components = [capped(2, component(&quarter(), 8, live(0, 0), &[live(8, 8)]))];
    for _ in 0..16 {
        let targets = plan_capped(&components).remove(0);
        components[0].new = live(targets.new, 0);
        components[0].old = vec![Some(live(targets.old[0], targets.old[0]))];
    }
    let [c] = components;
    assert_eq!((c.new.spec, c.old_spec()), (2, 6));
}

#[test]
fn a_step_that_moves_back_takes_nothing_away() {
    let c = capped(1, component(&quarter(), 8, live(4, 4), &[live(4, 4)]));
    assert_eq!(plan_capped(&[c]), [Targets { new: 4, old: vec![4] }]);
}

#[test]
fn a_frozen_rollout_grows_the_oldest_revision_only() {
    let c = |desired| component(&quarter(), desired, live(2, 0), &[live(1, 1), live(0, 0)]);
    // desired -> old; target 2 in each case
    for (desired, old) in [(0, [1, 0]), (4, [1, 0]), (8, [4, 0])] {
        assert_eq!(freeze(&[c(desired)], false), [Targets { new: 2, old: old.to_vec() }], "{desired}");
    }
    assert_eq!(freeze(&[c(8)], true), [Targets { new: 5, old: vec![1, 0] }]);
    let alone = component(&quarter(), 4, live(1, 1), &[]);
    assert_eq!(freeze(&[alone], false), [Targets { new: 3, old: vec![] }]);
}

prop_compose! {
    fn any_capped()(component in any_component(), cap in 1..=8) -> Component {
        let cap = Some(cap).filter(|_| component.strategy != RolloutStrategy::Recreate);
        Component { cap, ..component }
    }
}

/// Writes of a step as far as they got, in their order: the target revision's, then those of the old ones.
fn written(components: &[Component], targets: &[Targets], writes: usize) -> Vec<Component> {
    let mut after = components.to_vec();
    let mut left = writes;
    let mut write = |live: &mut LiveCounts, target: i32| {
        if left > 0 {
            (left, live.spec) = (left - 1, target);
        }
    };
    after.iter_mut().zip(targets).for_each(|(c, targets)| write(&mut c.new, targets.new));
    for (c, targets) in after.iter_mut().zip(targets) {
        c.old.iter_mut().zip(&targets.old).for_each(|(old, target)| {
            if let Some(old) = old {
                write(old, *target);
            }
        });
    }
    after
}

proptest! {
    /// Without caps, nothing is planned otherwise.
    #[test]
    fn no_cap_changes_nothing(components in prop::collection::vec(any_component(), 1..4)) {
        prop_assert_eq!(plan_capped(&components), plan(&components));
        prop_assert!(!is_at_cap(&components));
    }

    /// After any number of writes of a step, the target revision is within its cap, the workers are within the surge,
    /// and each component serves at least its floor.
    #[test]
    fn a_step_with_caps_keeps_the_promises(
        components in prop::collection::vec(any_capped(), 1..4),
        writes in 0..16_usize,
    ) {
        let targets = plan_capped(&components);
        for ((c, after), targets) in components.iter().zip(written(&components, &targets, writes)).zip(&targets) {
            if let Some(cap) = c.cap {
                prop_assert!(after.new.spec <= cap.max(c.new.spec), "{targets:?}");
            }
            let most = c.desired.saturating_add(c.bounds().0).max(c.old_spec() + c.new.spec);
            prop_assert!(!c.has_old() || after.old_spec() + after.new.spec <= most, "{targets:?}");
            let serving = |c: &Component| {
                c.old.iter().flatten().map(|old| old.serving()).sum::<i32>() + c.new.serving().min(c.desired)
            };
            prop_assert!(serving(&after) >= (c.desired - c.bounds().1).min(serving(c)), "{targets:?}");
        }
    }

    /// The joint capacity of the revisions never falls below the capacity that the strategies allow.
    #[test]
    fn a_step_with_caps_keeps_what_the_revisions_serve_together(
        components in prop::collection::vec(any_capped(), 1..4),
        writes in 0..16_usize,
    ) {
        let counted = || components.iter().filter(|c| c.desired > 0);
        let lost = counted().map(|c| c.bounds().1 * WHOLE / c.desired).max().unwrap_or(0);
        let targets = plan_capped(&components);
        let stuck = !components.iter().any(Component::is_moving)
            && components.iter().zip(&targets).all(|(c, targets)| targets.new == c.new.spec);
        let revisions = (0..3).filter(|r| components.iter().any(|c| c.old(*r).serving() > 0)).count();
        let worker = counted().map(|c| WHOLE / c.desired).max().unwrap_or(0);
        let waste = if stuck { worker * i32::try_from(revisions.saturating_sub(1)).unwrap() } else { 0 };
        let (before, after) = (capacity(&components), capacity(&written(&components, &targets, writes)));
        prop_assert!(after >= (WHOLE - lost).min(before) - waste, "{targets:?}: {before} -> {after}");
    }

    /// A step that is held ends, with as many workers as are desired, and goes on to the end when the caps go.
    #[test]
    fn every_capped_rollout_ends(mut components in prop::collection::vec(any_capped(), 1..4)) {
        for _ in 0..64 {
            let targets = plan_capped(&components);
            come_up(&mut components, targets);
        }
        let targets = plan_capped(&components);
        for (c, targets) in components.iter().zip(&targets) {
            let live: Vec<_> = c.old.iter().map(|old| old.map_or(0, |old| old.spec)).collect();
            prop_assert_eq!((targets.new, &targets.old), (c.new.spec, &live), "it is at rest");
        }
        components.iter_mut().for_each(|c| c.cap = None);
        for _ in 0..128 {
            let targets = plan_capped(&components);
            come_up(&mut components, targets);
        }
        for c in &components {
            prop_assert_eq!((c.new, c.old_spec()), (live(c.desired, c.desired), 0));
        }
    }

    /// A frozen step takes nothing away, adds only what is missing, and is at rest after one pass.
    #[test]
    fn a_frozen_step_moves_nothing(
        components in prop::collection::vec(any_component(), 1..4),
        target_is_oldest in any::<bool>(),
    ) {
        let targets = freeze(&components, target_is_oldest);
        let after = written(&components, &targets, usize::MAX);
        for (before, after) in components.iter().zip(&after) {
            let all = |c: &Component| c.new.spec + c.old_spec();
            let floor = before.desired - before.bounds().1;
            prop_assert_eq!(all(after), all(before).max(floor));
            prop_assert!(after.new.spec >= before.new.spec);
            prop_assert!((0..3).all(|revision| after.old(revision).spec >= before.old(revision).spec));
        }
        prop_assert_eq!(freeze(&after, target_is_oldest), targets);
    }
}

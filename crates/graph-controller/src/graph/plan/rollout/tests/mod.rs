//! Table and properties of the replica planner.

mod held;

use proptest::prelude::*;

use super::*;
use crate::graph::model::Capture;

fn rolling(max_surge: IntOrString, max_unavailable: IntOrString) -> RolloutStrategy {
    RolloutStrategy::RollingUpdate { max_surge, max_unavailable }
}

fn quarter() -> RolloutStrategy {
    rolling(IntOrString::String("25%".into()), IntOrString::String("25%".into()))
}

fn live(spec: i32, available: i32) -> LiveCounts {
    LiveCounts { spec, available }
}

fn component(strategy: &RolloutStrategy, desired: i32, new: LiveCounts, old: &[LiveCounts]) -> Component {
    let (strategy, old) = (strategy.clone(), old.iter().copied().map(Some).collect());
    let (name, capture) = (String::new(), Capture::Idle);
    Component { name, strategy, desired, new, old, drained: false, capture, cap: None }
}

/// Plans for a graph with one worker component.
fn plan_one(strategy: &RolloutStrategy, desired: i32, new: LiveCounts, old: &[LiveCounts], drained: bool) -> Targets {
    plan(&[Component { drained, ..component(strategy, desired, new, old) }]).remove(0)
}

fn hold_one(
    strategy: &RolloutStrategy,
    desired: i32,
    new: LiveCounts,
    old: &[LiveCounts],
    capture: Capture,
) -> Targets {
    hold(&[Component { capture, ..component(strategy, desired, new, old) }]).remove(0)
}

#[test]
fn four_workers_roll_by_quarters() {
    // old spec/available, new spec/available -> old target, new target
    let steps = [
        (live(4, 4), live(0, 0), 3, 1),
        (live(3, 3), live(1, 0), 3, 2),
        (live(3, 3), live(2, 2), 1, 2),
        (live(1, 1), live(2, 2), 1, 4),
        (live(1, 1), live(4, 4), 0, 4),
    ];
    for (old, new, old_target, new_target) in steps {
        let got = plan_one(&quarter(), 4, new, &[old], false);
        assert_eq!(got, Targets { new: new_target, old: vec![old_target] }, "old {old:?}, new {new:?}");
    }
}

#[test]
fn no_worker_is_removed_for_workers_that_wait() {
    // desired, old spec/available, new spec/available -> old target, new target
    let steps = [
        (4, live(4, 4), live(0, 0), 4, 0),
        (2, live(4, 4), live(0, 0), 2, 0),
        (6, live(4, 4), live(0, 0), 4, 0),
        (4, live(3, 3), live(2, 1), 3, 2),
        (4, live(3, 3), live(2, 2), 2, 2),
        (0, live(1, 1), live(1, 1), 0, 0),
    ];
    for (desired, old, new, old_target, new_target) in steps {
        let got = hold_one(&quarter(), desired, new, &[old], Capture::Running);
        assert_eq!(got, Targets { new: new_target, old: vec![old_target] }, "{desired}: old {old:?}, new {new:?}");
    }
}

/// A capture may need the GPUs of its own old workers. No other worker is removed for it, and only those that were
/// removed come back.
#[test]
fn workers_are_emptied_for_their_own_capture_alone_and_come_back_if_it_is_lost() {
    type Step<'a> = (RolloutStrategy, i32, i32, &'a [i32], [&'a [i32]; 4]);
    let captures = [Capture::Idle, Capture::Running, Capture::Done, Capture::Lost];
    // strategy, desired, replicas of the target revision and of the old ones -> of the old ones for each capture
    let steps: [Step<'_>; 12] = [
        (RolloutStrategy::Recreate, 4, 0, &[4], [&[4], &[0], &[4], &[4]]),
        (RolloutStrategy::Recreate, 4, 0, &[0], [&[0], &[0], &[0], &[4]]),
        (RolloutStrategy::Recreate, 4, 0, &[0, 0], [&[0, 0], &[0, 0], &[0, 0], &[4, 0]]),
        (RolloutStrategy::Recreate, 4, 0, &[0, 3], [&[0, 3], &[0, 0], &[0, 3], &[0, 3]]),
        // New workers that are there are not joined by old ones.
        (RolloutStrategy::Recreate, 4, 4, &[4], [&[4], &[0], &[4], &[4]]),
        (RolloutStrategy::Recreate, 4, 4, &[0], [&[0]; 4]),
        (RolloutStrategy::Recreate, 0, 0, &[4], [&[0]; 4]),
        (RolloutStrategy::Recreate, 0, 0, &[0], [&[0]; 4]),
        (quarter(), 4, 0, &[4], [&[4]; 4]),
        (quarter(), 4, 0, &[0], [&[0]; 4]),
        (quarter(), 4, 4, &[0], [&[0]; 4]),
        (quarter(), 0, 0, &[0], [&[0]; 4]),
    ];
    for (strategy, desired, new, old, expected) in steps {
        for (capture, expected) in captures.into_iter().zip(expected) {
            // No worker of the target revision serves; the old ones do, or do not.
            for serves in [true, false] {
                let lives: Vec<_> = old.iter().map(|&spec| live(spec, if serves { spec } else { 0 })).collect();
                let got = hold_one(&strategy, desired, live(new, 0), &lives, capture);
                let case = format!("{strategy:?}, {desired} desired, {new} new, old {lives:?}, {capture:?}");
                assert_eq!(got, Targets { new, old: expected.to_vec() }, "{case}");
            }
        }
    }
}

#[test]
fn a_single_worker_is_replaced_after_its_successor_serves() {
    assert_eq!(plan_one(&quarter(), 1, live(0, 0), &[live(1, 1)], false), Targets { new: 1, old: vec![1] });
    assert_eq!(plan_one(&quarter(), 1, live(1, 0), &[live(1, 1)], false), Targets { new: 1, old: vec![1] });
    assert_eq!(plan_one(&quarter(), 1, live(1, 1), &[live(1, 1)], false), Targets { new: 1, old: vec![0] });
}

#[test]
fn recreate_waits_for_the_last_old_pod() {
    assert_eq!(
        plan_one(&RolloutStrategy::Recreate, 2, live(0, 0), &[live(2, 2)], false),
        Targets { new: 0, old: vec![0] }
    );
    assert_eq!(
        plan_one(&RolloutStrategy::Recreate, 2, live(0, 0), &[live(0, 0)], true),
        Targets { new: 2, old: vec![0] }
    );
}

#[test]
fn zero_is_a_normal_state() {
    assert_eq!(plan_one(&quarter(), 0, live(0, 0), &[live(3, 3)], false), Targets { new: 0, old: vec![0] });
    assert_eq!(plan_one(&quarter(), 3, live(0, 0), &[live(0, 0)], false), Targets { new: 3, old: vec![0] });
    assert_eq!(plan_one(&quarter(), 5, live(0, 0), &[], false), Targets { new: 5, old: vec![] });
}

#[test]
fn the_oldest_revision_gives_first() {
    let got = plan_one(&quarter(), 4, live(2, 2), &[live(2, 2), live(1, 1)], false);
    assert_eq!(got.old, vec![0, 1]);
}

#[test]
fn workers_that_do_not_serve_go_first() {
    let got = plan_one(&quarter(), 4, live(1, 0), &[live(4, 2)], false);
    assert!(got.old[0] >= 2, "{got:?}");
}

#[test]
fn a_surge_that_the_author_excludes_stays_zero() {
    let percent = |text: &str| IntOrString::String(text.into());
    // surge, unavailable, desired -> surge and unavailable in workers
    let table = [
        (IntOrString::Int(0), percent("25%"), 2, (0, 1)),
        (percent("0%"), percent("25%"), 3, (0, 1)),
        (IntOrString::Int(0), percent("25%"), 4, (0, 1)),
        (IntOrString::Int(0), percent("50%"), 4, (0, 2)),
        (IntOrString::Int(0), IntOrString::Int(3), 2, (0, 2)),
        (IntOrString::Int(0), percent("25%"), 0, (0, 0)),
        (percent("25%"), percent("25%"), 1, (1, 0)),
        (percent("25%"), percent("0%"), 3, (1, 0)),
        (IntOrString::Int(2), IntOrString::Int(0), 3, (2, 0)),
    ];
    for (surge, unavailable, desired, expected) in table {
        assert_eq!(bounds(&surge, &unavailable, desired), expected, "{surge:?} {unavailable:?} of {desired}");
    }
}

/// The old revision goes on serving as a whole, however long one component takes.
#[test]
fn a_component_that_does_not_come_up_holds_the_drain_of_the_others() {
    let four = || component(&quarter(), 4, live(0, 0), &[live(4, 4)]);
    let (mut prefill, mut decode) = (four(), four());
    for _ in 0..10 {
        let mut targets = plan(&[prefill.clone(), decode.clone()]).into_iter();
        for (c, comes_up) in [(&mut prefill, false), (&mut decode, true)] {
            let targets = targets.next().unwrap();
            c.new = live(targets.new, if comes_up { targets.new } else { 0 });
            c.old = targets.old.iter().map(|replicas| Some(live(*replicas, *replicas))).collect();
        }
    }
    assert_eq!((prefill.old, prefill.new), (vec![Some(live(3, 3))], live(2, 0)));
    assert_eq!((decode.old, decode.new), (vec![Some(live(3, 3))], live(2, 2)));
}

#[test]
fn components_of_a_revision_come_and_go_in_step() {
    // Of new prefill workers, half serve: so many of the old ones of both may go.
    let prefill = component(&quarter(), 2, live(1, 1), &[live(2, 2)]);
    let decode = component(&quarter(), 8, live(8, 8), &[live(8, 8)]);
    let old: Vec<_> = plan(&[prefill, decode]).into_iter().map(|targets| targets.old[0]).collect();
    assert_eq!(old, [1, 2]);
}

#[test]
fn a_component_that_is_recreated_does_not_wait_and_the_others_wait_for_it() {
    let prefill = component(&RolloutStrategy::Recreate, 2, live(0, 0), &[live(2, 2)]);
    let decode = component(&quarter(), 4, live(2, 2), &[live(3, 3)]);
    let got = plan(&[prefill.clone(), decode.clone()]);
    assert_eq!(got, [Targets { new: 0, old: vec![0] }, Targets { new: 2, old: vec![3] }]);
    let prefill = Component { new: live(2, 2), old: vec![Some(live(0, 0))], drained: true, ..prefill };
    assert_eq!(plan(&[prefill, decode])[1].old, [1]);
}

/// Pods of a deleted object hold GPU memory, host ports and volumes like those of a live one.
#[test]
fn recreate_starts_nothing_beside_pods_whose_object_is_gone() {
    let of_gone = |new: LiveCounts, drained| plan_one(&RolloutStrategy::Recreate, 2, new, &[], drained).new;
    assert_eq!(of_gone(live(0, 0), false), 0);
    assert_eq!(of_gone(live(0, 0), true), 2);
    assert_eq!(of_gone(live(1, 1), false), 1, "those that started stay");
}

/// Workers of one component that a revision lacks limit the capacity of its other components.
#[test]
fn a_revision_that_cannot_serve_goes_first() {
    let prefill = component(&quarter(), 4, live(0, 0), &[live(3, 3), live(1, 0)]);
    let decode = component(&quarter(), 4, live(0, 0), &[live(3, 3), live(2, 2)]);
    let old: Vec<_> = plan(&[prefill, decode]).into_iter().map(|targets| targets.old).collect();
    assert_eq!(old, [[3, 0], [3, 0]]);
}

/// Two old revisions serve one half each. No single worker can go without loss, and no new one has room.
#[test]
fn fragments_of_several_revisions_do_not_stop_a_rollout() {
    let one_by_one = rolling(IntOrString::Int(1), IntOrString::Int(0));
    let mut components = [
        component(&one_by_one, 3, live(0, 0), &[live(2, 2), live(2, 2)]),
        component(&one_by_one, 4, live(1, 1), &[live(2, 2), live(2, 2)]),
    ];
    let before = capacity(&components);
    let targets = plan(&components);
    assert_ne!(targets, [Targets { new: 0, old: vec![2, 2] }, Targets { new: 1, old: vec![2, 2] }]);
    come_up(&mut components, targets);
    assert!(capacity(&components) >= before - WHOLE / 3);
    for _ in 0..32 {
        let targets = plan(&components);
        come_up(&mut components, targets);
    }
    assert_eq!(components.map(|c| (c.new.spec, c.old_spec())), [(3, 0), (4, 0)]);
}

/// The least common multiple of all replica counts: every share is a whole number of these parts.
const WHOLE: i32 = 840;

/// Returns the joint capacity of all revisions.
fn capacity(components: &[Component]) -> i32 {
    let revisions = components.iter().map(|c| c.old.len()).max().unwrap_or(0);
    let counted = || components.iter().filter(|c| c.desired > 0);
    let old = (0..revisions).map(|r| {
        let parts = counted().filter(|c| c.has_old()).map(|c| c.old(r).serving() * WHOLE / c.desired);
        parts.min().unwrap_or(0)
    });
    let new = counted().map(|c| c.new.serving().min(c.desired) * WHOLE / c.desired).min().unwrap_or(WHOLE);
    old.sum::<i32>() + new
}

/// Everything that is desired serves.
fn come_up(components: &mut [Component], targets: Vec<Targets>) {
    for (c, targets) in components.iter_mut().zip(targets) {
        c.new = live(targets.new, targets.new);
        for (old, replicas) in c.old.iter_mut().zip(targets.old) {
            *old = old.map(|_| live(replicas, replicas));
        }
        c.drained = c.old_spec() == 0;
    }
}

fn any_amount() -> impl Strategy<Value = IntOrString> {
    prop_oneof![(0..6).prop_map(IntOrString::Int), (0..=100).prop_map(|p| IntOrString::String(format!("{p}%")))]
}

prop_compose! {
    fn any_live()(spec in 0..8)(spec in Just(spec), available in 0..=spec + 2) -> LiveCounts { LiveCounts { spec, available } }
}

prop_compose! {
    fn any_component()(
        desired in 0..=8,
        strategy in prop_oneof![
            6 => (any_amount(), any_amount()).prop_map(|(surge, unavailable)| rolling(surge, unavailable)),
            1 => Just(RolloutStrategy::Recreate),
        ],
        new in any_live(),
        old in prop::collection::vec(prop::option::weighted(0.9, any_live()), 3),
    ) -> Component {
        Component { old, ..component(&strategy, desired, new, &[]) }
    }
}

proptest! {
    /// A step never takes capacity below the floor, if it was above it, and never exceeds the ceiling by its own doing.
    #[test]
    fn a_step_keeps_capacity(
        desired in 0..8,
        surge in any_amount(),
        unavailable in any_amount(),
        new in any_live(),
        old in prop::collection::vec(any_live(), 1..4),
    ) {
        let (max_surge, max_unavailable) = bounds(&surge, &unavailable, desired);
        let got = plan_one(&rolling(surge, unavailable), desired, new, &old, false);
        let floor = desired - max_unavailable;
        let serving = |o: &LiveCounts, target: i32| o.serving().min(target);
        let before = old.iter().map(|o| o.serving()).sum::<i32>() + new.serving();
        let after = old.iter().zip(&got.old).map(|(o, t)| serving(o, *t)).sum::<i32>() + serving(&new, got.new);
        // Scaling the graph itself down may lower capacity, a change of revision may not.
        prop_assert!(after >= floor.min(before), "{got:?}: {before} -> {after}, floor {floor}");
        for (target, o) in got.old.iter().zip(&old) {
            prop_assert!(*target >= 0 && *target <= o.spec, "old revisions only shrink");
        }
        let total_before = old.iter().map(|o| o.spec).sum::<i32>() + new.spec;
        let total_after = got.old.iter().sum::<i32>() + got.new;
        prop_assert!(total_after <= (desired + max_surge).max(total_before));
        prop_assert!(got.new >= 0 && got.new <= desired);
    }

    /// If every desired worker comes up, a rollout from any state ends with the target revision alone.
    #[test]
    fn every_rollout_ends(
        desired in 0..8,
        surge in any_amount(),
        unavailable in any_amount(),
        mut new in any_live(),
        mut old in prop::collection::vec(any_live(), 1..4),
    ) {
        let strategy = rolling(surge, unavailable);
        for _ in 0..64 {
            let got = plan_one(&strategy, desired, new, &old, false);
            new = LiveCounts { spec: got.new, available: got.new };
            for (o, target) in old.iter_mut().zip(got.old) {
                *o = LiveCounts { spec: target, available: target };
            }
        }
        prop_assert_eq!(new, LiveCounts { spec: desired, available: desired });
        prop_assert!(old.iter().all(|o| o.spec == 0));
    }

    /// The joint capacity of the revisions never falls below the capacity that all strategies allow, after any part of
    /// the writes of a step. Only fragments of several old revisions may cost a part of a worker, where nothing else
    /// can move.
    #[test]
    fn a_step_keeps_what_the_revisions_serve_together(
        components in prop::collection::vec(any_component(), 1..4),
        written in any::<u64>(),
    ) {
        let before = capacity(&components);
        let counted = || components.iter().filter(|c| c.desired > 0);
        let lost = counted().map(|c| c.bounds().1 * WHOLE / c.desired).max().unwrap_or(0);
        let targets = plan(&components);
        let stuck = !components.iter().any(Component::is_moving)
            && components.iter().zip(&targets).all(|(c, targets)| targets.new == c.new.spec);
        let revisions = (0..3).filter(|r| components.iter().any(|c| c.old(*r).serving() > 0)).count();
        let worker = counted().map(|c| WHOLE / c.desired).max().unwrap_or(0);
        let waste = if stuck { worker * i32::try_from(revisions.saturating_sub(1)).unwrap() } else { 0 };
        let mut after = components.clone();
        let writes = after.iter_mut().zip(&targets).flat_map(|(c, targets)| c.old.iter_mut().zip(&targets.old));
        for (index, (old, target)) in writes.enumerate() {
            if let Some(old) = old.as_mut().filter(|_| written >> (index % 64) & 1 == 1) {
                prop_assert!(*target <= old.spec, "old revisions only shrink");
                old.spec = *target;
            }
        }
        let (after, floor) = (capacity(&after), (WHOLE - lost).min(before) - waste);
        prop_assert!(after >= floor, "{targets:?}: {before} -> {after}, floor {floor}");
        for (c, targets) in components.iter().zip(&targets) {
            let serving = |old: &Option<LiveCounts>, target: i32| old.map_or(0, |o| o.serving().min(target));
            let now: i32 = c.old.iter().zip(&targets.old).map(|(old, target)| serving(old, *target)).sum();
            let before: i32 = c.old.iter().map(|old| serving(old, i32::MAX)).sum();
            let new = c.new.serving().min(c.desired);
            prop_assert!(now + new >= (c.desired - c.bounds().1).min(before + new), "{targets:?}");
            let most = (c.desired.saturating_add(c.bounds().0)).max(c.old_spec() + c.new.spec);
            prop_assert!(!c.has_old() || c.old_spec() + targets.new <= most, "{targets:?}");
        }
    }

    /// If every desired worker comes up, a rollout of any components from any state ends with the target revision alone.
    #[test]
    fn every_rollout_of_several_components_ends(mut components in prop::collection::vec(any_component(), 1..4)) {
        for _ in 0..128 {
            let targets = plan(&components);
            come_up(&mut components, targets);
        }
        for c in &components {
            prop_assert_eq!((c.new, c.old_spec()), (live(c.desired, c.desired), 0));
        }
    }
}

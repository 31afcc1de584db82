//! Table and properties of the replica planner.

use super::*;
use proptest::prelude::*;

fn rolling(max_surge: IntOrString, max_unavailable: IntOrString) -> RolloutStrategy {
    RolloutStrategy::RollingUpdate { max_surge, max_unavailable }
}

fn quarter() -> RolloutStrategy {
    rolling(IntOrString::String("25%".into()), IntOrString::String("25%".into()))
}

fn live(spec: i32, available: i32) -> Live {
    Live { spec, available }
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
        let got = plan(&quarter(), 4, new, &[old], false);
        assert_eq!(got, Targets { new: new_target, old: vec![old_target] }, "old {old:?}, new {new:?}");
    }
}

#[test]
fn nobody_gives_way_to_workers_that_wait() {
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
        let got = hold(&quarter(), desired, new, &[old], Capture::Running);
        assert_eq!(got, Targets { new: new_target, old: vec![old_target] }, "{desired}: old {old:?}, new {new:?}");
    }
}

/// A capture may need the GPUs that its own old workers hold. Nobody else gives way, and nobody comes up but those who did.
#[test]
fn workers_are_emptied_for_their_own_capture_alone_and_come_back_if_it_is_lost() {
    type Step<'a> = (RolloutStrategy, i32, i32, &'a [i32], [&'a [i32]; 4]);
    let captures = [Capture::Idle, Capture::Running, Capture::Done, Capture::Lost];
    // strategy, desired, replicas of the target generation and of the old ones -> of the old ones for each capture
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
            // Nobody of the target generation serves; whoever is left of the old ones does, or does not.
            for serves in [true, false] {
                let lives: Vec<_> = old.iter().map(|&spec| live(spec, if serves { spec } else { 0 })).collect();
                let got = hold(&strategy, desired, live(new, 0), &lives, capture);
                let case = format!("{strategy:?}, {desired} desired, {new} new, old {lives:?}, {capture:?}");
                assert_eq!(got, Targets { new, old: expected.to_vec() }, "{case}");
            }
        }
    }
}

#[test]
fn a_single_worker_is_replaced_after_its_successor_serves() {
    assert_eq!(plan(&quarter(), 1, live(0, 0), &[live(1, 1)], false), Targets { new: 1, old: vec![1] });
    assert_eq!(plan(&quarter(), 1, live(1, 0), &[live(1, 1)], false), Targets { new: 1, old: vec![1] });
    assert_eq!(plan(&quarter(), 1, live(1, 1), &[live(1, 1)], false), Targets { new: 1, old: vec![0] });
}

#[test]
fn recreate_waits_for_the_last_old_pod() {
    assert_eq!(plan(&RolloutStrategy::Recreate, 2, live(0, 0), &[live(2, 2)], false), Targets { new: 0, old: vec![0] });
    assert_eq!(plan(&RolloutStrategy::Recreate, 2, live(0, 0), &[live(0, 0)], true), Targets { new: 2, old: vec![0] });
}

#[test]
fn zero_is_a_normal_state() {
    assert_eq!(plan(&quarter(), 0, live(0, 0), &[live(3, 3)], false), Targets { new: 0, old: vec![0] });
    assert_eq!(plan(&quarter(), 3, live(0, 0), &[live(0, 0)], false), Targets { new: 3, old: vec![0] });
    assert_eq!(plan(&quarter(), 5, live(0, 0), &[], false), Targets { new: 5, old: vec![] });
}

#[test]
fn the_oldest_generation_gives_first() {
    let got = plan(&quarter(), 4, live(2, 2), &[live(2, 2), live(1, 1)], false);
    assert_eq!(got.old, vec![0, 1]);
}

#[test]
fn workers_that_do_not_serve_go_first() {
    let got = plan(&quarter(), 4, live(1, 0), &[live(4, 2)], false);
    assert!(got.old[0] >= 2, "{got:?}");
}

fn any_amount() -> impl Strategy<Value = IntOrString> {
    prop_oneof![(0..6).prop_map(IntOrString::Int), (0..=100).prop_map(|p| IntOrString::String(format!("{p}%")))]
}

prop_compose! {
    fn any_live()(spec in 0..8)(spec in Just(spec), available in 0..=spec + 2) -> Live { Live { spec, available } }
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
        let got = plan(&rolling(surge, unavailable), desired, new, &old, false);
        let floor = desired - max_unavailable;
        let serving = |o: &Live, target: i32| o.serving().min(target);
        let before = old.iter().map(|o| o.serving()).sum::<i32>() + new.serving();
        let after = old.iter().zip(&got.old).map(|(o, t)| serving(o, *t)).sum::<i32>() + serving(&new, got.new);
        // Scaling the graph itself down may lower capacity, a change of generation may not.
        prop_assert!(after >= floor.min(before), "{got:?}: {before} -> {after}, floor {floor}");
        for (target, o) in got.old.iter().zip(&old) {
            prop_assert!(*target >= 0 && *target <= o.spec, "old generations only shrink");
        }
        let total_before = old.iter().map(|o| o.spec).sum::<i32>() + new.spec;
        let total_after = got.old.iter().sum::<i32>() + got.new;
        prop_assert!(total_after <= (desired + max_surge).max(total_before));
        prop_assert!(got.new >= 0 && got.new <= desired);
    }

    /// If every wanted worker comes up, a rollout from any state ends with the target generation alone.
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
            let got = plan(&strategy, desired, new, &old, false);
            new = Live { spec: got.new, available: got.new };
            for (o, target) in old.iter_mut().zip(got.old) {
                *o = Live { spec: target, available: target };
            }
        }
        prop_assert_eq!(new, Live { spec: desired, available: desired });
        prop_assert!(old.iter().all(|o| o.spec == 0));
    }
}

//! Tests of the assignment: it is complete, equal, and moves little.

use proptest::prelude::*;

use super::*;

/// Members that hold Leases; those of the current assignment that do not are gone.
struct Cluster {
    live: Vec<Member>,
    stopped: bool,
}

impl Known for Cluster {
    fn live(&self) -> Vec<Member> {
        self.live.clone()
    }

    fn is_gone(&self, member: &Member) -> bool {
        !self.live.contains(member)
    }

    fn has_stopped(&self, former: &Former) -> bool {
        self.stopped || self.is_gone(&former.member)
    }
}

fn member(number: usize) -> Member {
    Member { id: format!("pod-{number}"), slot: number % 8, seen: number as u64 }
}

fn cluster(numbers: &[usize], stopped: bool) -> Cluster {
    Cluster { live: numbers.iter().copied().map(member).collect(), stopped }
}

fn share(assignment: &Assignment, number: usize) -> f64 {
    assignment.places_of(&member(number).id, number % 8).share()
}

#[test]
fn a_member_that_joins_takes_an_equal_share_and_waits_for_its_former_owners() {
    let first = plan(None, "pod-0", &cluster(&[0], true), 7).unwrap();
    assert_eq!((first.epoch, first.ranges.len(), first.ranges[0].from.len()), (7, 1, 0));
    let second = plan(Some(&first), "pod-0", &cluster(&[0, 1], true), 0).unwrap();
    assert_eq!((second.epoch, share(&second, 0), share(&second, 1)), (8, 0.5, 0.5));
    let (_, gained) = second.spans().find(|(_, range)| range.owner == member(1)).unwrap();
    assert_eq!(gained.from, [Former { member: member(0), epoch: 8 }]);
    let later = plan(Some(&second), "pod-0", &cluster(&[0, 1], true), 0).unwrap();
    assert_eq!(later.epoch, 8, "nothing moves");
    assert!(later.ranges.iter().all(|range| range.from.is_empty()), "all have stopped");
}

#[test]
fn no_member_that_is_gone_is_awaited_and_all_that_have_not_stopped_are() {
    let first = plan(None, "pod-0", &cluster(&[0, 1, 2], false), 1).unwrap();
    assert!(first.ranges.iter().all(|range| range.from.len() == 2), "it is not known who acted where");
    let second = plan(Some(&first), "pod-0", &cluster(&[0, 1], false), 0).unwrap();
    for (_, range) in second.spans() {
        assert_ne!(range.owner, member(2));
        assert!(
            range.from.iter().all(|former| former.member != member(2) && former.member != range.owner),
            "{range:?}"
        );
    }
}

#[test]
fn an_assignment_survives_the_annotation() {
    let assignment = plan(None, "pod-0", &cluster(&[0, 1, 2], false), 1).unwrap();
    let text = serde_json::to_string(&assignment).unwrap();
    assert_eq!(serde_json::from_str::<Assignment>(&text).unwrap(), assignment);
    assert!(text.contains(r#""last":"ffffffffffffffff""#), "{text}");
}

proptest! {
    /// Whatever members come and go: each place has one owner, shares are equal, and no more places move than have to.
    #[test]
    fn shares_are_equal_and_few_places_move(
        steps in prop::collection::vec((prop::collection::btree_set(0_usize..8, 1..8), any::<bool>()), 1..12),
    ) {
        let mut current: Option<Assignment> = None;
        for (numbers, stopped) in steps {
            let numbers: Vec<usize> = numbers.into_iter().collect();
            let next = plan(current.as_ref(), "pod-0", &cluster(&numbers, stopped), 1).unwrap();
            prop_assert!(next.is_complete());
            prop_assert!(next.ranges.len() <= RANGES_PER_MEMBER * numbers.len());
            let equal = 1.0 / numbers.len() as f64;
            for number in &numbers {
                prop_assert!((share(&next, *number) - equal).abs() < 1e-9);
            }
            if let Some(current) = &current {
                let moved: f64 = numbers.iter().map(|number| {
                    let (before, after) = (current.places_of(&member(*number).id, *number), next.places_of(&member(*number).id, *number));
                    after.without(&before).share()
                }).sum();
                let needed: f64 = numbers.iter().map(|number| (equal - share(current, *number)).max(0.0)).sum();
                prop_assert!(moved <= needed + 1e-9 || next.ranges.len() == numbers.len(), "{moved} of {needed}");
                for (span, range) in next.spans() {
                    let places = Places::of([span]);
                    for (_, before) in current.spans().filter(|(was, _)| !Places::of([*was]).and(&places).is_empty()) {
                        let waits = range.from.iter().any(|former| former.member == before.owner);
                        let gone = !numbers.contains(&before.owner.slot);
                        prop_assert!(before.owner == range.owner || gone || waits, "{range:?} after {before:?}");
                    }
                }
            }
            current = Some(next);
        }
    }
}

//! Tests of `fairness`.

use proptest::prelude::*;

use super::*;

/// Starts as many items as may run.
fn start(queue: &mut FairQueue<&'static str>) -> Vec<&'static str> {
    let mut started = Vec::new();
    while let Some(namespace) = queue.pop() {
        queue.take(namespace, 1);
        started.push(namespace);
    }
    started
}

/// Starts and ends items until none waits, where one may run.
fn one_by_one(queue: &mut FairQueue<&'static str>) -> Vec<&'static str> {
    let mut order = Vec::new();
    while let [namespace] = start(queue)[..] {
        order.push(namespace);
        queue.give_back(namespace);
    }
    order
}

#[test]
fn one_namespace_leaves_room_for_others() {
    for (most, alone) in [(1, 1), (2, 2), (4, 3), (8, 6), (128, 96)] {
        let mut queue = FairQueue::new(most);
        (0..10_000).for_each(|_| queue.push("busy", "busy"));
        assert_eq!(start(&mut queue).len(), alone, "of {most}");
    }
}

/// One object of a tenant waited for all the objects that another tenant had queued before.
#[test]
fn a_single_item_does_not_wait_for_ten_thousand_of_another_namespace() {
    let mut queue = FairQueue::new(8);
    (0..10_000).for_each(|_| queue.push("busy", "busy"));
    start(&mut queue);
    queue.push("quiet", "quiet");
    assert_eq!(start(&mut queue)[0], "quiet");
    queue.give_back("quiet");
    // Also where places were not enough for all: it comes as soon as one is free.
    let mut queue = FairQueue::new(1);
    (0..10_000).for_each(|_| queue.push("busy", "busy"));
    start(&mut queue);
    queue.push("quiet", "quiet");
    assert!(start(&mut queue).is_empty());
    queue.give_back("busy");
    assert_eq!(start(&mut queue), ["quiet"]);
}

#[test]
fn namespaces_take_turns() {
    let mut queue = FairQueue::new(1);
    for namespace in ["a", "a", "a", "b", "b", "c"] {
        queue.push(namespace, namespace);
    }
    assert_eq!(one_by_one(&mut queue), ["a", "b", "c", "a", "b", "a"]);
    assert!(queue.lanes.is_empty() && queue.order.is_empty(), "nothing is kept of namespaces without work");
}

#[test]
fn items_of_one_namespace_are_served_together_in_its_turn() {
    let mut queue = FairQueue::new(1).in_runs_of(2);
    for namespace in ["a", "b", "a", "b", "a", "c"] {
        queue.push(namespace, namespace);
    }
    assert_eq!(one_by_one(&mut queue), ["a", "a", "b", "b", "c", "a"]);
}

#[test]
fn a_single_item_waits_for_one_turn_of_each_busy_namespace_at_most() {
    let mut queue = FairQueue::new(8).in_runs_of(4);
    let busy = ["a", "b", "c", "d", "e"];
    for namespace in busy {
        (0..10_000).for_each(|_| queue.push(namespace, namespace));
    }
    let mut running = start(&mut queue);
    queue.push("quiet", "quiet");
    let mut before = 0;
    while !running.contains(&"quiet") {
        queue.give_back(running.remove(0));
        running.extend(start(&mut queue));
        before += 1;
    }
    assert!(before <= 4 * busy.len(), "{before}");
}

#[test]
fn a_namespace_without_room_is_passed_over_in_its_turn() {
    let mut queue = FairQueue::new(8).in_runs_of(4);
    for namespace in ["a", "b"] {
        (0..10_000).for_each(|_| queue.push(namespace, namespace));
    }
    assert_eq!(start(&mut queue), ["a", "a", "a", "a", "b", "b", "b"]);
    queue.push("quiet", "quiet");
    assert_eq!(start(&mut queue), ["quiet"], "the turn of b is not over");
}

proptest! {
    #[test]
    fn places_are_never_exceeded_and_all_items_are_served(
        most in 1_usize..20,
        run in 1_usize..6,
        items in prop::collection::vec(0_usize..6, 0..200),
    ) {
        const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
        let mut queue = FairQueue::new(most).in_runs_of(run);
        items.iter().for_each(|index| queue.push(NAMES[*index], NAMES[*index]));
        let (mut running, mut served) = (Vec::new(), 0);
        loop {
            running.extend(start(&mut queue));
            prop_assert!(running.len() <= most && running.len() == queue.in_use());
            let Some(done) = running.pop() else { break };
            queue.give_back(done);
            served += 1;
        }
        prop_assert_eq!(served, items.len());
    }
}

//! Shares a bounded number of places between namespaces, so that no tenant delays another for longer than a small share
//! of its own work takes. Pure.

use std::collections::{BTreeSet, HashMap, VecDeque};

/// How many places one namespace may take for each place that it leaves free.
const PER_FREE_PLACE: usize = 3;

/// Number of places that a namespace may take now, if it uses `own` of the `in_use` places and there are `most`.
///
/// A namespace alone gets three quarters of the places. The more namespaces are busy, the less each of them gets, and a
/// namespace that uses none finds a free one.
#[must_use]
pub fn room(own: usize, in_use: usize, most: usize) -> usize {
    let free = most.saturating_sub(in_use);
    let spare = (PER_FREE_PLACE * free).saturating_sub(own);
    spare.div_ceil(PER_FREE_PLACE + 1).min(free)
}

/// Items that wait for a place, by namespace. The namespace with the fewest places in use comes next, and among equals
/// the one that was served the longest time ago.
#[derive(Debug)]
pub struct FairQueue<T> {
    most: usize,
    in_use: usize,
    served: u64,
    lanes: HashMap<String, Lane<T>>,
    /// Namespaces with waiting items: places in use, last turn, name.
    order: BTreeSet<(usize, u64, String)>,
}

#[derive(Debug)]
struct Lane<T> {
    waiting: VecDeque<T>,
    in_use: usize,
    turn: u64,
}

impl<T> FairQueue<T> {
    /// An empty queue for so many places.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, in_use: 0, served: 0, lanes: HashMap::new(), order: BTreeSet::new() }
    }

    /// Places in use.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.in_use
    }

    /// Number of places that a namespace may take now.
    #[must_use]
    pub fn room(&self, namespace: &str) -> usize {
        room(self.lanes.get(namespace).map_or(0, |lane| lane.in_use), self.in_use, self.most)
    }

    /// Adds an item at the end of its namespace's line.
    pub fn push(&mut self, namespace: &str, item: T) {
        let turn = self.served;
        self.change(namespace, |lane| {
            // A namespace that begins to wait has no claim from before, and comes before the one that was served last.
            lane.turn = if lane.waiting.is_empty() { lane.turn.max(turn) } else { lane.turn };
            lane.waiting.push_back(item);
        });
    }

    /// The next item whose namespace may take a place. It takes none by itself: see [`FairQueue::take`].
    pub fn pop(&mut self) -> Option<T> {
        let (own, _, namespace) = self.order.first()?.clone();
        if room(own, self.in_use, self.most) == 0 {
            return None;
        }
        self.served += 1;
        let turn = self.served + 1;
        let mut item = None;
        self.change(&namespace, |lane| {
            lane.turn = turn;
            item = lane.waiting.pop_front();
        });
        item
    }

    /// A namespace takes so many places.
    pub fn take(&mut self, namespace: &str, places: usize) {
        self.in_use += places;
        self.change(namespace, |lane| lane.in_use += places);
    }

    /// A namespace gives a place back.
    pub fn give_back(&mut self, namespace: &str) {
        self.in_use = self.in_use.saturating_sub(1);
        self.change(namespace, |lane| lane.in_use = lane.in_use.saturating_sub(1));
    }

    fn change(&mut self, namespace: &str, edit: impl FnOnce(&mut Lane<T>)) {
        let mut lane = self.lanes.remove(namespace).unwrap_or(Lane { waiting: VecDeque::new(), in_use: 0, turn: 0 });
        self.order.remove(&(lane.in_use, lane.turn, namespace.to_owned()));
        edit(&mut lane);
        if !lane.waiting.is_empty() {
            self.order.insert((lane.in_use, lane.turn, namespace.to_owned()));
        }
        if lane.in_use > 0 || !lane.waiting.is_empty() {
            self.lanes.insert(namespace.to_owned(), lane);
        }
    }
}

#[cfg(test)]
mod tests {
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
        let mut order = Vec::new();
        while let [namespace] = start(&mut queue)[..] {
            order.push(namespace);
            queue.give_back(namespace);
        }
        assert_eq!(order, ["a", "b", "c", "a", "b", "a"]);
        assert!(queue.lanes.is_empty() && queue.order.is_empty(), "nothing is kept of namespaces without work");
    }

    proptest! {
        #[test]
        fn places_are_never_exceeded_and_all_items_are_served(
            most in 1_usize..20,
            items in prop::collection::vec(0_usize..6, 0..200),
        ) {
            const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
            let mut queue = FairQueue::new(most);
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
}

//! Shares a bounded number of places between namespaces, so that no tenant delays another for longer than a small share
//! of its own work takes. `backoff` computes the delay before a key is tried again. Pure.

mod backoff;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, VecDeque};

pub use self::backoff::{Backoff, FIRST, LONGEST};

/// Number of places that one namespace may take for each place that it leaves free.
const PER_FREE_PLACE: usize = 3;

/// Number of places that a namespace may take now, if it uses `own` of the `in_use` places and there are `most`.
///
/// A namespace alone gets three quarters of the places. The more namespaces are busy, the less each of them gets, and a
/// namespace that uses none finds a free one.
pub fn room(own: usize, in_use: usize, most: usize) -> usize {
    let free = most.saturating_sub(in_use);
    let spare = (PER_FREE_PLACE * free).saturating_sub(own);
    spare.div_ceil(PER_FREE_PLACE + 1).min(free)
}

/// Items that wait for a place, by namespace. The namespace with the fewest places in use comes next, counted in whole
/// turns, and among equals the one whose last turn was the longest time ago.
#[derive(Debug)]
pub struct FairQueue<T> {
    most: usize,
    /// Number of items in a turn.
    run: usize,
    in_use: usize,
    served: u64,
    lanes: HashMap<String, Lane<T>>,
    /// Namespaces with waiting items: places in use, in whole turns; last turn; name.
    order: BTreeSet<(usize, u64, String)>,
}

#[derive(Debug)]
struct Lane<T> {
    waiting: VecDeque<T>,
    in_use: usize,
    turn: u64,
    /// Items that were served in the present turn.
    served: usize,
}

impl<T> FairQueue<T> {
    /// An empty queue for so many places, in which a turn is one item.
    pub fn new(most: usize) -> Self {
        Self { most, run: 1, in_use: 0, served: 0, lanes: HashMap::new(), order: BTreeSet::new() }
    }

    /// Lets a namespace have up to `run` items in a turn: those that belong together are then served together.
    #[must_use]
    pub fn in_runs_of(self, run: usize) -> Self {
        Self { run: run.max(1), ..self }
    }

    /// Places in use.
    pub fn in_use(&self) -> usize {
        self.in_use
    }

    /// Number of places that a namespace may take now.
    pub fn room(&self, namespace: &str) -> usize {
        room(self.lanes.get(namespace).map_or(0, |lane| lane.in_use), self.in_use, self.most)
    }

    /// Adds an item at the end of its namespace's line.
    pub fn push(&mut self, namespace: &str, item: T) {
        let turn = self.served;
        self.change(namespace, |lane| {
            // A namespace that begins to wait has no claim from before, and comes before the one that was served last.
            if lane.waiting.is_empty() {
                (lane.turn, lane.served) = (lane.turn.max(turn), 0);
            }
            lane.waiting.push_back(item);
        });
    }

    /// The next item whose namespace may take a place. It takes none by itself: see [`FairQueue::take`].
    pub fn pop(&mut self) -> Option<T> {
        if room(0, self.in_use, self.most) == 0 {
            return None;
        }
        // No more namespaces are passed over than there are places: each of them has one.
        let (_, _, namespace) = self.order.iter().find(|(_, _, namespace)| self.room(namespace) > 0)?.clone();
        self.served += 1;
        let (turn, run) = (self.served + 1, self.run);
        let mut item = None;
        self.change(&namespace, |lane| {
            lane.served += 1;
            if lane.served >= run {
                (lane.turn, lane.served) = (turn, 0);
            }
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
        let none = Lane { waiting: VecDeque::new(), in_use: 0, turn: 0, served: 0 };
        let mut lane = self.lanes.remove(namespace).unwrap_or(none);
        self.order.remove(&(lane.in_use / self.run, lane.turn, namespace.to_owned()));
        edit(&mut lane);
        if !lane.waiting.is_empty() {
            self.order.insert((lane.in_use / self.run, lane.turn, namespace.to_owned()));
        }
        if lane.in_use > 0 || !lane.waiting.is_empty() {
            self.lanes.insert(namespace.to_owned(), lane);
        }
    }
}

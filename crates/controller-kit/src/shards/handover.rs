//! Places in which one member may act: its gains and its losses.

use std::collections::BTreeMap;

use super::assignment::{Assignment, Former, is_acknowledged};
use crate::places::Places;

/// The places of one member. It acts in none before an assignment gives it some.
#[derive(Debug, Default)]
pub struct Duty {
    id: String,
    slot: usize,
    seen: Option<Assignment>,
    epoch: u64,
    acknowledged: u64,
    /// Places that the assignment gives it.
    mine: Places,
    /// Places in which it starts work.
    active: Places,
    /// Places in which it starts nothing more, and running work ends.
    draining: Places,
    /// Places in which work that began before a loss may still run, but writes no more. Nothing starts there before
    /// that work has ended.
    ending: Places,
    /// Places that it gains as soon as its caches have been read anew, by the number of the reading.
    loading: BTreeMap<u64, Places>,
}

impl Duty {
    /// Of a member that has just taken its Lease, in a process where earlier work may run in `ending`.
    #[must_use]
    pub fn new(id: &str, slot: usize, ending: Places) -> Self {
        Self { id: id.to_owned(), slot, ending, ..Self::default() }
    }

    /// Returns the remaining duty when the member has lost its Lease.
    #[must_use]
    pub fn expired(&self) -> Self {
        Self { ending: self.ending.or(&self.active).or(&self.draining), ..Self::default() }
    }

    /// Records the assignment; none is one that gives it nothing.
    pub fn observe(&mut self, assignment: Option<&Assignment>) {
        if self.seen.as_ref() == assignment {
            return;
        }
        self.seen = assignment.cloned();
        self.mine = assignment.map(|assignment| assignment.places_of(&self.id, self.slot)).unwrap_or_default();
        // What comes back before it has been drained is drained nevertheless.
        self.draining = self.draining.or(&self.active.without(&self.mine));
        self.active = self.active.and(&self.mine);
        self.loading.values_mut().for_each(|places| *places = places.and(&self.mine));
        self.epoch = assignment.map_or(self.epoch, |assignment| assignment.epoch);
    }

    /// Returns the places in which it starts work.
    #[must_use]
    pub fn active(&self) -> &Places {
        &self.active
    }

    /// Returns the places in which running work ends.
    #[must_use]
    pub fn draining(&self) -> &Places {
        &self.draining
    }

    /// Returns the places that the assignment gives it.
    #[must_use]
    pub fn mine(&self) -> &Places {
        &self.mine
    }

    /// Returns the places in which work runs, or will run when the caches have been read anew.
    #[must_use]
    pub fn cached(&self) -> Places {
        self.mine.or(&self.draining).or(&self.ending)
    }

    /// Nothing writes any more in these places.
    pub fn drained(&mut self, places: &Places) {
        self.draining = self.draining.without(places);
        self.ending = self.ending.or(places);
    }

    /// Returns the places in which work that began before a loss may still run.
    #[must_use]
    pub fn ending(&self) -> &Places {
        &self.ending
    }

    /// Work runs in these places only.
    pub fn runs_in(&mut self, busy: &Places) {
        self.ending = self.ending.and(busy);
    }

    /// The last epoch on whose losses it does not act.
    pub fn acknowledged(&mut self) -> u64 {
        if self.draining.is_empty() {
            self.acknowledged = self.epoch;
        }
        self.acknowledged
    }

    /// Whether a member waits for the acknowledgement of another epoch than this one.
    #[must_use]
    pub fn is_awaited(&self, acknowledged: u64) -> bool {
        let ranges = self.seen.iter().flat_map(|assignment| &assignment.ranges);
        let mut formers = ranges.flat_map(|range| &range.from);
        formers.any(|former| former.member.is(&self.id, self.slot) && !is_acknowledged(former.epoch, acknowledged))
    }

    /// Begins to take over what it has been given, if all that owned it before have stopped. Returns whether there is
    /// any: then the reading of this number has to begin. What the former owners wrote may be missing in the caches.
    pub fn begin_loading(&mut self, reading: u64, has_stopped: impl Fn(&Former) -> bool) -> bool {
        if self.active == self.mine {
            return false;
        }
        let ranges = self.seen.iter().flat_map(Assignment::spans);
        let free =
            ranges.filter(|(_, range)| range.owner.is(&self.id, self.slot) && range.from.iter().all(&has_stopped));
        let free = Places::of(free.map(|(span, _)| span));
        let loading = self.loading.values().fold(Places::default(), |all, places| all.or(places));
        let occupied = self.active.or(&self.draining).or(&self.ending);
        let gained = free.without(&occupied).without(&loading);
        let begins = !gained.is_empty();
        if begins {
            self.loading.insert(reading, gained);
        }
        begins
    }

    /// The caches show what was there when a reading began. Returns where it acts from now on.
    pub fn loaded(&mut self, reading: u64) -> Places {
        let gained = self.loading.remove(&reading).unwrap_or_default();
        self.active = self.active.or(&gained);
        gained
    }
}

#[cfg(test)]
mod tests;

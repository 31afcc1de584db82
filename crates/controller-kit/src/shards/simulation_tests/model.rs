//! Processes of a simulated cluster, and what happens to them.

use std::{collections::BTreeMap, time::Instant};

use super::super::{member::Record, replica::Replica};
use crate::shards::{LeaseAnswer, LeaseRequest, LeaseTarget};

pub(super) const NAMESPACES: [&str; 6] = ["team-a", "team-b", "prod", "default", "inference", "x"];

/// SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[derive(Debug, Clone)]
pub(super) enum Event {
    Tick,
    Shown(LeaseTarget, Option<Record>),
    Arrives(LeaseRequest, Instant, u64),
    Answered(LeaseTarget, Instant, u64, LeaseAnswer),
    WorkEnds(usize),
    Ready,
    Read(u64),
    Disturb(Disturbance),
    Resume,
    Start,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Disturbance {
    Kill,
    Stop,
    Pause(u64),
    HangingWatches(u64),
    Outage(u64),
    Deletion(usize),
}

/// A simulated process.
pub(super) struct Process {
    pub(super) replica: Replica,
    pub(super) life: u64,
    pub(super) alive: bool,
    pub(super) stopping: bool,
    pub(super) paused_until: u64,
    pub(super) hangs_until: u64,
    /// Local clock: start, and thousandths of a real ms that pass in one.
    pub(super) offset: u64,
    pub(super) rate: u64,
    /// Delivery time of the last watch event of each Lease: events come in order.
    pub(super) shown: BTreeMap<LeaseTarget, u64>,
    /// Requests whose answers have not come, by number.
    pub(super) open: BTreeMap<LeaseTarget, u64>,
    pub(super) running: [u64; NAMESPACES.len()],
}

/// Result of a schedule.
pub struct Outcome {
    pub fault: Result<(), String>,
    pub gains: u64,
    pub longest_without_owner: u64,
    pub log: Vec<String>,
}

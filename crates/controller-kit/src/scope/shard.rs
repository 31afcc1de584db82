//! In which namespaces one of several replicas acts, and what still runs there.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use tokio::sync::Notify;

use crate::{
    places::{Places, Span, place},
    store::Share,
    sync::locked,
};

/// The shard of a process. Cheap to clone; clones share it. A new one has no place.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shard {
    state: Arc<Mutex<ShardState>>,
    cached: Share,
    ended: Arc<Notify>,
}

#[derive(Debug, Default)]
struct ShardState {
    /// Places in which work starts.
    active: Places,
    /// Places in which running work may still write.
    draining: Places,
    /// Number of reconciles and of writes under way, by place.
    reconciles: HashMap<u64, usize>,
    writes: HashMap<u64, usize>,
}

/// Kind of work that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShardWork {
    /// A reconcile, and what else goes on between requests.
    Reconcile,
    /// A request.
    Write,
}

/// Work in a namespace that has not ended.
#[derive(Debug)]
pub struct Permit {
    shard: Shard,
    work: ShardWork,
    place: u64,
}

impl Shard {
    /// Sets where work starts, and where it ends.
    pub(crate) fn assign(&self, active: &Places, draining: &Places) {
        let mut state = locked(&self.state);
        (state.active, state.draining) = (active.clone(), draining.clone());
    }

    /// The namespaces whose objects the caches keep.
    pub(crate) fn cached(&self) -> &Share {
        &self.cached
    }

    /// Closes places to work that runs, unless some does. Without patience, reconciles are not waited for: the next
    /// write of one is refused. Writes that were sent are always waited for.
    pub(crate) fn close(&self, places: &Places, is_patient: bool) -> bool {
        let mut state = locked(&self.state);
        if !is_patient {
            state.draining = state.draining.without(places);
        }
        let runs = |count: &HashMap<u64, usize>| count.keys().any(|place| places.contains(*place));
        let is_busy = runs(&state.writes) || is_patient && runs(&state.reconciles);
        if !is_busy {
            state.draining = state.draining.without(places);
        }
        !is_busy
    }

    /// Returns the places in which work runs.
    pub(crate) fn busy(&self) -> Places {
        let state = locked(&self.state);
        let running = state.reconciles.keys().chain(state.writes.keys());
        Places::of(running.map(|place| Span { first: *place, last: *place }))
    }

    /// Returns when some work has ended since the last call.
    pub(crate) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Whether work may start in a namespace.
    pub(super) fn contains(&self, namespace: &str) -> bool {
        locked(&self.state).active.contains(place(namespace))
    }

    /// Counts work that begins; none if it may not.
    pub(super) fn begin(&self, namespace: &str, work: ShardWork) -> Option<Permit> {
        let (place, mut state) = (place(namespace), locked(&self.state));
        let ends = work == ShardWork::Write && state.draining.contains(place);
        if !ends && !state.active.contains(place) {
            return None;
        }
        *state.count(work).entry(place).or_default() += 1;
        Some(Permit { shard: self.clone(), work, place })
    }
}

impl ShardState {
    fn count(&mut self, work: ShardWork) -> &mut HashMap<u64, usize> {
        match work {
            ShardWork::Reconcile => &mut self.reconciles,
            ShardWork::Write => &mut self.writes,
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = locked(&self.shard.state);
        let counts = state.count(self.work);
        if let Some(count) = counts.get_mut(&self.place) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.place);
            }
        }
        drop(state);
        self.shard.ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_namespace_is_closed_when_its_work_has_ended() {
        let (shard, all, none) = (Shard::default(), Places::of([Span::ALL]), Places::default());
        assert!(shard.begin("team", ShardWork::Reconcile).is_none(), "a new process has no place");
        shard.assign(&all, &none);
        let reconcile = shard.begin("team", ShardWork::Reconcile).unwrap();
        shard.assign(&none, &all);
        assert!(shard.begin("team", ShardWork::Reconcile).is_none(), "nothing starts in what is lost");
        let write = shard.begin("team", ShardWork::Write).expect("what runs goes on");
        drop(write);
        assert!(!shard.close(&all, true) && shard.busy().contains(place("team")), "a reconcile runs");
        drop(reconcile);
        let write = shard.begin("team", ShardWork::Write).unwrap();
        assert!(!shard.close(&all, false), "a request is under way");
        assert!(shard.begin("team", ShardWork::Write).is_none(), "no patience, no further request");
        drop(write);
        assert!(shard.close(&all, true));
        assert!(shard.begin("team", ShardWork::Write).is_none());
        assert!(shard.busy().is_empty());
    }
}

//! Limits reads of manifests: a few at a time, one of each namespace, and after a failure only after a pause.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use controller_kit::{backoff::Backoff, store::Key};

/// Most reads at a time.
const MAX_READS: usize = 4;
/// Pause of a component whose turn has not come.
const NEXT_TURN: Duration = Duration::from_secs(2);

/// Reads in progress, and pauses after failures.
#[derive(Debug, Default)]
pub struct ReadSlots(Mutex<ReadState>);

#[derive(Debug, Default)]
struct ReadState {
    /// Namespaces with a read in progress.
    reading: BTreeSet<String>,
    backoff: Backoff<Key>,
    /// Generation that failed, and the end of the pause.
    pauses: HashMap<Key, (Option<i64>, Instant)>,
}

/// A read in progress.
#[derive(Debug)]
pub struct ReadSlot<'a> {
    slots: &'a ReadSlots,
    namespace: String,
}

impl Drop for ReadSlot<'_> {
    fn drop(&mut self) {
        self.slots.state().reading.remove(&self.namespace);
    }
}

impl ReadSlots {
    /// A slot for a read of this generation.
    ///
    /// # Errors
    /// How long to wait for one.
    pub fn try_acquire(&self, key: &Key, generation: Option<i64>, now: Instant) -> Result<ReadSlot<'_>, Duration> {
        let mut state = self.state();
        if let Some((_, end)) = state.pauses.get(key).filter(|(failed, end)| *failed == generation && *end > now) {
            return Err(end.duration_since(now));
        }
        if state.reading.len() >= MAX_READS || !state.reading.insert(key.namespace.clone()) {
            return Err(NEXT_TURN);
        }
        Ok(ReadSlot { slots: self, namespace: key.namespace.clone() })
    }

    /// Records a failure, and returns the pause after it.
    pub fn failed(&self, key: &Key, generation: Option<i64>, now: Instant) -> Duration {
        let mut state = self.state();
        let pause = state.backoff.next(key);
        state.pauses.insert(key.clone(), (generation, now + pause));
        pause
    }

    /// Forgets the failures of a component that was read, or is gone.
    pub fn clear(&self, key: &Key) {
        let mut state = self.state();
        state.backoff.clear(key);
        state.pauses.remove(key);
    }

    fn state(&self) -> MutexGuard<'_, ReadState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

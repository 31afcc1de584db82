//! Reads all caches of the process anew, for a process that takes over what another one has written: its caches are
//! complete, but may lag behind the last writes of the other.

use std::{
    sync::{
        Arc, LazyLock, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use kube::runtime::utils::Backoff;
use tokio::sync::watch;

/// Number of the newest reading. There is one set of caches in a process.
static DESIRED: LazyLock<watch::Sender<u64>> = LazyLock::new(|| watch::Sender::new(0));
/// Changes when a cache has completed a reading.
static COMPLETED: LazyLock<watch::Sender<u64>> = LazyLock::new(|| watch::Sender::new(0));
/// The newest reading that each cache has completed.
static CACHES: Mutex<Vec<Weak<AtomicU64>>> = Mutex::new(Vec::new());

/// Returns when all caches show a state that is not older than this call.
pub(crate) async fn read_anew() {
    let mut completed = COMPLETED.subscribe();
    let mut number = 0;
    DESIRED.send_modify(|desired| {
        *desired += 1;
        number = *desired;
    });
    // Fails only when the sender is gone, and it is static.
    let _ = completed.wait_for(|_| all_have_read(number)).await;
}

fn all_have_read(number: u64) -> bool {
    let mut caches = CACHES.lock().unwrap_or_else(PoisonError::into_inner);
    caches.retain(|cache| cache.strong_count() > 0);
    caches.iter().filter_map(Weak::upgrade).all(|cache| cache.load(Ordering::Acquire) >= number)
}

/// The part of one cache.
#[derive(Debug)]
pub(super) struct Reader {
    desired: watch::Receiver<u64>,
    /// The reading that the present initial state belongs to.
    reading: u64,
    /// The initial state is complete, and its last event may not have been taken in.
    is_delivered: bool,
    completed: Arc<AtomicU64>,
}

impl Reader {
    pub(super) fn new() -> Self {
        let completed = Arc::<AtomicU64>::default();
        CACHES.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&completed));
        Self { desired: DESIRED.subscribe(), reading: 0, is_delivered: false, completed }
    }

    /// An initial state is about to be requested.
    pub(super) fn begin(&mut self) {
        self.reading = *self.desired.borrow_and_update();
    }

    /// The last event of the initial state is about to be delivered.
    pub(super) fn deliver(&mut self) {
        self.is_delivered = true;
    }

    /// All delivered events have been taken in.
    pub(super) fn taken_in(&mut self) {
        if std::mem::take(&mut self.is_delivered) {
            self.completed.store(self.reading, Ordering::Release);
            COMPLETED.send_modify(|number| *number += 1);
        }
    }

    /// Returns when a newer reading is requested than the present one.
    pub(super) fn is_desired(&self) -> impl Future<Output = ()> + Send + use<> {
        let (mut desired, reading) = (self.desired.clone(), self.reading);
        async move {
            // Fails only when the sender is gone, and it is static.
            let _ = desired.wait_for(|desired| *desired > reading).await;
        }
    }
}

impl Drop for Reader {
    /// What waits for this cache waits no longer.
    fn drop(&mut self) {
        self.completed.store(u64::MAX, Ordering::Release);
        COMPLETED.send_modify(|number| *number += 1);
    }
}

const FIRST: Duration = Duration::from_millis(400);

/// kube's own limit of 30 s would leave a controller blind for half a minute after a short outage. A handful of watches
/// that knock every five seconds are no load for an API server that comes up.
const LONGEST: Duration = Duration::from_secs(5);

/// 400 ms, doubling up to 5 s; the first pause again after the watch has worked. Endless.
#[derive(Debug)]
pub struct Pauses {
    next: Duration,
    longest: Duration,
}

impl Pauses {
    /// Always the first pause: for a watch on which more depends than on others, because to act on an old picture does
    /// harm.
    #[must_use]
    pub fn brisk() -> Self {
        Self { next: FIRST, longest: FIRST }
    }
}

impl Default for Pauses {
    fn default() -> Self {
        Self { next: FIRST, longest: LONGEST }
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        Some(pause)
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.next = FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_limit_and_start_over() {
        let mut pauses = Pauses::default();
        assert_eq!(pauses.next(), Some(FIRST));
        assert_eq!(pauses.next(), Some(FIRST * 2));
        assert_eq!(pauses.by_ref().nth(9), Some(LONGEST));
        pauses.reset();
        assert_eq!(pauses.next(), Some(FIRST));
    }
    #[test]
    fn brisk_pauses_do_not_grow() {
        assert!(Pauses::brisk().take(20).all(|pause| pause == FIRST));
    }
}

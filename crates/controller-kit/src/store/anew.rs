//! Repeated reads of all caches of the process.
//!
//! A process that takes over what another one has written reads its caches anew: they are complete, but may lag behind
//! the last writes of the other.

use std::sync::{
    Arc, LazyLock, Mutex, Weak,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::watch;

use crate::sync::locked;

/// Number of the newest reading. There is one set of caches in a process.
static REQUESTED: LazyLock<watch::Sender<u64>> = LazyLock::new(|| watch::Sender::new(0));
/// Changes when a cache has completed a reading.
static COMPLETED: LazyLock<watch::Sender<u64>> = LazyLock::new(|| watch::Sender::new(0));
/// The newest reading that each cache has completed.
static CACHES: Mutex<Vec<Weak<AtomicU64>>> = Mutex::new(Vec::new());

/// Returns when all caches show a state that is not older than this call.
pub(crate) async fn read_anew() {
    let mut completed = COMPLETED.subscribe();
    let mut number = 0;
    REQUESTED.send_modify(|requested| {
        *requested += 1;
        number = *requested;
    });
    // Fails only when the sender is gone, and it is static.
    let _ = completed.wait_for(|_| all_have_read(number)).await;
}

fn all_have_read(number: u64) -> bool {
    let mut caches = locked(&CACHES);
    caches.retain(|cache| cache.strong_count() > 0);
    caches.iter().filter_map(Weak::upgrade).all(|cache| cache.load(Ordering::Acquire) >= number)
}

/// The part of one cache.
#[derive(Debug)]
pub(super) struct Reader {
    requested: watch::Receiver<u64>,
    /// The reading that the present initial state belongs to.
    reading: u64,
    /// The initial state is complete, and its last event may not have been taken in.
    is_delivered: bool,
    completed: Arc<AtomicU64>,
}

impl Reader {
    pub(super) fn new() -> Self {
        let completed = Arc::<AtomicU64>::default();
        locked(&CACHES).push(Arc::downgrade(&completed));
        Self { requested: REQUESTED.subscribe(), reading: 0, is_delivered: false, completed }
    }

    /// An initial state is about to be requested.
    pub(super) fn begin(&mut self) {
        self.reading = *self.requested.borrow_and_update();
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
    pub(super) fn newer_requested(&self) -> impl Future<Output = ()> + Send + use<> {
        let (mut requested, reading) = (self.requested.clone(), self.reading);
        async move {
            // Fails only when the sender is gone, and it is static.
            let _ = requested.wait_for(|requested| *requested > reading).await;
        }
    }
}

impl Drop for Reader {
    /// Ends all waits for this cache.
    fn drop(&mut self) {
        self.completed.store(u64::MAX, Ordering::Release);
        COMPLETED.send_modify(|number| *number += 1);
    }
}

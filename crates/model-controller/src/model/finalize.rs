//! Deletion of a model: it waits until its adapter is unloaded, for a limited time.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use controller_kit::sync::locked;

/// Plans for a model that is deleted and has waited so long; `holders` is how many pods may still hold its adapter.
/// Returns the time after which to check again; `None` if it waits no longer, for the engines or past the timeout.
pub fn plan(holders: usize, waited: Duration, timeout: Duration) -> Option<Duration> {
    timeout.checked_sub(waited).filter(|rest| holders > 0 && !rest.is_zero())
}

/// Start times of the waits of deleted models, by uid, from the clock of this process.
#[derive(Debug, Default)]
pub struct ReleaseWaits(Mutex<HashMap<String, Instant>>);

impl ReleaseWaits {
    /// Returns the time that a model has waited.
    pub fn waited(&self, uid: &str) -> Duration {
        let mut since = locked(&self.0);
        since.entry(uid.to_owned()).or_insert_with(Instant::now).elapsed()
    }

    /// Forgets a model that was released.
    pub fn forget(&self, uid: &str) {
        locked(&self.0).remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Defect: a deletion could take as long as its requests; it must end, whatever engines do.
    #[test]
    fn a_release_ends() {
        let timeout = Duration::from_secs(30);
        assert_eq!(plan(0, Duration::ZERO, timeout), None);
        assert_eq!(plan(2, Duration::from_secs(10), timeout), Some(Duration::from_secs(20)));
        assert_eq!(plan(2, timeout, timeout), None);
        assert_eq!(plan(2, Duration::from_secs(99), timeout), None);
    }
}

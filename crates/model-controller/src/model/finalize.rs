//! Deletion of a model: it waits until its adapter is unloaded, for a limited time.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Next step for a model that is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// No engine holds its adapter any more.
    Done,
    /// Some engines keep it past the timeout.
    GiveUp,
    /// Engines are still unloading; check again after this time.
    Wait(Duration),
}

/// Plans for a model that waits since `waited`; `holders` is how many pods may still hold its adapter.
pub fn plan(holders: usize, waited: Duration, timeout: Duration) -> Release {
    match timeout.checked_sub(waited) {
        _ if holders == 0 => Release::Done,
        Some(rest) if !rest.is_zero() => Release::Wait(rest),
        _ => Release::GiveUp,
    }
}

/// Start times of the waits of deleted models, by uid, from the clock of this process.
#[derive(Debug, Default)]
pub struct Waits(Mutex<HashMap<String, Instant>>);

impl Waits {
    /// Returns the time that a model has waited.
    pub fn waited(&self, uid: &str) -> Duration {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.entry(uid.to_owned()).or_insert_with(Instant::now).elapsed()
    }

    /// Forgets a model that was released.
    pub fn forget(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Defect: a deletion could take as long as its requests; it must end, whatever engines do.
    #[test]
    fn a_release_ends() {
        let timeout = Duration::from_secs(30);
        assert_eq!(plan(0, Duration::ZERO, timeout), Release::Done);
        assert_eq!(plan(2, Duration::from_secs(10), timeout), Release::Wait(Duration::from_secs(20)));
        assert_eq!(plan(2, timeout, timeout), Release::GiveUp);
        assert_eq!(plan(2, Duration::from_secs(99), timeout), Release::GiveUp);
    }
}

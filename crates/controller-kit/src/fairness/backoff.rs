//! Delay before a key is tried again.

use std::{collections::HashMap, hash::Hash, time::Duration};

/// Delay after the first failure.
pub const FIRST: Duration = Duration::from_secs(1);

/// Longest delay.
pub const LONGEST: Duration = Duration::from_secs(300);

/// Exponential backoff per key. Only failures count; how often something triggers in between does not.
#[derive(Debug)]
pub struct Backoff<K> {
    failures: HashMap<K, u32>,
}

impl<K> Default for Backoff<K> {
    fn default() -> Self {
        Self { failures: HashMap::new() }
    }
}

impl<K: Eq + Hash + Clone> Backoff<K> {
    /// Records a failure and returns how long to wait: 1 s, 2 s, 4 s … up to [`LONGEST`].
    pub fn next(&mut self, key: &K) -> Duration {
        let failures = self.failures.entry(key.clone()).or_insert(0);
        let delay = FIRST.saturating_mul(1_u32.checked_shl(*failures).unwrap_or(u32::MAX)).min(LONGEST);
        *failures = failures.saturating_add(1);
        delay
    }

    /// Records a success, or that the key is gone.
    pub fn clear(&mut self, key: &K) {
        self.failures.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_limit_and_starts_again_after_a_success() {
        let mut backoff = Backoff::default();
        let seconds: Vec<u64> = (0..11).map(|_| backoff.next(&"a").as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(backoff.next(&"b").as_secs(), 1, "keys are independent");
        backoff.clear(&"a");
        assert_eq!(backoff.next(&"a").as_secs(), 1);
    }

    #[test]
    fn many_failures_do_not_overflow() {
        let mut backoff = Backoff::default();
        let last = (0..100).map(|_| backoff.next(&0)).last();
        assert_eq!(last, Some(LONGEST));
    }
}

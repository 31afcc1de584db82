//! How long a broken watch waits before it connects again.

use std::time::Duration;

use kube::runtime::utils::Backoff;

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

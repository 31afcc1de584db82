//! Pauses of a broken watch before it connects again.

use std::time::Duration;

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
    pub fn brisk() -> Self {
        Self { next: FIRST, longest: FIRST }
    }

    /// The next pause.
    pub fn next_pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause
    }

    /// Sets the next pause to the time that the API server requests.
    pub fn set(&mut self, pause: Duration) {
        self.next = pause;
    }

    /// The watch has worked.
    pub fn reset(&mut self) {
        self.next = FIRST;
    }
}

impl Default for Pauses {
    fn default() -> Self {
        Self { next: FIRST, longest: LONGEST }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_limit_and_start_over() {
        let mut pauses = Pauses::default();
        assert_eq!(pauses.next_pause(), FIRST);
        assert_eq!(pauses.next_pause(), FIRST * 2);
        assert_eq!((0..10).map(|_| pauses.next_pause()).last(), Some(LONGEST));
        pauses.set(LONGEST * 2);
        assert_eq!(pauses.next_pause(), LONGEST * 2);
        assert_eq!(pauses.next_pause(), LONGEST);
    }

    #[test]
    fn brisk_pauses_do_not_grow() {
        let mut pauses = Pauses::brisk();
        assert!((0..20).all(|_| pauses.next_pause() == FIRST));
    }
}

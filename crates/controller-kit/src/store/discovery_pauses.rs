//! Repeated requests to the API server for APIs that it did not serve.

use std::time::Duration;

use tokio::time::Instant;

/// Validity of an answer for what is needed, and the shortest pause between two requests.
pub(super) const SHORTEST: Duration = Duration::from_secs(10);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(5 * 60);
/// Time for which an API counts as needed after an object that needs it was reconciled.
const NEEDED_FOR: Duration = LONGEST;

/// Pauses between requests of one process for the list of API groups: 10 s, doubling to five minutes. The first one
/// again when the groups have changed, and as long as an object needs an API that is not served.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiscoveryPauses {
    /// Time of the last request that was answered.
    last: Option<Instant>,
    pause: Duration,
    /// Hash of the groups in the last answer.
    groups: u64,
    /// Time of the request whose answer differed from the one before.
    changed: Option<Instant>,
    needed: Option<Instant>,
}

impl Default for DiscoveryPauses {
    fn default() -> Self {
        Self { last: None, pause: SHORTEST, groups: 0, changed: None, needed: None }
    }
}

impl DiscoveryPauses {
    /// Records an answer to a request that was made at `at`, by a hash of its groups. Returns whether the next query of
    /// others is due earlier by that.
    pub(super) fn answered(&mut self, at: Instant, groups: u64) -> bool {
        if self.last.is_some_and(|last| at <= last) {
            return false;
        }
        let changed = self.last.is_some() && groups != self.groups;
        self.groups = groups;
        let is_needed = self.needed.is_some_and(|needed| at < needed + NEEDED_FOR);
        self.pause = match self.last {
            Some(_) if !changed && !is_needed => (self.pause * 2).min(LONGEST),
            _ => SHORTEST,
        };
        self.last = Some(at);
        if changed {
            self.changed = Some(at);
        }
        changed
    }

    /// Records that an object needs an API that is not served. Returns whether the next query is due earlier by that.
    pub(super) fn needed(&mut self, now: Instant) -> bool {
        self.needed = Some(now);
        let is_earlier = self.pause > SHORTEST;
        self.pause = SHORTEST;
        is_earlier
    }

    /// Returns the time of the next query, after an answer to a request of `seen`.
    pub(super) fn due(&self, seen: Instant) -> Instant {
        match self.changed {
            Some(changed) if changed > seen => changed,
            _ => self.last.map_or(seen, |last| last.max(seen)) + self.pause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    /// Queries whenever it is due until `end`, without a change. Gives the pauses.
    fn pauses(discovery: &mut DiscoveryPauses, mut seen: Instant, end: Instant) -> Vec<u64> {
        let mut pauses = Vec::new();
        while discovery.due(seen) <= end {
            let due = discovery.due(seen);
            pauses.push((due - seen).as_secs());
            discovery.answered(due, 1);
            seen = due;
        }
        pauses
    }

    #[test]
    fn pauses_double_to_five_minutes() {
        let (begin, mut discovery) = (Instant::now(), DiscoveryPauses::default());
        discovery.answered(begin, 1);
        let all = pauses(&mut discovery, begin, begin + seconds(3600));
        assert_eq!(all[..7], [10, 20, 40, 80, 160, 300, 300]);
        assert!(all.len() < 18, "{} requests in an hour", all.len());
    }

    #[test]
    fn they_start_over_when_the_groups_change_and_all_hear_of_it() {
        let (begin, mut discovery) = (Instant::now(), DiscoveryPauses::default());
        discovery.answered(begin, 1);
        pauses(&mut discovery, begin, begin + seconds(3600));
        let at = begin + seconds(4000);
        assert!(discovery.answered(at, 2));
        assert!(!discovery.answered(at, 2), "the same answer, for another kind");
        assert_eq!(discovery.due(begin), at, "who has not seen it acts on it at once");
        assert_eq!(discovery.due(at), at + SHORTEST);
    }

    #[test]
    fn what_is_needed_is_queried_at_once_and_then_every_ten_seconds() {
        let (begin, mut discovery) = (Instant::now(), DiscoveryPauses::default());
        discovery.answered(begin, 1);
        pauses(&mut discovery, begin, begin + seconds(3600));
        let seen = discovery.last.unwrap();
        let now = seen + seconds(100);
        assert!(discovery.needed(now), "a query is due");
        assert!(discovery.due(seen) <= now);
        discovery.answered(now, 1);
        assert!(!discovery.needed(now + seconds(1)), "it is queried for already");
        let all = pauses(&mut discovery, now, now + seconds(280));
        assert!(all.iter().all(|&pause| pause == 10), "{all:?}");
        // Nothing needs it any more.
        let since = discovery.last.unwrap();
        let all = pauses(&mut discovery, since, since + seconds(3600));
        assert_eq!(all.last(), Some(&300));
    }

    /// Other requests in between: their answers are as good.
    #[test]
    fn an_answer_to_another_puts_a_query_off() {
        let (begin, mut discovery) = (Instant::now(), DiscoveryPauses::default());
        discovery.answered(begin, 1);
        discovery.answered(begin + seconds(8), 1);
        assert_eq!(discovery.due(begin), begin + seconds(8) + SHORTEST * 2);
    }
}

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
pub(super) struct Looks {
    /// Time of the last request that was answered.
    last: Option<Instant>,
    pause: Duration,
    /// Hash of the groups in the last answer.
    groups: u64,
    /// Time of the request whose answer differed from the one before.
    changed: Option<Instant>,
    needed: Option<Instant>,
}

impl Default for Looks {
    fn default() -> Self {
        Self { last: None, pause: SHORTEST, groups: 0, changed: None, needed: None }
    }
}

impl Looks {
    /// Records an answer to a request that was made at `at`, by a hash of its groups. Returns whether the next look of
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

    /// Records that an object needs an API that is not served. Returns whether the next look is due earlier by that.
    pub(super) fn needed(&mut self, now: Instant) -> bool {
        self.needed = Some(now);
        let is_earlier = self.pause > SHORTEST;
        self.pause = SHORTEST;
        is_earlier
    }

    /// Returns the time of the next look, after an answer to a request of `seen`.
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

    /// Looks whenever it is due until `end`, without a change. Gives the pauses.
    fn pauses(looks: &mut Looks, mut seen: Instant, end: Instant) -> Vec<u64> {
        let mut pauses = Vec::new();
        while looks.due(seen) <= end {
            let due = looks.due(seen);
            pauses.push((due - seen).as_secs());
            looks.answered(due, 1);
            seen = due;
        }
        pauses
    }

    #[test]
    fn pauses_double_to_five_minutes() {
        let (begin, mut looks) = (Instant::now(), Looks::default());
        looks.answered(begin, 1);
        let all = pauses(&mut looks, begin, begin + seconds(3600));
        assert_eq!(all[..7], [10, 20, 40, 80, 160, 300, 300]);
        assert!(all.len() < 18, "{} requests in an hour", all.len());
    }

    #[test]
    fn they_start_over_when_the_groups_change_and_all_hear_of_it() {
        let (begin, mut looks) = (Instant::now(), Looks::default());
        looks.answered(begin, 1);
        pauses(&mut looks, begin, begin + seconds(3600));
        let at = begin + seconds(4000);
        assert!(looks.answered(at, 2));
        assert!(!looks.answered(at, 2), "the same answer, for another who asked");
        assert_eq!(looks.due(begin), at, "who has not seen it acts on it at once");
        assert_eq!(looks.due(at), at + SHORTEST);
    }

    #[test]
    fn what_is_needed_is_looked_for_at_once_and_then_every_ten_seconds() {
        let (begin, mut looks) = (Instant::now(), Looks::default());
        looks.answered(begin, 1);
        pauses(&mut looks, begin, begin + seconds(3600));
        let seen = looks.last.unwrap();
        let now = seen + seconds(100);
        assert!(looks.needed(now), "a look is due");
        assert!(looks.due(seen) <= now);
        looks.answered(now, 1);
        assert!(!looks.needed(now + seconds(1)), "it is looked for already");
        let all = pauses(&mut looks, now, now + seconds(280));
        assert!(all.iter().all(|&pause| pause == 10), "{all:?}");
        // Nothing needs it any more.
        let since = looks.last.unwrap();
        let all = pauses(&mut looks, since, since + seconds(3600));
        assert_eq!(all.last(), Some(&300));
    }

    /// Others may ask in between: their answers are as good.
    #[test]
    fn an_answer_to_another_puts_a_look_off() {
        let (begin, mut looks) = (Instant::now(), Looks::default());
        looks.answered(begin, 1);
        looks.answered(begin + seconds(8), 1);
        assert_eq!(looks.due(begin), begin + seconds(8) + SHORTEST * 2);
    }
}

//! Observations of one Lease by a process, and their consequences by its own clock.

use std::time::{Duration, Instant};

use super::assignment::{Assignment, Former, Member, is_acknowledged};
use crate::lease::{LEASE_DURATION, RENEW_DEADLINE};

/// Time after the end of a Lease until its holder counts as gone: requests that it had sent have ended by then.
pub const MARGIN: Duration = Duration::from_secs(2);

/// A Lease that is held changes every 5 s. After this long without a change it is read: a watch that hangs is as silent
/// as a member that is gone.
const SILENCE: Duration = Duration::from_secs(8);

/// Time between two reads of one Lease.
const READ_AGAIN: Duration = Duration::from_secs(3);

/// Content of a Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The holder; empty if there is none.
    pub holder: String,
    /// The resource version.
    pub version: u64,
    /// The last epoch that the holder has acknowledged. Of member Leases.
    pub acknowledged: u64,
    /// Owners of the places. Of the elected Lease.
    pub assignment: Option<Assignment>,
}

impl Record {
    /// The epoch of the assignment, or the one that the holder has acknowledged.
    pub fn epoch(&self) -> u64 {
        self.assignment.as_ref().map_or(self.acknowledged, |assignment| assignment.epoch)
    }

    /// The assignment, unless another process than the one that wrote it has taken the Lease.
    pub fn valid_assignment(&self) -> Option<&Assignment> {
        let valid = |assignment: &&Assignment| self.holder.is_empty() || self.holder == assignment.by;
        self.assignment.as_ref().filter(valid)
    }
}

/// A Lease as it was seen last.
#[derive(Debug)]
pub struct Seen {
    record: Option<Record>,
    /// Since when it has been as it is.
    since: Option<Instant>,
    /// Since when it does not exist. What was seen before counts until it expires: its holder may not have noticed.
    missing_since: Option<Instant>,
    /// It has to be read before it can be written.
    is_doubtful: bool,
    /// Time at which the last read began.
    read_at: Option<Instant>,
    /// Time at which the last read began that was answered.
    answered_read: Option<Instant>,
}

impl Default for Seen {
    fn default() -> Self {
        Self { record: None, since: None, missing_since: None, is_doubtful: true, read_at: None, answered_read: None }
    }
}

impl Seen {
    /// Records what a watch has shown, or a write has made of it. Older versions are late.
    pub fn observe(&mut self, record: Option<Record>, now: Instant) {
        let Some(record) = record else {
            self.missing_since.get_or_insert(now);
            self.since.get_or_insert(now);
            return;
        };
        let known = self.record.as_ref().map(|known| known.version);
        if known.is_some_and(|known| record.version < known) {
            return;
        }
        self.missing_since = None;
        if known != Some(record.version) {
            self.since = Some(now);
            self.record = Some(record);
        }
    }

    /// Records the answer to a read that was sent at `started`.
    pub fn read(&mut self, record: Option<Record>, started: Instant, now: Instant) {
        let is_newer = self.since.is_none_or(|since| since <= started);
        self.is_doubtful = false;
        self.answered_read = self.answered_read.max(Some(started));
        // Versions go back where an API server is restored from a backup.
        if is_newer
            && self.record.as_ref().zip(record.as_ref()).is_some_and(|(known, read)| read.version < known.version)
        {
            self.record = None;
        }
        if is_newer || record.is_some() {
            self.observe(record, now);
        }
    }

    /// A write has failed, or its outcome is unknown.
    pub fn doubt(&mut self) {
        self.is_doubtful = true;
    }

    /// Whether anything is known.
    pub fn is_known(&self) -> bool {
        self.since.is_some()
    }

    /// Whether it has to be read before it can be written.
    pub fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

    /// The record, whether or not the Lease still exists.
    pub fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }

    /// The assignment in it, whether or not the Lease still exists.
    pub fn assignment(&self) -> Option<&Assignment> {
        self.record.as_ref()?.assignment.as_ref()
    }

    /// The version that a write has to replace; none if it has to create the Lease.
    pub fn version(&self) -> Option<u64> {
        self.record.as_ref().filter(|_| self.missing_since.is_none()).map(|record| record.version)
    }

    /// Since when it has been known not to exist; none if it exists.
    pub fn missing_since(&self) -> Option<Instant> {
        self.missing_since
    }

    /// The holder; none if the Lease is free.
    pub fn holder(&self) -> Option<&str> {
        self.record.as_ref().map(|record| record.holder.as_str()).filter(|holder| !holder.is_empty())
    }

    /// Whether a member Lease can be taken: it is not held, or was not renewed while the API server answered, since
    /// `heard_since`.
    pub fn is_free(&self, heard_since: Instant, now: Instant) -> bool {
        self.is_known() && (self.holder().is_none() || self.has_expired(heard_since, now))
    }

    /// Whether nothing has been written to it, while the API server answered, for so long that a holder is gone.
    pub fn has_expired(&self, heard_since: Instant, now: Instant) -> bool {
        // A holder may have renewed a Lease until it was deleted.
        let since = self.since.max(self.missing_since).map(|since| since.max(heard_since));
        since.is_some_and(|since| now.saturating_duration_since(since) >= LEASE_DURATION + MARGIN)
    }

    /// Whether the holder has not renewed it for this long.
    pub fn is_silent(&self, duration: Duration, now: Instant) -> bool {
        self.holder().is_some() && self.since.is_some_and(|since| now.saturating_duration_since(since) >= duration)
    }

    /// Whether a read was answered that began at `since` or later.
    pub fn was_read(&self, since: Instant) -> bool {
        self.answered_read >= Some(since)
    }

    /// Whether it is to be read now. It must have been read since `since`, if that is set.
    pub fn begin_read(&mut self, since: Option<Instant>, now: Instant) -> bool {
        let due = self.is_doubtful || self.is_silent(SILENCE, now) || since.is_some_and(|since| !self.was_read(since));
        let paced = self.read_at.is_none_or(|at| now.saturating_duration_since(at) >= READ_AGAIN || Some(at) < since);
        if due && paced {
            self.read_at = Some(now);
        }
        due && paced
    }

    /// Reads it at the next opportunity.
    pub fn read_soon(&mut self) {
        (self.is_doubtful, self.read_at) = (true, None);
    }

    /// Whether this member is known to hold the Lease no longer.
    pub fn has_lost(&self, member: &Member) -> bool {
        self.record.as_ref().is_some_and(|record| record.version > member.seen && record.holder != member.id)
    }

    /// Whether a member has stopped acting on what an epoch took away.
    pub fn has_stopped(&self, former: &Former) -> bool {
        let acknowledged =
            |record: &Record| record.holder == former.member.id && is_acknowledged(former.epoch, record.acknowledged);
        self.has_lost(&former.member) || self.record.as_ref().is_some_and(acknowledged)
    }
}

/// The time in which the API server has answered without a long pause.
#[derive(Debug, Default)]
pub struct Heard {
    /// The first and the last answer of it.
    answers: Option<(Instant, Instant)>,
}

impl Heard {
    /// Records an answer.
    pub fn hear(&mut self, now: Instant) {
        self.answers = Some((self.since(now), now));
    }

    /// Since when the API server has answered. Members may have been kept from renewing before.
    pub fn since(&self, now: Instant) -> Instant {
        let unbroken = self.answers.filter(|(_, last)| now.saturating_duration_since(*last) < RENEW_DEADLINE);
        unbroken.map_or(now, |(since, _)| since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(holder: &str, version: u64, acknowledged: u64) -> Record {
        Record { holder: holder.to_owned(), version, acknowledged, assignment: None }
    }

    fn seen(holder: &str, version: u64, now: Instant) -> Seen {
        let mut seen = Seen::default();
        seen.read(Some(record(holder, version, 0)), now, now);
        seen
    }

    #[test]
    fn a_member_that_does_not_renew_is_gone_after_the_lease_and_the_margin() {
        let start = Instant::now();
        let seen = seen("a", 1, start);
        let end = start + LEASE_DURATION + MARGIN;
        assert!(!seen.is_free(start, end - Duration::from_millis(1)));
        assert!(seen.is_free(start, end));
        let later = start + Duration::from_secs(10);
        assert!(!seen.is_free(later, end), "the API server did not answer before");
    }

    #[test]
    fn a_deleted_lease_belongs_to_its_holder_until_it_expires() {
        let start = Instant::now();
        let mut seen = seen("a", 1, start);
        seen.observe(None, start + Duration::from_secs(3));
        assert_eq!((seen.holder(), seen.version()), (Some("a"), None));
        assert!(!seen.is_free(start, start + Duration::from_secs(19)));
        assert!(seen.is_free(start, start + Duration::from_secs(20)), "17 s after the deletion");
    }

    #[test]
    fn late_events_change_nothing() {
        let start = Instant::now();
        let mut seen = seen("a", 5, start);
        seen.observe(Some(record("", 4, 0)), start);
        assert_eq!(seen.holder(), Some("a"));
    }

    #[test]
    fn a_former_owner_has_stopped_when_it_says_so_or_has_lost_its_lease() {
        let former = Former { member: Member { id: "a".to_owned(), slot: 0, seen: 10 }, epoch: 3 };
        for (record, stopped) in [
            (record("a", 11, 2), false),
            (record("a", 11, 3), true),
            (record("a", 11, 4 + (1 << 24)), false),
            (record("", 11, 0), true),
            (record("b", 12, 9), true),
            (record("", 9, 0), false),
            (record("b", 9, 9), false),
        ] {
            let mut seen = Seen::default();
            seen.observe(Some(record.clone()), Instant::now());
            assert_eq!(seen.has_stopped(&former), stopped, "{record:?}");
        }
    }

    #[test]
    fn an_assignment_of_another_holder_is_void() {
        let assignment = Assignment { epoch: 1, by: "a".to_owned(), ranges: Vec::new() };
        for (holder, valid) in [("a", true), ("", true), ("b", false)] {
            let record = Record { assignment: Some(assignment.clone()), ..record(holder, 1, 0) };
            assert_eq!(record.valid_assignment().is_some(), valid, "{holder:?}");
        }
    }
}

//! Who may act, from what was seen of the Lease and when: no I/O and no clock.

use std::time::{Duration, Instant};

use super::terms::{LEASE_DURATION, RENEW_DEADLINE};

/// What a Lease says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// The holder; empty if there is none.
    pub(super) holder: String,
    /// How long it holds without a renewal.
    pub(super) duration: Duration,
    /// The version of the object; every renewal changes it.
    pub(super) resource_version: String,
    /// How often the holder has changed.
    pub(super) transitions: i32,
}

/// What to do about the lease now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// There is none: create it.
    Create,
    /// It is free or expired: take it over.
    Take,
    /// It is ours: renew it.
    Renew,
    /// Another replica holds it.
    Wait,
}

/// One replica's view of the election.
#[derive(Debug)]
pub(super) struct Elector {
    identity: String,
    seen: Option<(Record, Instant)>,
    renewed: Option<Instant>,
}

impl Elector {
    pub(super) fn new(identity: String) -> Self {
        Self { identity, seen: None, renewed: None }
    }

    /// Records the lease as it is at `now`; returns what to do about it.
    pub(super) fn observe(&mut self, record: Option<Record>, now: Instant) -> Step {
        let Some(record) = record else {
            self.seen = None;
            return Step::Create;
        };
        let unchanged_since = match &self.seen {
            Some((seen, since)) if *seen == record => *since,
            _ => now,
        };
        let ours = record.holder == self.identity;
        let free = record.holder.is_empty() || now.duration_since(unchanged_since) >= record.duration;
        self.seen = Some((record, unchanged_since));
        match (ours, free) {
            (true, _) => Step::Renew,
            (false, true) => Step::Take,
            (false, false) => Step::Wait,
        }
    }

    /// The same for what a watch shows, which may be older than what was read: that changes nothing. What is to be done
    /// is done on a read.
    pub(super) fn observe_newer(&mut self, record: Option<Record>, now: Instant) -> Step {
        let version = |record: &Record| record.resource_version.parse::<u64>().ok();
        match (self.last().and_then(version), record.as_ref().and_then(version)) {
            (Some(last), Some(shown)) if shown < last => Step::Wait,
            _ => self.observe(record, now),
        }
    }

    /// A write that claims or renews the lease succeeded; it was started at `started`.
    pub(super) fn written(&mut self, started: Instant) {
        self.renewed = Some(started);
    }

    /// Whether this replica may act at `now`.
    pub(super) fn leads(&self, now: Instant) -> bool {
        self.renewed.is_some_and(|renewed| now.duration_since(renewed) < RENEW_DEADLINE)
    }

    /// When this replica has to stop acting unless it renews before.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.renewed.map(|renewed| renewed + RENEW_DEADLINE)
    }

    /// How long the lease that was seen last holds without a renewal.
    pub(super) fn rest(&self, now: Instant) -> Option<Duration> {
        self.seen.as_ref().map(|(record, since)| (*since + record.duration).saturating_duration_since(now))
    }

    /// The record that was seen last.
    pub(super) fn last(&self) -> Option<&Record> {
        self.seen.as_ref().map(|(record, _)| record)
    }
}

const _: () = assert!(RENEW_DEADLINE.as_secs() < LEASE_DURATION.as_secs(), "a leader stops before others start");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(holder: &str, version: u32) -> Record {
        Record {
            holder: holder.into(),
            duration: LEASE_DURATION,
            resource_version: version.to_string(),
            transitions: 0,
        }
    }

    #[test]
    fn a_lease_that_does_not_change_is_taken_after_its_duration_by_our_clock() {
        let (mut elector, start) = (Elector::new("me".into()), Instant::now());
        assert_eq!(elector.observe(Some(record("other", 1)), start), Step::Wait);
        let almost = start + LEASE_DURATION - Duration::from_millis(1);
        assert_eq!(elector.observe(Some(record("other", 1)), almost), Step::Wait);
        assert_eq!(elector.observe(Some(record("other", 1)), start + LEASE_DURATION), Step::Take);
    }

    #[test]
    fn a_renewal_starts_the_wait_anew() {
        let (mut elector, start) = (Elector::new("me".into()), Instant::now());
        elector.observe(Some(record("other", 1)), start);
        assert_eq!(elector.observe(Some(record("other", 2)), start + LEASE_DURATION), Step::Wait);
        assert_eq!(elector.observe(Some(record("other", 2)), start + 2 * LEASE_DURATION), Step::Take);
    }

    #[test]
    fn a_released_lease_is_free_at_once_and_a_missing_one_is_made() {
        let (mut elector, now) = (Elector::new("me".into()), Instant::now());
        assert_eq!(elector.observe(Some(record("", 1)), now), Step::Take);
        assert_eq!(elector.observe(None, now), Step::Create);
        assert!(!elector.leads(now), "nothing was written yet");
    }

    #[test]
    fn a_leader_stops_at_its_deadline() {
        let (mut elector, now) = (Elector::new("me".into()), Instant::now());
        elector.written(now);
        assert!(elector.leads(now + RENEW_DEADLINE - Duration::from_millis(1)));
        assert!(!elector.leads(now + RENEW_DEADLINE));
    }

    #[test]
    fn a_watch_that_lags_does_not_start_the_wait_anew() {
        let (mut elector, start) = (Elector::new("me".into()), Instant::now());
        elector.observe(Some(record("other", 10)), start);
        let late = start + Duration::from_secs(8);
        assert_eq!(elector.observe_newer(Some(record("", 9)), late), Step::Wait, "free before it was taken");
        assert_eq!(elector.observe(Some(record("other", 10)), start + LEASE_DURATION), Step::Take);
        assert_eq!(elector.observe_newer(Some(record("", 11)), late), Step::Take);
    }

    /// The API server's side of a lease.
    #[derive(Default)]
    struct Server {
        lease: Option<Record>,
        version: u32,
    }

    impl Server {
        /// A write decided on `seen`; refused if the lease has changed since.
        fn write(&mut self, seen: Option<&str>, holder: &str) -> bool {
            if self.lease.as_ref().map(|lease| lease.resource_version.as_str()) != seen {
                return false;
            }
            self.version += 1;
            self.lease = Some(record(holder, self.version));
            true
        }
    }

    proptest! {
        /// Replicas that look, write and lose answers at any time, and whose clocks run alike: never do two act at
        /// once.
        #[test]
        fn two_replicas_never_lead_at_the_same_time(
            moves in prop::collection::vec((0_usize..3, 0_u64..6_000, any::<bool>(), 0_u64..3_000), 1..200),
        ) {
            let mut server = Server::default();
            let mut electors: Vec<_> = (0..3).map(|i| Elector::new(format!("replica-{i}"))).collect();
            let mut now = Instant::now();
            for (who, passes, answer_arrives, slow) in moves {
                now += Duration::from_millis(passes);
                let step = electors[who].observe(server.lease.clone(), now);
                let seen = server.lease.as_ref().map(|lease| lease.resource_version.clone());
                let started = now;
                now += Duration::from_millis(slow);
                if step != Step::Wait && server.write(seen.as_deref(), &format!("replica-{who}")) && answer_arrives {
                    electors[who].written(started);
                }
                let leaders = electors.iter().filter(|elector| elector.leads(now)).count();
                prop_assert!(leaders <= 1, "{leaders} leaders");
            }
        }
    }
}

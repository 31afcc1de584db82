//! Leader election: of several replicas of one controller, one acts.
//!
//! The lock is a `coordination.k8s.io` Lease named `<program>.<id>`. The rules are those of the Kubernetes client
//! library: expiry is judged by how long *we* have seen no change, never by the writer's clock; a leader stops acting
//! before others may start; writes carry the resource version that they were planned on.
//!
//! The replica that may act follows from what was seen of the Lease and when, without I/O and without a clock.

mod lock;

use std::{
    future::Future,
    time::{Duration, Instant},
};

use tracing::{info, warn};

use self::lock::Lock;
use crate::{
    context::Context,
    lease::{Ended, LEASE_DURATION, RENEW_DEADLINE, WORK_GRACE, lease_namespace},
    shards::until_ended,
};

/// Waits until this process leads, runs `work` while it does, and gives the lease back at the end. Without leader
/// election, `work` runs at once. A process that waits is ready: it can take over at any time.
///
/// # Errors
/// If the work fails, or leadership is lost.
pub async fn lead<F, Fut, E>(context: Context, work: F) -> Result<(), Ended<E>>
where
    F: FnOnce(Context) -> Fut,
    Fut: Future<Output = Result<(), E>>,
{
    let settings = &context.settings.leader_election;
    if !settings.enabled {
        return work(context).await.map_err(Ended::Work);
    }
    let mut lock = Lock::new(&context, &lease_namespace(settings, &context), &settings.lease_name(context.name));
    let mut elector = Elector::new(lock.identity.clone());
    let gate = context.readiness.gate("leader election");

    let elected = tokio::select! {
        () = lock.acquire(&mut elector, &gate) => true,
        () = context.shutdown.requested() => false,
    };
    if !elected {
        return Ok(());
    }
    info!(lease = %lock, identity = lock.identity, "leading");
    let was_shared = lock.was_shared;
    let working = async {
        if was_shared {
            until_ended(&context).await;
        }
        work(context.clone()).await
    };
    let outcome = tokio::select! {
        outcome = working => outcome.map_err(Ended::Work),
        () = lock.keep(&mut elector) => Err(Ended::Lost { lease: lock.to_string() }),
        () = context.shutdown.deadline(WORK_GRACE) => {
            warn!(seconds = WORK_GRACE.as_secs(), "did not stop in time; giving up what still runs");
            Ok(())
        }
    };
    if !matches!(outcome, Err(Ended::Lost { .. })) {
        match lock.release().await {
            Ok(()) => info!(lease = %lock, "gave the lease back"),
            Err(error) => warn!(lease = %lock, %error, "cannot give the lease back; it expires by itself"),
        }
    }
    outcome
}

/// Content of a Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LeaderRecord {
    /// The holder; empty if there is none.
    holder: String,
    /// Duration of the Lease without a renewal.
    duration: Duration,
    /// The version of the object; every renewal changes it.
    resource_version: String,
}

/// Next step for the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ElectorStep {
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
struct Elector {
    identity: String,
    seen: Option<(LeaderRecord, Instant)>,
    renewed: Option<Instant>,
}

impl Elector {
    fn new(identity: String) -> Self {
        Self { identity, seen: None, renewed: None }
    }

    /// Records the lease as it is at `now`; returns what to do about it.
    fn observe(&mut self, record: Option<LeaderRecord>, now: Instant) -> ElectorStep {
        let Some(record) = record else {
            self.seen = None;
            return ElectorStep::Create;
        };
        let unchanged_since = match &self.seen {
            Some((seen, since)) if *seen == record => *since,
            _ => now,
        };
        let ours = record.holder == self.identity;
        let free = record.holder.is_empty() || now.duration_since(unchanged_since) >= record.duration;
        self.seen = Some((record, unchanged_since));
        match (ours, free) {
            (true, _) => ElectorStep::Renew,
            (false, true) => ElectorStep::Take,
            (false, false) => ElectorStep::Wait,
        }
    }

    /// The same for what a watch shows, which may be older than what was read: that changes nothing. What is to be done
    /// is done on a read.
    fn observe_newer(&mut self, record: Option<LeaderRecord>, now: Instant) -> ElectorStep {
        let version = |record: &LeaderRecord| record.resource_version.parse::<u64>().ok();
        match (self.last().and_then(version), record.as_ref().and_then(version)) {
            (Some(last), Some(shown)) if shown < last => ElectorStep::Wait,
            _ => self.observe(record, now),
        }
    }

    /// A write that claims or renews the lease succeeded; it was started at `started`.
    fn written(&mut self, started: Instant) {
        self.renewed = Some(started);
    }

    /// Whether this replica may act at `now`.
    fn leads(&self, now: Instant) -> bool {
        self.renewed.is_some_and(|renewed| now.duration_since(renewed) < RENEW_DEADLINE)
    }

    /// Returns the time at which this replica must stop acting unless it renews before.
    fn deadline(&self) -> Option<Instant> {
        self.renewed.map(|renewed| renewed + RENEW_DEADLINE)
    }

    /// Returns the remaining duration of the lease that was seen last without a renewal.
    fn rest(&self, now: Instant) -> Option<Duration> {
        self.seen.as_ref().map(|(record, since)| (*since + record.duration).saturating_duration_since(now))
    }

    /// The record that was seen last.
    fn last(&self) -> Option<&LeaderRecord> {
        self.seen.as_ref().map(|(record, _)| record)
    }
}

const _: () = assert!(RENEW_DEADLINE.as_secs() < LEASE_DURATION.as_secs(), "a leader stops before others start");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(holder: &str, version: u32) -> LeaderRecord {
        LeaderRecord { holder: holder.into(), duration: LEASE_DURATION, resource_version: version.to_string() }
    }

    #[test]
    fn a_lease_that_does_not_change_is_taken_after_its_duration_by_our_clock() {
        let (mut elector, start) = (Elector::new("me".into()), Instant::now());
        assert_eq!(elector.observe(Some(record("other", 1)), start), ElectorStep::Wait);
        let almost = start + LEASE_DURATION - Duration::from_millis(1);
        assert_eq!(elector.observe(Some(record("other", 1)), almost), ElectorStep::Wait);
        assert_eq!(elector.observe(Some(record("other", 1)), start + LEASE_DURATION), ElectorStep::Take);
    }

    #[test]
    fn a_renewal_starts_the_wait_anew() {
        let (mut elector, start) = (Elector::new("me".into()), Instant::now());
        elector.observe(Some(record("other", 1)), start);
        assert_eq!(elector.observe(Some(record("other", 2)), start + LEASE_DURATION), ElectorStep::Wait);
        assert_eq!(elector.observe(Some(record("other", 2)), start + 2 * LEASE_DURATION), ElectorStep::Take);
    }

    #[test]
    fn a_released_lease_is_free_at_once_and_a_missing_one_is_made() {
        let (mut elector, now) = (Elector::new("me".into()), Instant::now());
        assert_eq!(elector.observe(Some(record("", 1)), now), ElectorStep::Take);
        assert_eq!(elector.observe(None, now), ElectorStep::Create);
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
        assert_eq!(elector.observe_newer(Some(record("", 9)), late), ElectorStep::Wait, "free before it was taken");
        assert_eq!(elector.observe(Some(record("other", 10)), start + LEASE_DURATION), ElectorStep::Take);
        assert_eq!(elector.observe_newer(Some(record("", 11)), late), ElectorStep::Take);
    }

    /// The API server's side of a lease.
    #[derive(Default)]
    struct Server {
        lease: Option<LeaderRecord>,
        version: u32,
    }

    impl Server {
        /// A write planned on `seen`; rejected if the lease has changed since.
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
                if step != ElectorStep::Wait && server.write(seen.as_deref(), &format!("replica-{who}")) && answer_arrives {
                    electors[who].written(started);
                }
                let leaders = electors.iter().filter(|elector| elector.leads(now)).count();
                prop_assert!(leaders <= 1, "{leaders} leaders");
            }
        }
    }
}

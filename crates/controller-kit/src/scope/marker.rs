//! Markers of namespaces, and their validity.
//!
//! A marker is valid for its own duration since *we* last saw it change. The time that its writer put into it is not
//! compared with any clock: clocks differ. The validity is computed without I/O and without a clock.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp};
use kube::ResourceExt;

use super::{HOLDER_PREFIX, MAX_AGE, OWNER_ANNOTATION, RELEASING_ANNOTATION, RENEWED_ANNOTATION, safety_margin};

/// Others keep out for this long at least after each renewal, however short a duration the marker names: a tenant can
/// write markers, and each one that expires makes every cluster-wide process act.
const SHORTEST: Duration = Duration::from_secs(10);

/// Content of a marker Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// `holderIdentity`: the restricted operator and its version.
    pub holder: String,
    /// The install that it belongs to; `None` for the Go operator's, and for one that the Go operator renewed last.
    pub owner: Option<String>,
    /// Duration of its validity without a renewal.
    pub duration: Duration,
    /// Its owner gives it back.
    pub releasing: bool,
    /// The writer's clock at the last renewal; only ever compared with itself.
    renewed: MicroTime,
}

impl Marker {
    /// Reads a Lease. One without a time of renewal, without a positive duration, or held by what is no
    /// namespace-restricted operator marks nothing.
    pub fn of(lease: &Lease) -> Option<Self> {
        let spec = lease.spec.as_ref()?;
        let holder = spec.holder_identity.clone().filter(|holder| holder.starts_with(HOLDER_PREFIX))?;
        let renewed = spec.renew_time.clone()?;
        let seconds = u64::try_from(spec.lease_duration_seconds?).ok().filter(|seconds| *seconds > 0)?;
        let annotations = lease.annotations();
        // Markers of earlier releases do not have what their owner wrote.
        let by_owner = annotations.get(RENEWED_ANNOTATION).is_none_or(|written| *written == renewed.0.to_string());
        Some(Self {
            holder,
            owner: annotations.get(OWNER_ANNOTATION).filter(|_| by_owner).cloned(),
            duration: Duration::from_secs(seconds),
            releasing: annotations.contains_key(RELEASING_ANNOTATION),
            renewed,
        })
    }

    /// Writes into a Lease that the install `owner` renews it at `now`.
    pub fn renew(lease: &mut Lease, owner: &str, now: Timestamp) {
        // The API server keeps microseconds.
        let now = Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now);
        let annotations = lease.annotations_mut();
        annotations.insert(OWNER_ANNOTATION.to_owned(), owner.to_owned());
        annotations.insert(RENEWED_ANNOTATION.to_owned(), now.to_string());
        annotations.remove(RELEASING_ANNOTATION);
        lease.spec.get_or_insert_default().renew_time = Some(MicroTime(now));
    }

    /// As [`Self::renew`], and makes the processes of the install stop.
    pub fn release(lease: &mut Lease, owner: &str, now: Timestamp) {
        Self::renew(lease, owner, now);
        lease.annotations_mut().insert(RELEASING_ANNOTATION.to_owned(), "true".to_owned());
    }
}

/// The markers of all namespaces.
#[derive(Debug, Default)]
pub struct Markers {
    seen: HashMap<String, SeenMarker>,
    settled: bool,
    /// Time at which the last list that was answered was sent.
    looked: Option<Instant>,
}

/// A marker, and since when it has not changed.
#[derive(Debug)]
struct SeenMarker {
    marker: Marker,
    since: Instant,
    /// It was not there before this moment: the last answer of the API server that did not show it was requested then.
    written_after: Instant,
    /// Since when this owner has kept it without a lapse.
    owned_since: Instant,
    /// Whether it was seen to appear or change. A marker of the first list may have any age.
    alive: bool,
    /// It expired, and a list has shown that it was not renewed.
    ended: bool,
}

impl SeenMarker {
    fn end(&self) -> Instant {
        self.since + self.marker.duration.max(SHORTEST)
    }

    /// Another process may take it for expired at `now`.
    fn may_have_lapsed(&self, now: Instant) -> bool {
        now >= self.written_after + self.marker.duration
    }
}

impl Markers {
    /// Takes note of the marker of a namespace as it is at `now`. The same marker, seen again, gets no younger.
    pub fn observe(&mut self, namespace: &str, marker: Option<Marker>, now: Instant) {
        match marker {
            None => drop(self.seen.remove(namespace)),
            Some(marker) if self.seen.get(namespace).is_some_and(|seen| seen.marker == marker) => {}
            Some(marker) => {
                let before = self.seen.get(namespace);
                let alive = self.settled || before.is_some();
                let same_owner = before.filter(|seen| seen.marker.owner == marker.owner && !seen.may_have_lapsed(now));
                let owned_since = same_owner.map_or(now, |seen| seen.owned_since);
                let written_after = self.looked.map_or(now, |looked| looked.min(now));
                let seen = SeenMarker { marker, since: now, written_after, owned_since, alive, ended: false };
                self.seen.insert(namespace.to_owned(), seen);
            }
        }
    }

    /// Takes note that all there was at first has been observed: what is new from now on was written since.
    pub fn settle(&mut self) {
        self.settled = true;
    }

    /// Records all that a list has found, which was sent at `started` and answered at `now`. Markers that had expired
    /// by then and are the same still have ended. What the watch has brought since is newer than the answer.
    pub fn observe_all(&mut self, mut found: HashMap<String, Marker>, started: Instant, now: Instant) {
        self.seen.retain(|namespace, seen| seen.since > started || found.contains_key(namespace));
        found.retain(|namespace, _| self.seen.get(namespace).is_none_or(|seen| seen.since <= started));
        for (namespace, marker) in found {
            self.observe(&namespace, Some(marker), now);
        }
        for seen in self.seen.values_mut().filter(|seen| seen.end() <= started) {
            seen.ended = true;
        }
        self.looked = Some(started);
    }

    /// The marker that keeps others out of a namespace: one that has not ended, expired though it may seem. A watch
    /// that brings nothing is like a marker that is not renewed; only [`Self::observe_all`] distinguishes the two.
    pub fn in_force(&self, namespace: &str) -> Option<&Marker> {
        self.seen.get(namespace).filter(|seen| !seen.ended).map(|seen| &seen.marker)
    }

    /// Whether a marker seems to have expired, and no list has shown that it has ended.
    pub fn has_unconfirmed_expiry(&self, now: Instant) -> bool {
        self.seen.values().any(|seen| !seen.ended && seen.end() <= now)
    }

    /// The marker of a namespace, if it is valid at `now`, for who has just read it.
    pub fn valid(&self, namespace: &str, now: Instant) -> Option<&Marker> {
        self.seen.get(namespace).filter(|seen| now < seen.end()).map(|seen| &seen.marker)
    }

    /// The marker of a namespace, if it is being renewed and does not expire soon.
    pub fn kept(&self, namespace: &str, now: Instant) -> Option<&Marker> {
        let SeenMarker { marker, written_after, .. } = self.seen.get(namespace).filter(|seen| seen.alive)?;
        (now.duration_since(*written_after) + safety_margin(marker.duration) < marker.duration).then_some(marker)
    }

    /// The marker of a namespace, if the processes of its owner may act on it at `now`: they stop before others start,
    /// start when others have stopped, and do not start on a marker that may have been left long ago.
    pub fn valid_for_its_owner(&self, namespace: &str, now: Instant) -> Option<&Marker> {
        let owned = now.duration_since(self.seen.get(namespace)?.owned_since);
        self.kept(namespace, now).filter(|marker| !marker.releasing && owned >= MAX_AGE)
    }

    /// Returns the time since the marker of a namespace was seen to change; none if it has not been.
    pub fn age(&self, namespace: &str, now: Instant) -> Option<Duration> {
        self.seen.get(namespace).filter(|seen| seen.alive).map(|seen| now.duration_since(seen.since))
    }

    /// The namespaces whose markers have not ended, in no order.
    pub fn marked(&self) -> impl Iterator<Item = &str> {
        self.seen.iter().filter(|(_, seen)| !seen.ended).map(|(namespace, _)| namespace.as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lease(second: &str) -> Lease {
        serde_json::from_value(json!({
            "metadata": {"name": super::super::MARKER_LEASE, "namespace": "team", "resourceVersion": "1"},
            "spec": {
                "holderIdentity": "namespace-restricted-operator-1.5.0",
                "leaseDurationSeconds": 30,
                "renewTime": format!("2001-01-01T00:00:0{second}.000000Z"),
            },
        }))
        .unwrap()
    }

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_marker_is_valid_for_its_duration_by_our_clock_whatever_its_writer_s_says() {
        let (mut markers, start) = (Markers::default(), Instant::now());
        markers.observe("team", Marker::of(&lease("1")), start);
        assert!(markers.valid("team", after(start, 29)).is_some(), "written in 2001 by its own account");
        assert!(markers.valid("team", after(start, 30)).is_none());
        assert!(markers.valid("other", start).is_none());
    }

    #[test]
    fn an_owner_acts_on_a_marker_that_it_saw_written_and_stops_before_others_start() {
        let (mut markers, start) = (Markers::default(), Instant::now());
        markers.observe("team", Marker::of(&lease("1")), start);
        assert!(
            markers.valid_for_its_owner("team", start).is_none(),
            "it may have been left by a process that is dead"
        );
        markers.settle();
        markers.observe("team", Marker::of(&lease("1")), start);
        assert!(markers.valid_for_its_owner("team", start).is_none(), "seen again is not written again");
        markers.observe("team", Marker::of(&lease("2")), start);
        assert!(markers.valid_for_its_owner("team", after(start, 24)).is_some());
        assert!(markers.valid_for_its_owner("team", after(start, 25)).is_none());
    }

    /// Found defect: it acted as soon as it saw its marker, while others still acted until they saw it.
    #[test]
    fn an_owner_waits_until_others_have_stopped() {
        let (mut markers, start) = (Markers::default(), Instant::now());
        markers.settle();
        markers.observe("team", Marker::of(&lease("1")), start);
        assert!(markers.kept("team", start).is_some());
        assert!(markers.valid_for_its_owner("team", after(start, 9)).is_none());
        assert!(markers.valid_for_its_owner("team", after(start, 10)).is_some());
        markers.observe("team", Marker::of(&lease("2")), after(start, 11));
        assert!(markers.valid_for_its_owner("team", after(start, 11)).is_some(), "a renewal is no new beginning");
        markers.observe("team", Marker::of(&lease("3")), after(start, 41));
        assert!(markers.valid_for_its_owner("team", after(start, 50)).is_none(), "it had expired: others may act");
        assert!(markers.valid_for_its_owner("team", after(start, 51)).is_some());
        let mut taken = lease("4");
        Marker::renew(&mut taken, "them", "2026-01-01T00:00:00Z".parse().unwrap());
        markers.observe("team", Marker::of(&taken), after(start, 52));
        assert!(markers.valid_for_its_owner("team", after(start, 61)).is_none(), "another owner");
    }

    /// Found defect: a renewal counted from its arrival, so that a watch that lagged made a process act on an expired
    /// marker.
    #[test]
    fn a_renewal_counts_from_the_last_look_that_did_not_show_it() {
        let (mut markers, start) = (Markers::default(), Instant::now());
        let found = |second| HashMap::from([("team".to_owned(), Marker::of(&lease(second)).unwrap())]);
        markers.observe_all(found("1"), start, start);
        markers.settle();
        markers.observe_all(found("1"), after(start, 12), after(start, 13));
        markers.observe("team", Marker::of(&lease("2")), after(start, 20));
        assert!(markers.valid_for_its_owner("team", after(start, 36)).is_some());
        assert!(markers.valid_for_its_owner("team", after(start, 37)).is_none(), "it may have been written 25 s ago");
        assert!(markers.valid("team", after(start, 49)).is_some(), "others count from its arrival");
    }

    #[test]
    fn a_marker_that_is_given_back_stops_its_owner_and_keeps_others_out() {
        let (mut markers, start) = (Markers::default(), Instant::now());
        let mut marker = lease("1");
        Marker::renew(&mut marker, "us", "2026-01-01T00:00:00Z".parse().unwrap());
        markers.settle();
        markers.observe("team", Marker::of(&marker), start);
        Marker::release(&mut marker, "us", "2026-01-01T00:00:01Z".parse().unwrap());
        markers.observe("team", Marker::of(&marker), after(start, 15));
        assert!(markers.valid_for_its_owner("team", after(start, 15)).is_none());
        assert!(markers.in_force("team").is_some());
        assert_eq!(markers.kept("team", after(start, 15)).unwrap().owner.as_deref(), Some("us"));
        Marker::renew(&mut marker, "us", "2026-01-01T00:00:02Z".parse().unwrap());
        markers.observe("team", Marker::of(&marker), after(start, 16));
        assert!(markers.valid_for_its_owner("team", after(start, 16)).is_some(), "it is kept after all");
    }

    /// Found defect: a marker of one second, renewed in a loop, made every cluster-wide process read all markers each
    /// second.
    #[test]
    fn the_duration_of_a_marker_has_a_floor() {
        let (mut markers, start) = (Markers::default(), Instant::now());
        let mut short = lease("1");
        short.spec.as_mut().unwrap().lease_duration_seconds = Some(1);
        markers.settle();
        markers.observe("team", Marker::of(&short), start);
        markers.observe_all(
            [("team".to_owned(), Marker::of(&short).unwrap())].into(),
            after(start, 9),
            after(start, 9),
        );
        assert!(markers.in_force("team").is_some());
        assert!(markers.kept("team", after(start, 1)).is_none(), "the Go operator goes by the duration as it is");
        markers.observe_all(
            [("team".to_owned(), Marker::of(&short).unwrap())].into(),
            after(start, 10),
            after(start, 10),
        );
        assert_eq!(markers.in_force("team"), None);
    }

    #[test]
    fn an_answer_is_older_than_what_the_watch_has_brought_meanwhile() {
        let (mut markers, start) = (Markers::default(), Instant::now());
        let found = HashMap::from([("team".to_owned(), Marker::of(&lease("1")).unwrap())]);
        markers.observe("team", Marker::of(&lease("2")), after(start, 1));
        markers.observe("new", Marker::of(&lease("1")), after(start, 1));
        markers.observe_all(found, start, after(start, 2));
        assert_eq!(markers.in_force("team"), Marker::of(&lease("2")).as_ref());
        assert!(markers.in_force("new").is_some());
    }

    #[test]
    fn only_a_renewal_makes_a_marker_younger() {
        let (mut markers, start) = (Markers::default(), Instant::now());
        markers.observe("team", Marker::of(&lease("1")), start);
        markers.observe("team", Marker::of(&lease("1")), after(start, 29));
        assert!(markers.valid("team", after(start, 31)).is_none(), "a list showed it again without a renewal");
        markers.observe("team", Marker::of(&lease("2")), after(start, 40));
        assert!(markers.valid("team", after(start, 69)).is_some());
        markers.observe("team", None, after(start, 41));
        assert!(markers.valid("team", after(start, 41)).is_none(), "deleted");
    }

    #[test]
    fn a_marker_that_the_go_operator_renews_is_its_own() {
        let mut lease = lease("1");
        Marker::renew(&mut lease, "us", "2026-01-01T00:00:00.123456789Z".parse().unwrap());
        let through_the_api = |lease: &Lease| serde_json::from_value(serde_json::to_value(lease).unwrap()).unwrap();
        let owner = |lease: &Lease| Marker::of(&through_the_api(lease)).unwrap().owner;
        assert_eq!(owner(&lease).as_deref(), Some("us"));
        // It leaves annotations as they are, and may have the same version in its name.
        lease.spec.as_mut().unwrap().renew_time = Some(MicroTime("2026-01-01T00:00:03Z".parse().unwrap()));
        assert_eq!(owner(&lease), None);
        Marker::renew(&mut lease, "us", "2026-01-01T00:00:04Z".parse().unwrap());
        assert_eq!(owner(&lease).as_deref(), Some("us"));
        lease.annotations_mut().remove(RENEWED_ANNOTATION);
        assert_eq!(owner(&lease).as_deref(), Some("us"), "as earlier releases wrote it");
    }

    #[test]
    fn a_lease_without_renewal_duration_or_an_operator_as_holder_marks_nothing() {
        for broken in [
            json!({"renewTime": null}),
            json!({"leaseDurationSeconds": 0}),
            json!({"leaseDurationSeconds": null}),
            json!({"holderIdentity": "another"}),
        ] {
            let mut value = serde_json::to_value(lease("1")).unwrap();
            json_patch::merge(&mut value["spec"], &broken);
            assert_eq!(Marker::of(&serde_json::from_value(value).unwrap()), None, "{broken}");
        }
    }

    #[test]
    fn an_expired_marker_is_valid_until_a_read_has_shown_that_it_was_not_renewed() {
        let (mut markers, start) = (Markers::default(), Instant::now());
        markers.observe("team", Marker::of(&lease("1")), start);
        markers.observe("gone", Marker::of(&lease("1")), start);
        markers.observe("renewed", Marker::of(&lease("1")), start);
        let late = after(start, 60);
        assert!(markers.in_force("team").is_some(), "the watch may be dead");

        let found = |second| Marker::of(&lease(second)).unwrap();
        markers.observe_all([("team".to_owned(), found("1")), ("renewed".to_owned(), found("2"))].into(), late, late);
        assert_eq!(markers.in_force("team"), None);
        assert_eq!(markers.in_force("gone"), None);
        assert_eq!(markers.marked().collect::<Vec<_>>(), ["renewed"]);

        markers.observe("team", Marker::of(&lease("1")), after(late, 1));
        assert_eq!(markers.in_force("team"), None, "a list shows the old marker again");
        markers.observe("team", Marker::of(&lease("3")), after(late, 2));
        assert!(markers.in_force("team").is_some());
    }

    #[test]
    fn a_look_ends_no_marker_that_has_not_expired() {
        let (mut markers, start) = (Markers::default(), Instant::now());
        markers.observe("a", Marker::of(&lease("1")), start);
        markers.observe("b", Marker::of(&lease("2")), after(start, 5));
        let both =
            [("a", "1"), ("b", "2")].map(|(name, second)| (name.to_owned(), Marker::of(&lease(second)).unwrap()));
        markers.observe_all(both.into(), after(start, 30), after(start, 30));
        assert_eq!(markers.marked().collect::<Vec<_>>(), ["b"]);
    }
}

//! Which markers are valid: no I/O and no clock.
//!
//! A marker is valid for its own duration since *we* last saw it change. The time that its writer put into it is not
//! compared with any clock: clocks differ.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime};
use kube::ResourceExt;

use super::{HOLDER_PREFIX, OWNER_ANNOTATION, safety_margin};

/// What a marker Lease says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// `holderIdentity`: the restricted operator and its version.
    pub holder: String,
    /// The install that it belongs to; `None` for the Go operator's.
    pub owner: Option<String>,
    /// How long it is valid without a renewal.
    pub duration: Duration,
    /// The writer's clock at the last renewal; only ever compared with itself.
    renewed: MicroTime,
}

impl Marker {
    /// Reads a Lease. One without a time of renewal, without a positive duration, or held by what is no
    /// namespace-restricted operator marks nothing.
    #[must_use]
    pub fn of(lease: &Lease) -> Option<Self> {
        let spec = lease.spec.as_ref()?;
        let holder = spec.holder_identity.clone().filter(|holder| holder.starts_with(HOLDER_PREFIX))?;
        let renewed = spec.renew_time.clone()?;
        let seconds = u64::try_from(spec.lease_duration_seconds?).ok().filter(|seconds| *seconds > 0)?;
        Some(Self {
            holder,
            owner: lease.annotations().get(OWNER_ANNOTATION).cloned(),
            duration: Duration::from_secs(seconds),
            renewed,
        })
    }
}

/// The markers of all namespaces.
#[derive(Debug, Default)]
pub struct Markers {
    seen: HashMap<String, (Marker, Instant)>,
}

impl Markers {
    /// Takes note of the marker of a namespace as it is at `now`. The same marker, seen again, gets no younger.
    pub fn observe(&mut self, namespace: &str, marker: Option<Marker>, now: Instant) {
        match marker {
            None => {
                self.seen.remove(namespace);
            }
            Some(marker) if self.seen.get(namespace).is_some_and(|(seen, _)| *seen == marker) => {}
            Some(marker) => {
                self.seen.insert(namespace.to_owned(), (marker, now));
            }
        }
    }

    /// The marker of a namespace, if it is valid at `now`.
    #[must_use]
    pub fn valid(&self, namespace: &str, now: Instant) -> Option<&Marker> {
        let (marker, since) = self.seen.get(namespace)?;
        (now.duration_since(*since) < marker.duration).then_some(marker)
    }

    /// The marker of a namespace, if those whose it is may still act on it at `now`: they stop before others start.
    #[must_use]
    pub fn valid_for_its_owner(&self, namespace: &str, now: Instant) -> Option<&Marker> {
        let (marker, since) = self.seen.get(namespace)?;
        (now.duration_since(*since) + safety_margin(marker.duration) < marker.duration).then_some(marker)
    }

    /// The namespaces with a valid marker, in no order.
    pub fn marked(&self, now: Instant) -> impl Iterator<Item = &str> {
        self.seen.keys().map(String::as_str).filter(move |namespace| self.valid(namespace, now).is_some())
    }

    /// When the next valid marker expires unless it is renewed.
    #[must_use]
    pub fn next_expiry(&self, now: Instant) -> Option<Instant> {
        let ends = self.seen.values().map(|(marker, since)| *since + marker.duration);
        ends.filter(|end| *end > now).min()
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
        assert!(markers.valid_for_its_owner("team", after(start, 24)).is_some());
        assert!(markers.valid_for_its_owner("team", after(start, 25)).is_none());
    }

    #[test]
    fn only_a_renewal_makes_a_marker_younger() {
        let (mut markers, start) = (Markers::default(), Instant::now());
        markers.observe("team", Marker::of(&lease("1")), start);
        markers.observe("team", Marker::of(&lease("1")), after(start, 29));
        assert!(markers.valid("team", after(start, 31)).is_none(), "a list showed it again, nobody renewed it");
        markers.observe("team", Marker::of(&lease("2")), after(start, 40));
        assert!(markers.valid("team", after(start, 69)).is_some());
        markers.observe("team", None, after(start, 41));
        assert!(markers.valid("team", after(start, 41)).is_none(), "deleted");
    }

    #[test]
    fn a_lease_without_renewal_duration_or_an_operator_as_holder_marks_nothing() {
        for broken in [
            json!({"renewTime": null}),
            json!({"leaseDurationSeconds": 0}),
            json!({"leaseDurationSeconds": null}),
            json!({"holderIdentity": "somebody"}),
        ] {
            let mut value = serde_json::to_value(lease("1")).unwrap();
            json_patch::merge(&mut value["spec"], &broken);
            assert_eq!(Marker::of(&serde_json::from_value(value).unwrap()), None, "{broken}");
        }
    }

    #[test]
    fn the_next_expiry_is_the_earliest_that_is_still_to_come() {
        let (mut markers, start) = (Markers::default(), Instant::now());
        markers.observe("a", Marker::of(&lease("1")), start);
        markers.observe("b", Marker::of(&lease("2")), after(start, 5));
        assert_eq!(markers.next_expiry(start), Some(after(start, 30)));
        assert_eq!(markers.next_expiry(after(start, 30)), Some(after(start, 35)));
        assert_eq!(markers.next_expiry(after(start, 60)), None);
        assert_eq!(markers.marked(after(start, 31)).collect::<Vec<_>>(), ["b"]);
    }
}

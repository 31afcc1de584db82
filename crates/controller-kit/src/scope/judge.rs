//! Whether a marker is valid; pure.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime};

use super::HOLDER_PREFIX;

/// What a marker says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Marker {
    /// Who holds the namespace.
    pub holder: String,
    /// How long one renewal is good for; none if the marker says nothing that makes sense.
    pub lasts: Option<Duration>,
    /// The writer's clock at the last renewal. Only ever compared with itself.
    pub renewed: Option<MicroTime>,
}

impl Marker {
    /// The marker that a Lease holds.
    #[must_use]
    pub fn of(lease: &Lease) -> Self {
        let spec = lease.spec.clone().unwrap_or_default();
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Self {
            holder: spec.holder_identity.unwrap_or_default(),
            lasts: seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs),
            renewed: spec.renew_time,
        }
    }
}

/// Whether a namespace is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// No valid marker.
    Free,
    /// Taken by somebody else, unless the marker is renewed until this moment only.
    Taken {
        /// Who holds it.
        holder: String,
        /// When the marker expires.
        until: Instant,
    },
}

/// Judges one marker that was seen to change last at `changed`.
///
/// A marker without duration or renewal is not valid, and neither is one whose holder is no namespace-restricted operator.
#[must_use]
pub fn judge(marker: &Marker, changed: Instant, now: Instant) -> Verdict {
    let (Some(lasts), Some(_)) = (marker.lasts, &marker.renewed) else { return Verdict::Free };
    if !marker.holder.starts_with(HOLDER_PREFIX) {
        return Verdict::Free;
    }
    // A duration that reaches beyond what the clock can say never ends.
    match changed.checked_add(lasts) {
        Some(until) if now > until => Verdict::Free,
        until => Verdict::Taken { holder: marker.holder.clone(), until: until.unwrap_or(now) },
    }
}

/// All markers, by namespace, and when each was seen to change.
#[derive(Debug, Clone, Default)]
pub struct Markers {
    seen: BTreeMap<String, (Marker, Instant)>,
}

impl Markers {
    /// Takes in what the API server says of a namespace's marker; `None`: there is none. A marker that says what it said
    /// before has not changed, however often it is reported.
    pub fn see(&mut self, namespace: &str, marker: Option<Marker>, now: Instant) {
        let Some(marker) = marker else {
            self.seen.remove(namespace);
            return;
        };
        match self.seen.get(namespace) {
            Some((known, _)) if *known == marker => {}
            _ => {
                self.seen.insert(namespace.to_owned(), (marker, now));
            }
        }
    }

    /// Forgets the markers of all namespaces that are not in the list.
    pub fn keep_only(&mut self, namespaces: &[String]) {
        self.seen.retain(|namespace, _| namespaces.contains(namespace));
    }

    /// Whether a namespace is taken.
    #[must_use]
    pub fn verdict(&self, namespace: &str, now: Instant) -> Verdict {
        match self.seen.get(namespace) {
            Some((marker, changed)) => judge(marker, *changed, now),
            None => Verdict::Free,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RENEWED: &str = "2026-01-01T00:00:00.000000Z";

    fn lease(holder: &str, seconds: i32, renewed: &str) -> Lease {
        serde_json::from_value(serde_json::json!({
            "spec": { "holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": renewed },
        }))
        .unwrap()
    }

    fn marker() -> Marker {
        Marker::of(&lease("namespace-restricted-operator-1.5.0", 30, RENEWED))
    }

    fn taken(markers: &Markers, now: Instant) -> bool {
        markers.verdict("a", now) != Verdict::Free
    }

    #[test]
    fn a_marker_is_valid_for_its_duration_after_it_was_seen_to_change() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut markers = Markers::default();
        assert!(!taken(&markers, start));
        markers.see("a", Some(marker()), start);
        assert!(taken(&markers, at(30)) && !taken(&markers, at(31)));
        assert_eq!(markers.verdict("b", start), Verdict::Free);
        // The writer's clock is far in the past, and that does not matter. Neither does hearing the same again.
        markers.see("a", Some(marker()), at(20));
        assert!(!taken(&markers, at(31)));
        let renewed = Marker::of(&lease("namespace-restricted-operator-1.5.0", 30, "2026-01-01T00:00:10.000000Z"));
        markers.see("a", Some(renewed), at(40));
        assert!(taken(&markers, at(70)) && !taken(&markers, at(71)));
        markers.see("a", None, at(41));
        assert!(!taken(&markers, at(41)));
    }

    #[test]
    fn what_is_no_marker_takes_nothing() {
        let now = Instant::now();
        for (odd, why) in [
            (Marker::of(&Lease::default()), "empty"),
            (Marker::of(&lease("somebody", 30, RENEWED)), "not an operator"),
            (Marker::of(&lease("namespace-restricted-operator-1", 0, RENEWED)), "no duration"),
            (Marker::of(&lease("namespace-restricted-operator-1", -5, RENEWED)), "negative duration"),
            (Marker { renewed: None, ..marker() }, "never renewed"),
        ] {
            assert_eq!(judge(&odd, now, now), Verdict::Free, "{why}");
        }
    }

    #[test]
    fn namespaces_that_a_new_list_does_not_name_are_free() {
        let now = Instant::now();
        let mut markers = Markers::default();
        markers.see("a", Some(marker()), now);
        markers.see("b", Some(marker()), now);
        markers.keep_only(&["b".to_owned()]);
        assert!(!taken(&markers, now));
        assert_ne!(markers.verdict("b", now), Verdict::Free);
    }
}

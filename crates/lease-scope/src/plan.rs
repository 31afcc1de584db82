//! Plans what to do with the marker. Pure.

use std::time::{Duration, Instant};

use controller_kit::scope::Markers;

/// A Deployment of the install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sibling {
    /// Its name.
    pub(crate) name: String,
    /// Whether it is available with its present spec.
    pub(crate) available: bool,
    /// Whether it is being deleted.
    pub(crate) goes: bool,
}

/// Next step for the marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MarkerStep {
    /// There is no marker, and the install is complete: create it.
    Create,
    /// The marker expired, and the install is complete: take it over.
    TakeOver,
    /// The install holds it: renew it.
    Renew,
    /// Another replica of this process renews it.
    StandBy,
    /// Another operator holds it.
    Refused {
        /// The holder in its Lease.
        holder: String,
        /// The install it belongs to; none for the upstream operator's.
        owner: Option<String>,
    },
    /// These Deployments of the install are not available yet; none at all were found if the list is empty.
    Incomplete(Vec<String>),
}

/// The observed marker.
pub(crate) struct ObservedMarker<'a> {
    /// Whether this process wrote it last.
    pub(crate) held: bool,
    /// Its content.
    pub(crate) markers: &'a Markers,
    /// The Lease's namespace.
    pub(crate) namespace: &'a str,
    /// After this long without a renewal another replica takes the marker over, long before it expires.
    pub(crate) overdue: Duration,
}

/// Plans for the install `owner` by the marker alone; none if the Deployments of the install count, too.
pub(crate) fn by_marker(observed: &ObservedMarker<'_>, owner: &str, now: Instant) -> Option<MarkerStep> {
    let marker = observed.markers.valid(observed.namespace, now)?;
    if marker.owner.as_deref() != Some(owner) {
        return Some(MarkerStep::Refused { holder: marker.holder.clone(), owner: marker.owner.clone() });
    }
    // A marker that the install holds is kept while a Deployment of it is rolled out.
    if observed.held {
        return Some(MarkerStep::Renew);
    }
    // A marker may be left of an earlier install, of a process that died, or of an install that is being removed: it is
    // renewed if the install is complete.
    let age = observed.markers.age(observed.namespace, now).filter(|_| !marker.releasing)?;
    Some(if age < observed.overdue { MarkerStep::StandBy } else { MarkerStep::TakeOver })
}

/// Plans for an absent or abandoned marker, by the Deployments of the install.
pub(crate) fn by_install(exists: bool, siblings: &[Sibling]) -> MarkerStep {
    let missing: Vec<String> =
        siblings.iter().filter(|sibling| !sibling.available).map(|sibling| sibling.name.clone()).collect();
    if siblings.is_empty() || !missing.is_empty() {
        return MarkerStep::Incomplete(missing);
    }
    if exists { MarkerStep::TakeOver } else { MarkerStep::Create }
}

/// Whether the whole install is being removed, and not this process alone.
pub(crate) fn goes(siblings: &[Sibling]) -> bool {
    siblings.iter().all(|sibling| sibling.goes)
}

#[cfg(test)]
mod tests {
    use std::slice;

    use controller_kit::scope::{MARKER_LEASE, Marker, OWNER_ANNOTATION};
    use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
    use serde_json::json;

    use super::*;

    fn markers(owner: Option<&str>, seen: Instant) -> Markers {
        let lease = json!({
            "metadata": {"name": MARKER_LEASE, "annotations": owner.map(|owner| json!({OWNER_ANNOTATION: owner}))},
            "spec": {
                "holderIdentity": "namespace-restricted-operator-1.5.0", "leaseDurationSeconds": 30,
                "renewTime": "2026-01-01T00:00:00.000000Z",
            },
        });
        let mut markers = Markers::default();
        markers.observe("team", Marker::of(&serde_json::from_value(lease).unwrap()), seen);
        markers
    }

    fn siblings(available: &[bool]) -> Vec<Sibling> {
        let numbered = available.iter().enumerate();
        numbered.map(|(i, available)| Sibling { name: format!("d{i}"), available: *available, goes: false }).collect()
    }

    fn step(markers: &Markers, exists: bool, available: &[bool], now: Instant) -> MarkerStep {
        step_of(false, markers, exists, available, now)
    }

    fn step_of(held: bool, markers: &Markers, exists: bool, available: &[bool], now: Instant) -> MarkerStep {
        let observed = ObservedMarker { held, markers, namespace: "team", overdue: Duration::from_secs(15) };
        by_marker(&observed, "us", now).unwrap_or_else(|| by_install(exists, &siblings(available)))
    }

    #[test]
    fn the_marker_is_taken_only_by_a_complete_install() {
        let (none, now) = (Markers::default(), Instant::now());
        assert_eq!(step(&none, false, &[true, true], now), MarkerStep::Create);
        assert_eq!(step(&none, false, &[true, false], now), MarkerStep::Incomplete(vec!["d1".into()]));
        assert_eq!(step(&none, false, &[], now), MarkerStep::Incomplete(vec![]));
        assert_eq!(step(&none, true, &[true], now), MarkerStep::TakeOver, "a Lease that marks nothing");
    }

    #[test]
    fn what_we_hold_is_renewed_even_while_a_sibling_is_down() {
        let now = Instant::now();
        assert_eq!(step_of(true, &markers(Some("us"), now), true, &[false], now), MarkerStep::Renew);
    }

    #[test]
    fn what_an_earlier_process_left_is_renewed_by_a_complete_install_only() {
        let (left, now) = (markers(Some("us"), Instant::now()), Instant::now());
        assert_eq!(
            step(&left, true, &[false], now),
            MarkerStep::Incomplete(vec!["d0".into()]),
            "others may serve meanwhile"
        );
        assert_eq!(step(&left, true, &[true], now), MarkerStep::TakeOver);
    }

    /// Defect: there was one replica, and the marker was deleted with it.
    #[test]
    fn a_second_replica_takes_over_before_the_marker_expires_even_while_a_sibling_is_down() {
        let (mut kept, start) = (Markers::default(), Instant::now());
        kept.settle();
        let mut lease = serde_json::from_value(json!({"metadata": {"name": MARKER_LEASE}})).unwrap();
        write(&mut lease, Marker::renew);
        kept.observe("team", Marker::of(&lease), start);
        assert_eq!(step(&kept, true, &[false], start + Duration::from_secs(14)), MarkerStep::StandBy);
        assert_eq!(step(&kept, true, &[false], start + Duration::from_secs(15)), MarkerStep::TakeOver);
        assert_eq!(step_of(true, &kept, true, &[false], start), MarkerStep::Renew);
        write(&mut lease, Marker::release);
        kept.observe("team", Marker::of(&lease), start);
        assert_eq!(step(&kept, true, &[], start), MarkerStep::Incomplete(vec![]), "the install goes");
        assert_eq!(step(&kept, true, &[true], start), MarkerStep::TakeOver, "it is there again");
    }

    fn write(lease: &mut Lease, how: fn(&mut Lease, &str, Timestamp)) {
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some("namespace-restricted-operator-1.5.0".to_owned());
        spec.lease_duration_seconds = Some(30);
        how(lease, "us", "2026-01-01T00:00:00Z".parse().unwrap());
    }

    #[test]
    fn an_install_goes_when_all_of_it_goes() {
        let [goes_, stays] = [true, false].map(|goes| Sibling { name: "d".into(), available: true, goes });
        assert!(goes(&[]) && goes(slice::from_ref(&goes_)));
        assert!(!goes(slice::from_ref(&stays)) && !goes(&[goes_, stays]));
    }

    #[test]
    fn a_valid_marker_of_another_is_never_taken() {
        let now = Instant::now();
        for owner in [Some("them"), None] {
            let markers = markers(owner, now);
            let refused = step(&markers, true, &[true], now + Duration::from_secs(29));
            assert!(matches!(refused, MarkerStep::Refused { .. }), "{owner:?}: {refused:?}");
            assert_eq!(step(&markers, true, &[true], now + Duration::from_secs(30)), MarkerStep::TakeOver, "{owner:?}");
        }
    }
}

//! What to do about the marker: no I/O and no clock.

use std::time::Instant;

use controller_kit::scope::{Marker, Markers};

/// A Deployment of the install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sibling {
    /// Its name.
    pub(crate) name: String,
    /// Whether it serves with its present spec.
    pub(crate) available: bool,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is no marker, and the install is complete: make it.
    Create,
    /// There is one that nobody keeps any more, and the install is complete: make it ours.
    TakeOver,
    /// It is ours: renew it.
    Renew,
    /// Somebody else keeps it.
    Refused {
        /// As its Lease says.
        holder: String,
        /// The install it belongs to; none for the Go operator's.
        owner: Option<String>,
    },
    /// These Deployments of the install are not available yet; none at all were found if the list is empty.
    Incomplete(Vec<String>),
}

/// The marker's namespace as it was seen.
pub(crate) struct Observed<'a> {
    /// Whether the Lease exists, whatever it says.
    pub(crate) exists: bool,
    /// Whether this process has kept it until now.
    pub(crate) held: bool,
    /// What is known of it.
    pub(crate) markers: &'a Markers,
    /// The Lease's namespace.
    pub(crate) namespace: &'a str,
    /// The rest of the install.
    pub(crate) siblings: &'a [Sibling],
}

/// Decides for the install `owner`.
pub(crate) fn decide(observed: &Observed<'_>, owner: &str, now: Instant) -> Step {
    let ours = |marker: &Marker| marker.owner.as_deref() == Some(owner);
    match observed.markers.valid(observed.namespace, now) {
        // What is held is kept, also while a sibling is being rolled out.
        Some(marker) if ours(marker) && observed.held => return Step::Renew,
        // What was found may be left of an earlier install, or of a process that died: it is renewed if somebody can act on it.
        Some(marker) if ours(marker) => {}
        Some(marker) => return Step::Refused { holder: marker.holder.clone(), owner: marker.owner.clone() },
        None => {}
    }
    let missing: Vec<String> =
        observed.siblings.iter().filter(|sibling| !sibling.available).map(|sibling| sibling.name.clone()).collect();
    if observed.siblings.is_empty() || !missing.is_empty() {
        return Step::Incomplete(missing);
    }
    if observed.exists { Step::TakeOver } else { Step::Create }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use controller_kit::scope::{MARKER_LEASE, OWNER_ANNOTATION};
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

    fn step(markers: &Markers, exists: bool, available: &[bool], now: Instant) -> Step {
        step_of(false, markers, exists, available, now)
    }

    fn step_of(held: bool, markers: &Markers, exists: bool, available: &[bool], now: Instant) -> Step {
        let siblings: Vec<_> = available
            .iter()
            .enumerate()
            .map(|(i, available)| Sibling { name: format!("d{i}"), available: *available })
            .collect();
        decide(&Observed { exists, held, markers, namespace: "team", siblings: &siblings }, "us", now)
    }

    #[test]
    fn the_marker_is_taken_only_by_a_complete_install() {
        let (none, now) = (Markers::default(), Instant::now());
        assert_eq!(step(&none, false, &[true, true], now), Step::Create);
        assert_eq!(step(&none, false, &[true, false], now), Step::Incomplete(vec!["d1".into()]));
        assert_eq!(step(&none, false, &[], now), Step::Incomplete(vec![]));
        assert_eq!(step(&none, true, &[true], now), Step::TakeOver, "a Lease that marks nothing");
    }

    #[test]
    fn what_we_hold_is_renewed_even_while_a_sibling_is_down() {
        let now = Instant::now();
        assert_eq!(step_of(true, &markers(Some("us"), now), true, &[false], now), Step::Renew);
    }

    #[test]
    fn what_an_earlier_process_left_is_renewed_by_a_complete_install_only() {
        let (left, now) = (markers(Some("us"), Instant::now()), Instant::now());
        assert_eq!(step(&left, true, &[false], now), Step::Incomplete(vec!["d0".into()]), "others may serve meanwhile");
        assert_eq!(step(&left, true, &[true], now), Step::TakeOver);
    }

    #[test]
    fn a_valid_marker_of_another_is_never_taken() {
        let now = Instant::now();
        for owner in [Some("them"), None] {
            let markers = markers(owner, now);
            let refused = step(&markers, true, &[true], now + Duration::from_secs(29));
            assert!(matches!(refused, Step::Refused { .. }), "{owner:?}: {refused:?}");
            assert_eq!(step(&markers, true, &[true], now + Duration::from_secs(30)), Step::TakeOver, "{owner:?}");
        }
    }
}

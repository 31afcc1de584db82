//! Somebody else makes the certificates and gives webhook configurations their CA; ours are the CRDs.
//!
//! Objects cannot be read in another version while a CRD does not trust what is served. So the certificate of a new CA is held back
//! until all CRDs have that CA, and the old CA stays in them for a while, for replicas that learn of it later.

use std::time::Duration;

use jiff::Timestamp;

use super::{Decision, LOOK_AGAIN, Observed, Place, Spread, all_hold, differing};
use crate::certificates::{
    Contents, PlaceKind, SETTLE,
    material::{Authority, Pair},
};

pub(super) fn decide(observed: &Observed, now: Timestamp) -> Decision {
    let stored = observed.stored.clone().unwrap_or_default();
    let authorities = Authority::read_all(&stored.ca);
    let definitions = observed.places.as_ref().map(|places| {
        let definitions = places.iter().filter(|place| place.kind == PlaceKind::Definition);
        definitions.cloned().collect::<Vec<Place>>()
    });
    let all_known =
        definitions.as_ref().is_some_and(|places| authorities.iter().all(|authority| all_hold(places, authority)));
    let served = observed.remembered.as_ref().filter(|served| **served != stored && is_good(served, now));
    let serve = Pair::read(&stored.certificate, &stored.key).filter(|_| served.is_none() || all_known);

    let places = definitions.as_deref().unwrap_or_default();
    let spread = superseded(observed, served, &authorities, places, now);
    let fresh = || spread.iter().filter(|old| age(old, now) < SETTLE);
    let bundle = Authority::add_all(stored.ca.clone(), fresh().map(|old| &old.authority));
    let again = fresh().map(|old| SETTLE.saturating_sub(age(old, now))).min().unwrap_or(LOOK_AGAIN);
    let differing = differing(places, &bundle);
    Decision {
        trusted: serve.is_some() && definitions.is_some() && differing.is_empty(),
        remember: if serve.is_some() { Some(stored) } else { observed.remembered.clone() },
        serve,
        write: None,
        // Without a CA there is nothing to give.
        inject: if authorities.is_empty() { Vec::new() } else { differing },
        bundle,
        publish: !authorities.is_empty() && definitions.is_some(),
        spread,
        again,
    }
}

/// The CAs that are trusted beside those of the Secret, each since when no certificate of it is served by this replica. Those that
/// all CRDs hold are among them, whoever put them there: another replica may still serve a certificate of theirs.
fn superseded(
    observed: &Observed,
    served: Option<&Contents>,
    authorities: &[Authority],
    places: &[Place],
    now: Timestamp,
) -> Vec<Spread> {
    let of_served = served.map(|served| Authority::read_all(&served.ca)).unwrap_or_default();
    let held = places.first().and_then(|place| place.bundles.first()).map(|(_, bundle)| Authority::read_all(bundle));
    let held = held.unwrap_or_default().into_iter().filter(|authority| all_hold(places, authority));
    let seen = |authority: &Authority| observed.spread.iter().find(|old| old.authority == *authority);
    let mut all: Vec<Spread> = held
        .filter(|authority| !of_served.contains(authority))
        .map(|authority| Spread { since: seen(&authority).map_or(now, |old| old.since), authority })
        .collect();
    all.extend(of_served.into_iter().map(|authority| Spread { authority, since: now }));
    all.retain(|old| !authorities.contains(&old.authority));
    // The same in all replicas.
    all.sort_by(|a, b| a.authority.der.cmp(&b.authority.der));
    all
}

fn age(old: &Spread, now: Timestamp) -> Duration {
    // A clock that was put back: not long ago.
    now.duration_since(old.since).try_into().unwrap_or_default()
}

/// Whether what the Secret held is worth being served on.
fn is_good(contents: &Contents, now: Timestamp) -> bool {
    Pair::read(&contents.certificate, &contents.key).is_some_and(|pair| pair.is_valid(now))
}

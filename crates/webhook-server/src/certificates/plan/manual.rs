//! Plans for certificates that others create. Others set the CA of webhook configurations, too; the operator sets that
//! of CRDs.
//!
//! Objects cannot be converted while a CRD does not trust the serving certificate. So the certificate of a new CA is
//! not served until all CRDs have that CA, and the old CA stays in them for a while, for replicas that observe the
//! change later.

use std::time::Duration;

use jiff::Timestamp;

use super::{LOOK_AGAIN, Observed, Plan, Spread, Target, all_hold, differing};
use crate::certificates::{
    Contents, PlaceKind, SETTLE,
    material::{Authority, Pair},
};

pub(super) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let stored = observed.stored.clone().unwrap_or_default();
    let authorities = Authority::read_all(&stored.ca);
    let definitions = observed.targets.as_ref().map(|targets| {
        let definitions = targets.iter().filter(|target| target.kind == PlaceKind::Definition);
        definitions.cloned().collect::<Vec<Target>>()
    });
    let all_known =
        definitions.as_ref().is_some_and(|targets| authorities.iter().all(|authority| all_hold(targets, authority)));
    let served = observed.remembered.as_ref().filter(|served| **served != stored && is_good(served, now));
    let serve = Pair::read(&stored.certificate, &stored.key).filter(|_| served.is_none() || all_known);

    let targets = definitions.as_deref().unwrap_or_default();
    let spread = superseded(observed, served, &authorities, targets, now);
    let fresh = || spread.iter().filter(|old| age(old, now) < SETTLE);
    let bundle = Authority::add_all(stored.ca.clone(), fresh().map(|old| &old.authority));
    let again = fresh().map(|old| SETTLE.saturating_sub(age(old, now))).min().unwrap_or(LOOK_AGAIN);
    let differing = differing(targets, &bundle);
    Plan {
        trusted: serve.is_some() && definitions.is_some() && differing.is_empty(),
        remember: if serve.is_some() { Some(stored) } else { observed.remembered.clone() },
        serve,
        write: None,
        // Without a CA there is nothing to set.
        inject: if authorities.is_empty() { Vec::new() } else { differing },
        bundle,
        publish: !authorities.is_empty() && definitions.is_some(),
        spread,
        again,
    }
}

/// CAs that are trusted beside those of the Secret, each with the time since when this replica serves no certificate of
/// it. CAs that all CRDs have are among them: another replica may still serve one of their certificates.
fn superseded(
    observed: &Observed,
    served: Option<&Contents>,
    authorities: &[Authority],
    targets: &[Target],
    now: Timestamp,
) -> Vec<Spread> {
    let of_served = served.map(|served| Authority::read_all(&served.ca)).unwrap_or_default();
    let held = targets.first().and_then(|target| target.bundles.first()).map(|(_, bundle)| Authority::read_all(bundle));
    let held = held.unwrap_or_default().into_iter().filter(|authority| all_hold(targets, authority));
    let seen = |authority: &Authority| observed.spread.iter().find(|old| old.authority == *authority);
    let mut all: Vec<Spread> = held
        .filter(|authority| !of_served.contains(authority))
        .map(|authority| Spread { since: seen(&authority).map_or(now, |old| old.since), authority })
        .collect();
    all.extend(of_served.into_iter().map(|authority| Spread { authority, since: now }));
    all.retain(|old| !authorities.contains(&old.authority));
    // The same order in all replicas.
    all.sort_by(|a, b| a.authority.der.cmp(&b.authority.der));
    all
}

fn age(old: &Spread, now: Timestamp) -> Duration {
    // The clock was set back: counts as recent.
    now.duration_since(old.since).try_into().unwrap_or_default()
}

/// Whether the previous content of the Secret can still be served.
fn is_good(contents: &Contents, now: Timestamp) -> bool {
    Pair::read(&contents.certificate, &contents.key).is_some_and(|pair| pair.is_valid(now))
}

//! The operator makes CA and certificates itself.

use std::time::Duration;

use jiff::Timestamp;

use super::{Decision, Key, LOOK_AGAIN, Observed, Policy, Serving, Signer, Spread, Write, all_hold, differing};
use crate::certificates::material::{Authority, Pair};
use crate::certificates::{BACKDATE, Contents, OVERLAP, RENEW_BEFORE, SETTLE};

/// What can be used of what is there.
struct Usable {
    /// CAs that are valid, the newest first.
    authorities: Vec<Authority>,
    /// The private key of the newest CA, if it may sign.
    signing_key: Option<Key>,
    /// The certificate to serve, and whether it stands in the Secret.
    serving: Option<(Pair, Contents, bool)>,
}

pub(super) fn decide(observed: &Observed, policy: &Policy, now: Timestamp) -> Decision {
    let usable = usable(observed, policy, now);
    let stored = observed.stored.as_ref().map(|stored| Authority::read_all(&stored.ca)).unwrap_or_default();
    let bundle: String = stored.iter().map(Authority::to_pem).collect();
    let places = observed.places.as_deref();
    let spread = spread(observed, usable.authorities.first(), now);
    let (write, wait) = next_step(&usable, stored.len(), spread.as_ref(), now);
    Decision {
        trusted: trusted(&usable, places),
        remember: remember(&usable, observed),
        serve: usable.serving.map(|(pair, ..)| pair),
        inject: if stored.is_empty() { Vec::new() } else { differing(places.unwrap_or_default(), bundle.as_bytes()) },
        bundle: bundle.into_bytes(),
        write,
        spread,
        again: wait,
    }
}

/// A Secret that was deleted or damaged loses nothing that is remembered, except the right to sign.
fn usable(observed: &Observed, policy: &Policy, now: Timestamp) -> Usable {
    let (stored, remembered) = (observed.stored.as_ref(), observed.remembered.as_ref());
    let valid = |contents: &Contents| {
        let all = Authority::read_all(&contents.ca);
        all.into_iter().filter(|authority| authority.is_valid(now)).collect::<Vec<_>>()
    };
    let in_secret = stored.map(valid).unwrap_or_default();
    let mut authorities = in_secret.clone();
    for authority in remembered.map(valid).unwrap_or_default() {
        // What the Secret holds is what others go by. Only if it holds nothing, memory takes its place.
        if in_secret.is_empty() {
            authorities.push(authority);
        }
    }
    let signing_key = stored.filter(|stored| {
        in_secret.first().is_some_and(|newest| !is_due(newest.not_after, now) && newest.fits(&stored.ca_key))
    });
    let pair = |contents: &Contents| {
        let pair = Pair::read(&contents.certificate, &contents.key)?;
        let signed = authorities.iter().any(|authority| pair.is_signed_by(authority));
        (signed && pair.is_valid(now) && pair.is_for(&policy.host.name())).then_some(pair)
    };
    let of = |contents: Option<&Contents>, in_secret: bool| {
        let contents = contents?;
        Some((pair(contents)?, contents.clone(), in_secret))
    };
    Usable {
        signing_key: signing_key.map(|stored| Key(stored.ca_key.clone())),
        serving: of(stored, true).or_else(|| of(remembered, false)),
        authorities,
    }
}

/// The Secret, if what it holds is served; else what was remembered before.
fn remember(usable: &Usable, observed: &Observed) -> Option<Contents> {
    let stored = matches!(&usable.serving, Some((_, _, true)));
    if stored { observed.stored.clone() } else { observed.remembered.clone() }
}

/// The one thing to write now, and when to look again.
fn next_step(usable: &Usable, in_bundle: usize, spread: Option<&Spread>, now: Timestamp) -> (Option<Write>, Duration) {
    let keep = || match &usable.serving {
        Some((_, contents, _)) => Serving::Keep { chain: contents.certificate.clone(), key: Key(contents.key.clone()) },
        None => Serving::Make,
    };
    let write = |why, signer, trust: &[Authority], serving| {
        (Some(Write { why, signer, trust: trust.to_vec(), serving }), LOOK_AGAIN)
    };
    let (Some(newest), Some(key)) = (usable.authorities.first(), &usable.signing_key) else {
        return write("there is no CA that can sign", Signer::Make, &usable.authorities, keep());
    };
    let (older, signer) = (&usable.authorities[1..], Signer::Keep { authority: newest.clone(), key: key.clone() });
    let Some((pair, _, in_secret)) = &usable.serving else {
        return write("there is no certificate that can be served", signer, older, Serving::Make);
    };
    if !in_secret {
        return write("the Secret holds no certificate that can be served", signer, older, keep());
    }
    if is_due(pair.not_after, now) || !pair.is_signed_by(newest) {
        let left = SETTLE.saturating_sub(spread.map_or(Duration::ZERO, |spread| since(spread.since, now)));
        return if left.is_zero() {
            write("the certificate is to be replaced", signer, older, Serving::Make)
        } else {
            (None, left)
        };
    }
    let replaced = since(pair.not_before, now).saturating_sub(BACKDATE);
    let outdated = if replaced >= OVERLAP { in_bundle > 1 } else { in_bundle > usable.authorities.len() };
    if outdated {
        let older = if replaced >= OVERLAP { &[] } else { older };
        return write("an old CA is not needed any more", signer, older, keep());
    }
    (None, LOOK_AGAIN)
}

/// Since when all places have held the CA that signs next.
fn spread(observed: &Observed, newest: Option<&Authority>, now: Timestamp) -> Option<Spread> {
    let newest = newest?;
    if !all_hold(observed.places.as_deref()?, newest) {
        return None;
    }
    let before = observed.spread.clone().filter(|spread| spread.authority == *newest);
    Some(before.unwrap_or_else(|| Spread { authority: newest.clone(), since: now }))
}

fn trusted(usable: &Usable, places: Option<&[super::Place]>) -> bool {
    let (Some((pair, ..)), Some(places)) = (&usable.serving, places) else { return false };
    let issuer = usable.authorities.iter().find(|authority| pair.is_signed_by(authority));
    issuer.is_some_and(|issuer| all_hold(places, issuer))
}

fn is_due(not_after: Timestamp, now: Timestamp) -> bool {
    since(now, not_after) < RENEW_BEFORE
}

/// Time from one moment to a later one; nothing, if it is earlier.
fn since(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or(Duration::ZERO)
}

//! Plans for a CA and certificates that the operator creates, and for their rotation.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    CertificateObserved, CertificatePlan, LOOK_AGAIN, Policy, SecretWrite, Spread, all_hold, differing, since,
    spread_of, spread_until,
};
use crate::certificates::{
    BACKDATE, BundleTarget, Contents, OVERLAP, PROPAGATION, RENEW_BEFORE,
    material::{Authority, Pair},
};

/// The usable certificates.
struct Usable {
    /// CAs that are valid, the newest first: those of the Secret, then those of what is served from memory.
    authorities: Vec<Authority>,
    /// The private key of the newest CA, if it may sign.
    signing_key: Option<Vec<u8>>,
    /// The certificate of the Secret.
    stored: Option<(Pair, Contents)>,
    /// The certificate that was served before.
    remembered: Option<(Pair, Contents)>,
    /// Whether the remembered one is served, and for how long without a change.
    holds_back: Option<Duration>,
}

impl Usable {
    /// The certificate to serve.
    fn serving(&self) -> Option<&Pair> {
        let chosen = match self.holds_back {
            Some(_) => self.remembered.as_ref(),
            None => self.stored.as_ref(),
        };
        chosen.map(|(pair, _)| pair)
    }
}

pub(super) fn plan(observed: &CertificateObserved, policy: &Policy, now: Timestamp) -> CertificatePlan {
    let stored = observed.stored.as_ref().map(|stored| Authority::read_all(&stored.ca)).unwrap_or_default();
    let (usable, spread) = usable(observed, &stored, policy, now);
    let (write, wait) = next_step(&usable, &stored, &spread, now);
    let added = usable.authorities.iter().filter(|authority| !stored.contains(authority));
    let bundle = Authority::add_all(Vec::new(), stored.iter().chain(added));
    let targets = observed.targets.as_deref();
    CertificatePlan {
        trusted: usable.serving().is_some_and(|pair| trusted(pair, &usable.authorities, targets)),
        remember: remember(&usable, &stored, observed),
        serve: usable.serving().cloned(),
        inject: if stored.is_empty() { Vec::new() } else { differing(targets.unwrap_or_default(), &bundle) },
        bundle,
        publish: !stored.is_empty() && targets.is_some(),
        write,
        spread,
        again: usable.holds_back.map_or(wait, |left| wait.min(left)),
    }
}

/// If the Secret was deleted, damaged or replaced, everything remembered stays usable, except the key of the CA.
fn usable(
    observed: &CertificateObserved,
    in_secret: &[Authority],
    policy: &Policy,
    now: Timestamp,
) -> (Usable, Vec<Spread>) {
    let (stored, remembered) = (observed.stored.as_ref(), observed.remembered.as_ref());
    let valid = |all: &[Authority]| all.iter().filter(|authority| authority.is_valid(now)).cloned().collect::<Vec<_>>();
    let in_secret = valid(in_secret);
    let in_memory = remembered.map(|contents| valid(&Authority::read_all(&contents.ca))).unwrap_or_default();
    let known: Vec<Authority> = in_secret.iter().chain(&in_memory).cloned().collect();
    let signing_key = stored.filter(|stored| {
        in_secret.first().is_some_and(|newest| !is_due(newest.not_after, now) && newest.fits(&stored.ca_key))
    });
    let pair = |contents: Option<&Contents>, authorities: &[Authority]| {
        let contents = contents?;
        let pair = Pair::read(&contents.certificate, &contents.key)?;
        let signed = authorities.iter().any(|authority| pair.is_signed_by(authority));
        (signed && pair.is_valid(now) && pair.is_for(&policy.host.name())).then(|| (pair, contents.clone()))
    };
    let stored = pair(stored, if in_secret.is_empty() { &in_memory } else { &in_secret });
    let remembered = pair(remembered, &known);
    let spread = spread(observed, &known, now);
    let holds_back = match (&stored, &remembered) {
        (None, Some(_)) => Some(LOOK_AGAIN),
        (Some((new, _)), Some((old, _))) => wait(new, old, &known, &spread, observed.targets.as_deref(), now),
        (_, None) => None,
    };
    let signing_key = signing_key.map(|stored| stored.ca_key.clone());
    let mut authorities = in_secret;
    // Others follow the Secret. Memory counts if the Secret is empty, or another certificate is served.
    if authorities.is_empty() || holds_back.is_some() {
        let added: Vec<Authority> = in_memory.into_iter().filter(|known| !authorities.contains(known)).collect();
        authorities.extend(added);
    }
    (Usable { authorities, signing_key, stored, remembered, holds_back }, spread)
}

/// Returns the further time for which the previous certificate is served because the API server may not trust the new
/// one yet. `None`: no further time.
fn wait(
    new: &Pair,
    old: &Pair,
    known: &[Authority],
    spread: &[Spread],
    targets: Option<&[BundleTarget]>,
    now: Timestamp,
) -> Option<Duration> {
    if new == old || known.iter().any(|authority| new.is_signed_by(authority) && old.is_signed_by(authority)) {
        return None;
    }
    if trusted(new, known, targets) && !trusted(old, known, targets) {
        return None;
    }
    let held_for = issuers(new, known).map(|issuer| held_for(spread, issuer, now)).max();
    let left = PROPAGATION.saturating_sub(held_for.unwrap_or_default());
    (!left.is_zero()).then_some(left)
}

fn issuers<'a>(pair: &Pair, known: &'a [Authority]) -> impl Iterator<Item = &'a Authority> {
    known.iter().filter(|authority| pair.is_signed_by(authority))
}

/// The Secret if its certificate is served and valid by itself; else what was remembered before.
fn remember(usable: &Usable, in_secret: &[Authority], observed: &CertificateObserved) -> Option<Contents> {
    let served = usable.stored.as_ref().filter(|_| usable.holds_back.is_none());
    match served {
        Some((pair, contents)) if in_secret.iter().any(|authority| pair.is_signed_by(authority)) => {
            Some(contents.clone())
        }
        _ => observed.remembered.clone(),
    }
}

/// The write to do now, and when to plan again.
fn next_step(
    usable: &Usable,
    in_secret: &[Authority],
    spread: &[Spread],
    now: Timestamp,
) -> (Option<SecretWrite>, Duration) {
    let keep = || {
        let (_, contents) = usable.stored.as_ref().or(usable.remembered.as_ref())?;
        Some((contents.certificate.clone(), contents.key.clone()))
    };
    let write = |why, signer, trust: &[Authority], serving| {
        (Some(SecretWrite { why, signer, trust: trust.to_vec(), serving }), LOOK_AGAIN)
    };
    let (Some(newest), Some(key)) = (usable.authorities.first(), &usable.signing_key) else {
        return write("there is no CA that can sign", None, &usable.authorities, keep());
    };
    let (older, signer) = (&usable.authorities[1..], Some((newest.clone(), key.clone())));
    let Some((pair, _)) = &usable.stored else {
        let why = match usable.remembered {
            Some(_) => "the Secret holds no certificate that can be served",
            None => "there is no certificate that can be served",
        };
        return write(why, signer, older, keep());
    };
    if older.iter().any(|authority| !in_secret.contains(authority)) {
        return write("the CA of the certificate that is served still is needed", signer, older, keep());
    }
    let held_for = held_for(spread, newest, now);
    if is_due(pair.not_after, now) || !pair.is_signed_by(newest) {
        // Clients that trust the present certificate trust the next one of the same CA: no wait.
        let left = if pair.is_signed_by(newest) { Duration::ZERO } else { PROPAGATION.saturating_sub(held_for) };
        return if left.is_zero() {
            write("the certificate is to be replaced", signer, older, None)
        } else {
            (None, left)
        };
    }
    // A certificate may be older than its use, after a restore from a backup.
    let replaced = since(pair.not_before, now).saturating_sub(BACKDATE).min(held_for);
    let outdated = if replaced >= OVERLAP { in_secret.len() > 1 } else { in_secret.len() > usable.authorities.len() };
    if outdated {
        let older = if replaced >= OVERLAP { &[] } else { older };
        return write("an old CA is not needed any more", signer, older, keep());
    }
    (None, LOOK_AGAIN)
}

/// Since when all targets have each CA; none for CAs that a target lacks.
fn spread(observed: &CertificateObserved, known: &[Authority], now: Timestamp) -> Vec<Spread> {
    let Some(targets) = observed.targets.as_deref() else { return Vec::new() };
    let held = known.iter().filter(|authority| all_hold(targets, authority));
    held.map(|authority| spread_until(observed, authority.clone(), now)).collect()
}

/// For how long all targets have had a CA.
fn held_for(spread: &[Spread], authority: &Authority, now: Timestamp) -> Duration {
    spread_of(spread, authority).map_or(Duration::ZERO, |spread| since(spread.since, now))
}

/// Whether all targets have a CA that signed the certificate.
fn trusted(pair: &Pair, known: &[Authority], targets: Option<&[BundleTarget]>) -> bool {
    targets.is_some_and(|targets| issuers(pair, known).any(|issuer| all_hold(targets, issuer)))
}

fn is_due(not_after: Timestamp, now: Timestamp) -> bool {
    since(now, not_after) < RENEW_BEFORE
}

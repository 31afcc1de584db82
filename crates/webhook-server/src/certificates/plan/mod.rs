//! Plans certificates, and the use of certificates that others create. Pure.
//!
//! Others who create certificates set the CA of webhook configurations, too; the operator sets that of CRDs.
//!
//! Objects cannot be converted while a CRD does not trust the serving certificate. So the certificate of a new CA is
//! not served until all CRDs have that CA, and the old CA stays in them for a while, for replicas that observe the
//! change later.

mod rotation;
#[cfg(test)]
mod tests;

use std::time::Duration;

use controller_kit::settings::CertProvisionMode;
use jiff::Timestamp;

use super::{
    BundleTarget, Contents,
    material::{Authority, Pair},
};
use crate::{certificates::PROPAGATION, configurations::Host};

/// Maximum time between two plans. A corrected clock causes no event, and a certificate with wrong times must not stay
/// long.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Observed state.
#[derive(Debug, Clone, Default)]
pub struct CertificateObserved {
    /// Content of the Secret; `None` without a Secret.
    pub stored: Option<Contents>,
    /// Content of the Secret when this process last served its certificate.
    pub remembered: Option<Contents>,
    /// All targets. `None`: not listed yet.
    pub targets: Option<Vec<BundleTarget>>,
    /// From the last plan.
    pub spread: Vec<Spread>,
}

/// Since when every target has a CA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// The CA.
    pub authority: Authority,
    /// The time.
    pub since: Timestamp,
}

/// Configuration of certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Creator of the certificates.
    pub mode: CertProvisionMode,
    /// The server.
    pub host: Host,
}

/// The plan for certificates.
#[derive(Debug, Clone, PartialEq)]
pub struct CertificatePlan {
    /// The certificate to serve. `None`: the present one.
    pub serve: Option<Pair>,
    /// Input of the next plan, as [`Observed::remembered`].
    pub remember: Option<Contents>,
    /// Content to write to the Secret.
    pub write: Option<SecretWrite>,
    /// Places whose bundles differ from `bundle`.
    pub inject: Vec<BundleTarget>,
    /// Their desired bundle.
    pub bundle: Vec<u8>,
    /// Whether to publish `bundle` for definitions: not before definitions and Secret were listed.
    pub publish: bool,
    /// Whether every target trusts the serving certificate.
    pub trusted: bool,
    /// Input of the next plan.
    pub spread: Vec<Spread>,
    /// Time until the next plan without a change.
    pub again: Duration,
}

/// A new content of the Secret.
#[derive(Clone, PartialEq)]
pub struct SecretWrite {
    /// The reason, for the log.
    pub why: &'static str,
    /// The CA that signs, and its key as PEM; `None`: a new one.
    pub signer: Option<(Authority, Vec<u8>)>,
    /// Further CAs to trust.
    pub trust: Vec<Authority>,
    /// The chain of the serving certificate and its key, both as PEM; `None`: a new one.
    pub serving: Option<(Vec<u8>, Vec<u8>)>,
}

/// Keys are never shown.
impl std::fmt::Debug for SecretWrite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SecretWrite({})", self.why)
    }
}

/// Plans the next step. The plan depends on the observed state only, not on the order of events.
#[must_use]
pub fn plan(observed: &CertificateObserved, policy: &Policy, now: Timestamp) -> CertificatePlan {
    match policy.mode {
        CertProvisionMode::Auto => rotation::plan(observed, policy, now),
        CertProvisionMode::Manual => plan_manual(observed, now),
    }
}

/// Places whose bundles are not exactly this one.
fn differing(targets: &[BundleTarget], bundle: &[u8]) -> Vec<BundleTarget> {
    let differing = targets.iter().map(|target| {
        let bundles = target.bundles.iter().filter(|(_, held)| held != bundle).cloned().collect();
        BundleTarget { bundles, ..target.clone() }
    });
    differing.filter(|target| !target.bundles.is_empty()).collect()
}

/// Whether every bundle of every target has a CA.
fn all_hold(targets: &[BundleTarget], authority: &Authority) -> bool {
    let mut bundles = targets.iter().flat_map(|target| &target.bundles);
    bundles.all(|(_, bundle)| Authority::read_all(bundle).iter().any(|held| held.der == authority.der))
}

fn plan_manual(observed: &CertificateObserved, now: Timestamp) -> CertificatePlan {
    let stored = observed.stored.clone().unwrap_or_default();
    let authorities = Authority::read_all(&stored.ca);
    let definitions = observed.targets.as_ref().map(|targets| {
        let definitions = targets.iter().filter(|target| target.is_definition());
        definitions.cloned().collect::<Vec<BundleTarget>>()
    });
    let all_known =
        definitions.as_ref().is_some_and(|targets| authorities.iter().all(|authority| all_hold(targets, authority)));
    let served = observed.remembered.as_ref().filter(|served| **served != stored && is_good(served, now));
    let serve = Pair::read(&stored.certificate, &stored.key).filter(|_| served.is_none() || all_known);

    let targets = definitions.as_deref().unwrap_or_default();
    let spread = superseded(observed, served, &authorities, targets, now);
    let fresh = || spread.iter().filter(|old| since(old.since, now) < PROPAGATION);
    let bundle = Authority::add_all(stored.ca.clone(), fresh().map(|old| &old.authority));
    let again = fresh().map(|old| PROPAGATION.saturating_sub(since(old.since, now))).min().unwrap_or(LOOK_AGAIN);
    let differing = differing(targets, &bundle);
    CertificatePlan {
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
    observed: &CertificateObserved,
    served: Option<&Contents>,
    authorities: &[Authority],
    targets: &[BundleTarget],
    now: Timestamp,
) -> Vec<Spread> {
    let of_served = served.map(|served| Authority::read_all(&served.ca)).unwrap_or_default();
    let held = targets.first().and_then(|target| target.bundles.first()).map(|(_, bundle)| Authority::read_all(bundle));
    let held = held.unwrap_or_default().into_iter().filter(|authority| all_hold(targets, authority));
    let mut all: Vec<Spread> = held
        .filter(|authority| !of_served.contains(authority))
        .map(|authority| spread_until(observed, authority, now))
        .collect();
    all.extend(of_served.into_iter().map(|authority| Spread { authority, since: now }));
    all.retain(|old| !authorities.contains(&old.authority));
    // The same order in all replicas.
    all.sort_by(|a, b| a.authority.der.cmp(&b.authority.der));
    all
}

/// Time from one moment to a later one; zero if it is earlier, because the clock was set back.
fn since(from: Timestamp, to: Timestamp) -> Duration {
    to.duration_since(from).try_into().unwrap_or_default()
}

/// Since when a CA is spread that is at `now`.
fn spread_until(observed: &CertificateObserved, authority: Authority, now: Timestamp) -> Spread {
    let since = spread_of(&observed.spread, &authority).map_or(now, |before| before.since);
    Spread { authority, since }
}

fn spread_of<'a>(spread: &'a [Spread], authority: &Authority) -> Option<&'a Spread> {
    spread.iter().find(|spread| spread.authority == *authority)
}

/// Whether the previous content of the Secret can still be served.
fn is_good(contents: &Contents, now: Timestamp) -> bool {
    Pair::read(&contents.certificate, &contents.key).is_some_and(|pair| pair.is_valid(now))
}

//! Plans certificates. Pure.

mod auto;
mod manual;
#[cfg(test)]
mod tests;

use std::time::Duration;

use controller_kit::settings::CertProvisionMode;
use jiff::Timestamp;

use super::{
    Contents, Target,
    material::{Authority, Pair},
};
use crate::configurations::Host;

/// Maximum time between two plans. A corrected clock causes no event, and a certificate with wrong times must not stay
/// long.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// What was observed.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// Content of the Secret; `None` without a Secret.
    pub stored: Option<Contents>,
    /// Content of the Secret when this process last served its certificate.
    pub remembered: Option<Contents>,
    /// All targets. `None`: not listed yet.
    pub targets: Option<Vec<Target>>,
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
    /// Who creates the certificates.
    pub mode: CertProvisionMode,
    /// The server.
    pub host: Host,
}

/// The plan for certificates.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The certificate to serve. `None`: the present one.
    pub serve: Option<Pair>,
    /// Input of the next plan, as [`Observed::remembered`].
    pub remember: Option<Contents>,
    /// What to write to the Secret.
    pub write: Option<Write>,
    /// Places whose bundles differ from `bundle`.
    pub inject: Vec<Target>,
    /// Their desired bundle.
    pub bundle: Vec<u8>,
    /// Whether to publish `bundle` for definitions: not before definitions and Secret were listed.
    pub publish: bool,
    /// Whether every target trusts the serving certificate.
    pub trusted: bool,
    /// Input of the next plan.
    pub spread: Vec<Spread>,
    /// When to plan again without a change.
    pub again: Duration,
}

/// A new content of the Secret.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// The reason, for the log.
    pub why: &'static str,
    /// The CA that signs.
    pub signer: Signer,
    /// Further CAs to trust.
    pub trust: Vec<Authority>,
    /// The serving certificate.
    pub serving: Serving,
}

/// The CA that signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signer {
    /// The present one.
    Keep {
        /// The CA.
        authority: Authority,
        /// Its private key, as PEM.
        key: Key,
    },
    /// A new one.
    Make,
}

/// The serving certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Serving {
    /// The present one.
    Keep {
        /// The chain, as PEM.
        chain: Vec<u8>,
        /// Its private key, as PEM.
        key: Key,
    },
    /// A new one.
    Make,
}

/// A private key as PEM, never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(pub Vec<u8>);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// Plans the next step. The plan depends on the observed state only, not on the order of events.
#[must_use]
pub fn plan(observed: &Observed, policy: &Policy, now: Timestamp) -> Plan {
    match policy.mode {
        CertProvisionMode::Auto => auto::plan(observed, policy, now),
        CertProvisionMode::Manual => manual::plan(observed, now),
    }
}

/// Places whose bundles are not exactly this one.
fn differing(targets: &[Target], bundle: &[u8]) -> Vec<Target> {
    let differing = targets.iter().map(|target| {
        let bundles = target.bundles.iter().filter(|(_, held)| held != bundle).cloned().collect();
        Target { bundles, ..target.clone() }
    });
    differing.filter(|target| !target.bundles.is_empty()).collect()
}

/// Whether every bundle of every target has a CA.
fn all_hold(targets: &[Target], authority: &Authority) -> bool {
    let mut bundles = targets.iter().flat_map(|target| &target.bundles);
    bundles.all(|(_, bundle)| Authority::read_all(bundle).iter().any(|held| held.der == authority.der))
}

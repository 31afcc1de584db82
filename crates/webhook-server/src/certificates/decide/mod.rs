//! What is to be done about certificates; pure.

mod auto;
mod manual;
#[cfg(test)]
mod tests;

use std::time::Duration;

use controller_kit::settings::CertProvisionMode;
use jiff::Timestamp;

use super::{
    Contents, Place,
    material::{Authority, Pair},
};
use crate::host::Host;

/// When nothing else happens, everything is looked at again after this time. Clocks that are put right tell nobody: a certificate
/// that was made before must not stay for long.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// What was seen.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// What the Secret holds; `None`: there is no Secret.
    pub stored: Option<Contents>,
    /// What the Secret held when its certificate was last served by this process.
    pub remembered: Option<Contents>,
    /// All places that hold our CA. `None`: they are not known yet.
    pub places: Option<Vec<Place>>,
    /// As the last decision left it.
    pub spread: Vec<Spread>,
}

/// Since when every place has held a CA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// The CA.
    pub authority: Authority,
    /// Since when.
    pub since: Timestamp,
}

/// What does not change while the process runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Who makes the certificates.
    pub mode: CertProvisionMode,
    /// For whom.
    pub host: Host,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The certificate to serve. `None`: go on as before.
    pub serve: Option<Pair>,
    /// To be passed to the next decision as [`Observed::remembered`].
    pub remember: Option<Contents>,
    /// What to write to the Secret.
    pub write: Option<Write>,
    /// Places whose bundles differ from `bundle`.
    pub inject: Vec<Place>,
    /// What they are to hold.
    pub bundle: Vec<u8>,
    /// Whether `bundle` is what definitions are to hold: not before it is known what they hold, and whom the Secret trusts.
    pub publish: bool,
    /// Whether every place trusts what is served.
    pub trusted: bool,
    /// To be passed to the next decision.
    pub spread: Vec<Spread>,
    /// When to look again even if nothing happens.
    pub again: Duration,
}

/// A new content of the Secret.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// Why; for the log.
    pub why: &'static str,
    /// The CA that signs from now on.
    pub signer: Signer,
    /// Further CAs to trust.
    pub trust: Vec<Authority>,
    /// The serving certificate.
    pub serving: Serving,
}

/// The CA that signs from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signer {
    /// The one that is there.
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
    /// One that is there.
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

/// Decides. Whatever the order of events, the next decision follows from what is there then.
#[must_use]
pub fn decide(observed: &Observed, policy: &Policy, now: Timestamp) -> Decision {
    match policy.mode {
        CertProvisionMode::Auto => auto::decide(observed, policy, now),
        CertProvisionMode::Manual => manual::decide(observed, now),
    }
}

/// Places whose bundles are not exactly this one.
fn differing(places: &[Place], bundle: &[u8]) -> Vec<Place> {
    let differing = places.iter().map(|place| {
        let bundles = place.bundles.iter().filter(|(_, held)| held != bundle).cloned().collect();
        Place { bundles, ..place.clone() }
    });
    differing.filter(|place| !place.bundles.is_empty()).collect()
}

/// Whether every bundle of every place holds a CA.
fn all_hold(places: &[Place], authority: &Authority) -> bool {
    let mut bundles = places.iter().flat_map(|place| &place.bundles);
    bundles.all(|(_, bundle)| Authority::read_all(bundle).iter().any(|held| held.der == authority.der))
}

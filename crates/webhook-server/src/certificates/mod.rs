//! Certificates: the one that is served, the CA that signed it, and the places where the API server looks that CA up.
//!
//! All replicas share one Secret. Each of them watches it together with the webhook configurations and the CRDs, decides from
//! that alone what is to be done next, and does one step; whoever is late finds it done. Nothing is kept elsewhere, so a
//! replica may be killed at any moment.
//!
//! ```text
//! observe   Secret, webhook configurations, CRDs  ─► Observed
//! decide    (&Observed, &Policy, now)             ─► Decision      pure
//! act       serve, write the Secret, set CA bundles
//! ```
//!
//! The bundles of CRDs are set by the program `crds`, from a ConfigMap that is written here.
//!
//! A new CA is spread before it is used: first `ca.crt` holds the new and the old one, then all places do, and only then the
//! serving certificate is signed by the new one. The old one goes a day later. Nothing that trusts either of them ever meets a
//! certificate that it does not trust. That holds for what somebody else writes into the Secret too: what was served before is served
//! until the new CA is known.

mod apply;
mod contents;
pub mod decide;
mod definition;
mod issue;
mod material;
mod observe;
mod run;
mod targets;

use std::time::Duration;

pub use contents::Contents;
pub use run::Keeper;
pub use targets::{Place, PlaceKind};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a CA is valid.
pub const CA_LIFETIME: Duration = DAY.saturating_mul(10 * 365);
/// How long a serving certificate is valid.
pub const SERVING_LIFETIME: Duration = DAY.saturating_mul(365);
/// Certificates are replaced this long before they expire.
pub const RENEW_BEFORE: Duration = DAY.saturating_mul(90);
/// Certificates are valid from this long before they were made, for clocks that differ.
pub const BACKDATE: Duration = Duration::from_secs(60 * 60);
/// How long all places have held a CA before certificates of it are served: API servers learn of a change of a configuration
/// within seconds.
pub const SETTLE: Duration = Duration::from_secs(20);
/// How long an old CA stays after the last certificate of it was replaced.
pub const OVERLAP: Duration = DAY;

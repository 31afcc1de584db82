//! Certificates: the serving certificate, its CA, and the objects from which the API server reads the CA bundle.
//!
//! All replicas share one Secret. Each of them watches it together with the webhook configurations and the CRDs, plans
//! the next step from these alone, and does it; a replica that is late finds it done. There is no other state, so a
//! replica may be killed at any moment.
//!
//! ```text
//! observe   Secret, webhook configurations, CRDs  ─► Observed
//! plan      (&Observed, &Policy, now)             ─► Plan          pure
//! apply     serve, write the Secret, set CA bundles
//! ```
//!
//! The program `crds` sets the bundles of CRDs, from a ConfigMap that this program writes.
//!
//! A new CA is distributed before it is used: first `ca.crt` has the new and the old one, then all targets have both,
//! and only then the new one signs the serving certificate. The old one is removed a day later. So a client that trusts
//! either of them always gets a certificate that it trusts. The same holds for a Secret that others write: the previous
//! certificate is served until all targets have the new CA.

mod apply;
mod issue;
mod material;
pub mod plan;
mod run;
mod targets;

use std::time::Duration;

pub use material::Contents;
pub use run::CertificateKeeper;
pub use targets::BundleTarget;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Lifetime of a CA.
pub const CA_LIFETIME: Duration = DAY.saturating_mul(10 * 365);
/// Lifetime of a serving certificate.
pub const SERVING_LIFETIME: Duration = DAY.saturating_mul(365);
/// Certificates are replaced this long before they expire.
pub const RENEW_BEFORE: Duration = DAY.saturating_mul(90);
/// Certificates are valid from this long before their creation, for clocks that differ.
pub const BACKDATE: Duration = Duration::from_secs(60 * 60);
/// Time for which all targets have had a CA before its certificates are served: API servers observe a change of a
/// configuration within seconds.
pub const PROPAGATION: Duration = Duration::from_secs(20);
/// Time for which an old CA is kept after the last certificate of it was replaced.
pub const OVERLAP: Duration = DAY;

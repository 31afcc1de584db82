//! NATS and etcd, as far as an operator has to do with them: whether they can be used, and what a graph that is gone
//! has left in them.
//!
//! - [`Nats`], by `async-nats`.
//! - [`Etcd`], by `etcd-client`. It is made from protobuf files when it is built; the compiler for them comes along
//!   (`xtask/protoc`).
//! - [`layout`]: where the runtime keeps what, pure.
//! - [`Credentials`]: what one Secret holds for both.
//!
//! A connection lives for one request: requests are rare, and an idle connection would have to be watched.

mod credentials;
mod etcd;
pub mod layout;
mod nats;

use std::{future::Future, time::Duration};

pub use credentials::{Credentials, CredentialsError};
pub use etcd::Etcd;
pub use nats::Nats;

/// For a connection, and for each answer.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// For everything of one namespace.
pub const CLEANING_PATIENCE: Duration = Duration::from_secs(30);

/// Does `work` with `server`, which may take as long as `patience`.
pub async fn within<T>(
    server: String,
    patience: Duration,
    work: impl Future<Output = Result<T, InfrastructureError>>,
) -> Result<T, InfrastructureError> {
    let outcome = tokio::time::timeout(patience, work).await;
    outcome.unwrap_or_else(|_| Err(outbound::OutboundError::TimedOut { server, patience }.into()))
}

/// Reason why NATS or etcd cannot be used. None of the texts contains a credential.
#[derive(Debug, thiserror::Error)]
pub enum InfrastructureError {
    /// There is no connection, or no answer in time.
    #[error(transparent)]
    Connection(#[from] outbound::OutboundError),
    /// NATS does not let us in, or cannot be reached.
    #[error("NATS at {server}: {reason}")]
    Nats {
        /// Its address.
        server: String,
        /// Reason for the error.
        reason: String,
    },
    /// etcd answered with an error.
    #[error("etcd at {server}: {reason}")]
    Etcd {
        /// Its address.
        server: String,
        /// Reason for the error.
        reason: String,
    },
}

/// An address without the credentials that a URL may hold.
pub fn shown(address: &str) -> String {
    let address = address.trim();
    let Some((before, host)) = address.rsplit_once('@') else { return address.to_owned() };
    before.split_once("://").map_or_else(|| host.to_owned(), |(scheme, _)| format!("{scheme}://{host}"))
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn what_is_before_the_host_is_not_shown() {
        for (address, expected) in [
            ("a:1", "a:1"),
            (" https://a:1", "https://a:1"),
            ("me:secret@a:1", "a:1"),
            ("nats://token@a:1", "nats://a:1"),
            ("http://me:sec@r/et@a:1", "http://a:1"),
        ] {
            assert_eq!(shown(address), expected, "{address}");
        }
    }
}

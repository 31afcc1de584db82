//! Why there is no answer.

use std::time::Duration;

/// Why there is no answer. None of the texts holds anything of a request beside the server's address.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be used.
    #[error("address {address:?} cannot be used: {reason}")]
    Address {
        /// As given.
        address: String,
        /// Why not.
        reason: String,
    },
    /// A certificate or a key cannot be used.
    #[error("{what} cannot be used: {reason}")]
    Trust {
        /// Which.
        what: &'static str,
        /// Why not.
        reason: String,
    },
    /// There is no connection.
    #[error("{server} cannot be reached: {reason}")]
    Unreachable {
        /// Scheme and host.
        server: String,
        /// Why not.
        reason: String,
    },
    /// The server has an address that may not be asked.
    #[error("{server} has an address inside the machine, the link or the control plane, which is not asked")]
    Inside {
        /// Scheme and host.
        server: String,
    },
    /// The connection broke, or what came over it is not HTTP or too long.
    #[error("{server} did not answer properly: {reason}")]
    Broken {
        /// Scheme and host.
        server: String,
        /// How.
        reason: String,
    },
    /// The answer took too long.
    #[error("{server} did not answer within {} s", patience.as_secs())]
    TimedOut {
        /// Scheme and host.
        server: String,
        /// How long it was waited for.
        patience: Duration,
    },
}

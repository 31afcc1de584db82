//! Why NATS or etcd cannot be used.

/// Why NATS or etcd cannot be used. None of the texts holds a credential.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no connection, or no answer in time.
    #[error(transparent)]
    Connection(#[from] outbound::Error),
    /// NATS does not let us in, or cannot be reached.
    #[error("NATS at {server}: {reason}")]
    Nats {
        /// Its address.
        server: String,
        /// What was wrong.
        reason: String,
    },
    /// etcd answered with an error.
    #[error("etcd at {server}: {reason}")]
    Etcd {
        /// Its address.
        server: String,
        /// What was wrong.
        reason: String,
    },
}

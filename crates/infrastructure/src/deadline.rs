//! Nothing is waited for without end.

use std::{future::Future, time::Duration};

use crate::Error;

/// For a connection, and for each answer.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// For everything of one namespace.
pub const CLEANING_PATIENCE: Duration = Duration::from_secs(30);

/// Does `work` with `server`, which may take as long as `patience`.
pub async fn within<T>(
    server: String,
    patience: Duration,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let outcome = tokio::time::timeout(patience, work).await;
    outcome.unwrap_or_else(|_| Err(outbound::Error::TimedOut { server, patience }.into()))
}

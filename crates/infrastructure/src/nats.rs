//! NATS.

use async_nats::{ConnectOptions, jetstream};
use futures::TryStreamExt;

use super::{CLEANING_PATIENCE, PATIENCE, shown, within};
use crate::{Credentials, InfrastructureError, credentials::NatsLogin, layout};

/// Name of the operator at the server.
const NAME: &str = "dynamo-operator";

/// One NATS system.
#[derive(Clone)]
pub struct Nats {
    address: String,
    credentials: Credentials,
}

impl Nats {
    /// The NATS at these addresses: `host:port` or URLs with the scheme `nats` or `tls`, separated by commas.
    pub fn new(address: &str, credentials: &Credentials) -> Self {
        Self { address: address.to_owned(), credentials: credentials.clone() }
    }

    /// Whether the server lets us in and answers.
    ///
    /// # Errors
    /// If it does not, and why.
    pub async fn check(&self) -> Result<(), InfrastructureError> {
        within(self.server(), PATIENCE * 2, async { self.connect().await.map(drop) }).await
    }

    /// Removes every stream that belongs to a Dynamo namespace, and returns their number. Without JetStream there
    /// is none.
    ///
    /// # Errors
    /// If one of them may still be there.
    pub async fn remove_namespace(&self, namespace: &str) -> Result<u64, InfrastructureError> {
        within(self.server(), CLEANING_PATIENCE, self.remove_streams(namespace)).await
    }

    async fn remove_streams(&self, namespace: &str) -> Result<u64, InfrastructureError> {
        let context = self.connect().await?;
        let account = context.query_account().await;
        if account.as_ref().is_err_and(|error| is_without_jetstream(error.kind())) {
            return Ok(0);
        }
        account.map_err(|error| self.failed(&error))?;
        let names: Vec<String> = context.stream_names().try_collect().await.map_err(|error| self.failed(&error))?;
        let mut removed = 0;
        for name in names.iter().filter(|name| layout::owns_stream(namespace, name)) {
            context.delete_stream(name).await.map_err(|error| self.failed(&error))?;
            removed += 1;
        }
        Ok(removed)
    }

    /// JetStream over a connection whose first round trip succeeded; whether the server has JetStream is another
    /// question.
    async fn connect(&self) -> Result<jetstream::Context, InfrastructureError> {
        let options = ConnectOptions::new().name(NAME).connection_timeout(PATIENCE).request_timeout(Some(PATIENCE));
        // One that breaks while it is used is an answer, too.
        let options = options.max_reconnects(1).ignore_discovered_servers();
        let options = options.tls_client_config(outbound::client_config(&self.credentials.trust)?);
        let options = options.require_tls(self.credentials.trust.authorities.is_some());
        let options = match self.credentials.nats.clone() {
            NatsLogin::Anonymous => options,
            NatsLogin::Password(user, password) => options.user_and_password(user, password),
            NatsLogin::Token(token) => options.token(token),
            NatsLogin::Nkey(seed) => options.nkey(seed),
            NatsLogin::CredentialsFile(file) => {
                options.credentials(&file).map_err(|_| self.failed(&"nats-creds is no credentials file"))?
            }
        };
        let addresses: Vec<&str> = self.address.split(',').map(str::trim).filter(|one| !one.is_empty()).collect();
        let client = options.connect(addresses).await.map_err(|error| self.failed(&error))?;
        client.flush().await.map_err(|error| self.failed(&error))?;
        Ok(jetstream::new(client))
    }

    fn failed(&self, reason: &dyn std::fmt::Display) -> InfrastructureError {
        InfrastructureError::Nats { server: self.server(), reason: reason.to_string() }
    }

    /// The addresses as they are shown.
    fn server(&self) -> String {
        self.address.split(',').map(shown).collect::<Vec<_>>().join(",")
    }
}

/// The server, or our account in it, keeps no streams.
fn is_without_jetstream(kind: jetstream::context::AccountErrorKind) -> bool {
    use jetstream::{
        ErrorCode,
        context::AccountErrorKind::{JetStream, JetStreamUnavailable},
    };
    let without = [ErrorCode::JETSTREAM_NOT_ENABLED, ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT];
    match kind {
        JetStreamUnavailable => true,
        JetStream(error) => without.contains(&error.error_code()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_of_an_address_is_shown() {
        let nats = Nats::new("nats://me:secret@a:4222, b:4222", &Credentials::default());
        assert_eq!(nats.server(), "nats://a:4222,b:4222");
    }
}

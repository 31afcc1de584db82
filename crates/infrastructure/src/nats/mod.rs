//! NATS.

mod conversation;

use std::{future::Future, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio_rustls::TlsConnector;

use self::conversation::{Answer, Conversation};
use crate::{Credentials, Error, layout};

/// For a connection with its login.
const PATIENCE: Duration = Duration::from_secs(10);
/// For all streams of a namespace.
const CLEANING_PATIENCE: Duration = Duration::from_secs(30);
/// Errors of JetStream: there is none, or none for our account.
const WITHOUT_JETSTREAM: [u64; 2] = [10076, 10039];

/// One NATS system.
#[derive(Clone)]
pub struct Nats {
    addresses: Vec<Address>,
    credentials: Credentials,
}

impl Nats {
    /// The NATS at these addresses: `host:port` or URLs with the scheme `nats` or `tls`, separated by commas.
    pub fn new(addresses: &str, credentials: &Credentials) -> Self {
        let addresses = addresses.split(',').map(str::trim).filter(|one| !one.is_empty());
        Self { addresses: addresses.map(Address::read).collect(), credentials: credentials.clone() }
    }

    /// Whether a server lets us in and answers.
    ///
    /// # Errors
    /// If none does, and why.
    pub async fn check(&self) -> Result<(), Error> {
        self.within(PATIENCE, async { self.connect().await.map(drop) }).await
    }

    /// Removes every stream that belongs to a Dynamo namespace, and says how many there were. Without JetStream there is none.
    ///
    /// # Errors
    /// If one of them may still be there.
    pub async fn remove_namespace(&self, namespace: &str) -> Result<u64, Error> {
        self.within(CLEANING_PATIENCE, self.remove_streams(namespace)).await
    }

    async fn remove_streams(&self, namespace: &str) -> Result<u64, Error> {
        let mut conversation = self.connect().await?;
        let mut owned = Vec::new();
        let mut offset = 0;
        loop {
            let Some(page) = self.ask(&mut conversation, "STREAM.NAMES", &json!({ "offset": offset })).await? else {
                return Ok(0);
            };
            let names = page.get("streams").and_then(Value::as_array).cloned().unwrap_or_default();
            offset += names.len();
            owned.extend(
                names
                    .iter()
                    .filter_map(Value::as_str)
                    .filter(|name| layout::owns_stream(namespace, name))
                    .map(str::to_owned),
            );
            let total = page.get("total").and_then(Value::as_u64).unwrap_or_default();
            if names.is_empty() || offset as u64 >= total {
                break;
            }
        }
        for name in &owned {
            self.ask(&mut conversation, &format!("STREAM.DELETE.{name}"), &json!({})).await?;
        }
        Ok(owned.len() as u64)
    }

    /// Asks JetStream. None if there is no JetStream.
    async fn ask(&self, conversation: &mut Conversation, what: &str, body: &Value) -> Result<Option<Value>, Error> {
        let answer = conversation.request(&format!("$JS.API.{what}"), &body.to_string()).await;
        let Answer::Message(message) = answer.map_err(|reason| self.failed(reason))? else { return Ok(None) };
        let message: Value = serde_json::from_slice(&message).map_err(|error| self.failed(error.to_string()))?;
        let Some(error) = message.get("error") else { return Ok(Some(message)) };
        let code = error.get("err_code").and_then(Value::as_u64).unwrap_or_default();
        if WITHOUT_JETSTREAM.contains(&code) {
            return Ok(None);
        }
        let description = error.get("description").and_then(Value::as_str).unwrap_or("an error without description");
        Err(self.failed(format!("{what}: {description}")))
    }

    /// A conversation with the first server that lets us in.
    async fn connect(&self) -> Result<Conversation, Error> {
        let tls = TlsConnector::from(Arc::new(outbound::client_config(&self.credentials.trust)?));
        let mut reason = "there is no address".to_owned();
        for address in &self.addresses {
            match Conversation::begin(address, &self.credentials, &tls).await {
                Ok(conversation) => return Ok(conversation),
                Err(why) => reason = why,
            }
        }
        Err(self.failed(reason))
    }

    async fn within<T>(&self, patience: Duration, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let outcome = tokio::time::timeout(patience, work).await;
        outcome.unwrap_or_else(|_| Err(Error::TimedOut { server: self.server(), patience }))
    }

    fn failed(&self, reason: String) -> Error {
        Error::Nats { server: self.server(), reason }
    }

    fn server(&self) -> String {
        self.addresses.iter().map(|one| format!("{}:{}", one.host, one.port)).collect::<Vec<_>>().join(",")
    }
}

/// Where one server is.
#[derive(Clone, PartialEq, Eq)]
struct Address {
    host: String,
    port: u16,
    /// Whether TLS is wanted, whatever the server wants.
    secure: bool,
    /// User and password, if the address has them.
    login: Option<(String, String)>,
}

impl Address {
    fn read(text: &str) -> Self {
        let (scheme, rest) = text.split_once("://").unwrap_or(("nats", text));
        let rest = rest.trim_end_matches('/');
        let (login, place) = rest.rsplit_once('@').map_or((None, rest), |(login, place)| (Some(login), place));
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if port.parse::<u16>().is_ok() => (host, port.parse().unwrap_or(4222)),
            _ => (place, 4222),
        };
        let login = login.map(|login| login.split_once(':').unwrap_or((login, "")));
        Self {
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port,
            secure: scheme == "tls",
            login: login.map(|(user, password)| (user.to_owned(), password.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_runtime_reads_them() {
        let read = |text: &str| {
            let address = Address::read(text);
            (address.host, address.port, address.secure, address.login.is_some())
        };
        assert_eq!(read("nats://nats.dynamo:4222"), ("nats.dynamo".to_owned(), 4222, false, false));
        assert_eq!(read("nats"), ("nats".to_owned(), 4222, false, false));
        assert_eq!(read("tls://u:p@[::1]:1/"), ("::1".to_owned(), 1, true, true));
    }

    #[test]
    fn no_password_of_an_address_is_shown() {
        let nats = Nats::new("nats://me:secret@a:4222, b:4223", &Credentials::default());
        assert_eq!(nats.server(), "a:4222,b:4223");
    }
}

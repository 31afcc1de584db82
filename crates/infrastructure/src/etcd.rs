//! etcd, by `etcd-client`.

use std::error::Error as _;

use etcd_client::{
    Certificate, Client, Compare, CompareOp, ConnectOptions, GetOptions, Identity, TlsOptions, Txn, TxnOp,
};

use super::{CLEANING_PATIENCE, PATIENCE, shown, within};
use crate::{Credentials, InfrastructureError, layout};

/// Prefix of the keys that the runtime keeps; etcd can be used if they can be read.
const KEPT: &str = "v1/";
const SECURE: &str = "https://";

/// One etcd, with all its endpoints.
#[derive(Clone)]
pub struct Etcd {
    /// As `scheme://host:port`.
    endpoints: Vec<String>,
    options: ConnectOptions,
    /// For endpoints with TLS.
    tls: TlsOptions,
}

impl Etcd {
    /// The etcd at these addresses: `host:port` or URLs, separated by commas.
    ///
    /// # Errors
    /// If an address or a certificate cannot be used.
    pub fn new(addresses: &str, credentials: &Credentials) -> Result<Self, InfrastructureError> {
        // The client would find out only with the first question, and does not say what is wrong with which.
        outbound::client_config(&credentials.trust)?;
        let addresses = addresses.split(',').map(str::trim).filter(|address| !address.is_empty());
        let endpoints: Vec<String> = addresses.map(|address| with_scheme(address, credentials)).collect();
        if endpoints.is_empty() {
            return Err(no_server());
        }
        let options = ConnectOptions::new();
        let options = match credentials.etcd.clone() {
            Some((name, password)) => options.with_user(name, password),
            None => options,
        };
        Ok(Self { endpoints, options, tls: tls(credentials) })
    }

    /// Whether what the runtime keeps can be read.
    ///
    /// # Errors
    /// If it cannot, and why.
    pub async fn check(&self) -> Result<(), InfrastructureError> {
        self.connect().await.map(drop)
    }

    /// Removes the keys of a Dynamo namespace that have no lease, and returns their number. Those with a lease are
    /// of a process that lives, or go by themselves.
    ///
    /// # Errors
    /// If one of them may still be there.
    pub async fn remove_namespace(&self, namespace: &str) -> Result<u64, InfrastructureError> {
        let mut session = self.connect().await?;
        within(session.server.clone(), CLEANING_PATIENCE, session.remove(layout::etcd_prefixes(namespace))).await
    }

    /// Removes the keys of one component: another one may register under its name.
    ///
    /// # Errors
    /// If one of them may still be there.
    pub async fn remove_component(&self, namespace: &str, component: &str) -> Result<u64, InfrastructureError> {
        let mut session = self.connect().await?;
        let prefixes = layout::etcd_component_prefixes(namespace, component);
        within(session.server.clone(), CLEANING_PATIENCE, session.remove(prefixes)).await
    }

    /// A connection to the first endpoint that answers. The client's own choice among several would be one by chance,
    /// of one that is down, too.
    async fn connect(&self) -> Result<Session, InfrastructureError> {
        let mut outcome = Err(no_server());
        for endpoint in &self.endpoints {
            outcome = within(shown(endpoint), PATIENCE, self.connect_to(endpoint)).await;
            if !matches!(outcome, Err(InfrastructureError::Connection(_))) {
                break;
            }
        }
        outcome
    }

    async fn connect_to(&self, endpoint: &str) -> Result<Session, InfrastructureError> {
        let options = self.options.clone();
        let options = if endpoint.starts_with(SECURE) { options.with_tls(self.tls.clone()) } else { options };
        let server = shown(endpoint);
        let client = Client::connect([endpoint], Some(options)).await.map_err(|error| failure(&server, &error))?;
        let mut session = Session { server, client };
        let read = session.client.get(KEPT, Some(GetOptions::new().with_prefix().with_count_only())).await;
        read.map_err(|error| failure(&session.server, &error))?;
        Ok(session)
    }
}

/// A connection whose first answer has come.
struct Session {
    /// Its address as it is shown.
    server: String,
    client: Client,
}

impl Session {
    async fn remove(&mut self, prefixes: Vec<String>) -> Result<u64, InfrastructureError> {
        let mut removed = 0;
        for prefix in prefixes {
            let found = self.client.get(prefix, Some(GetOptions::new().with_prefix().with_keys_only())).await;
            let found = found.map_err(|error| failure(&self.server, &error))?;
            for key in found.kvs().iter().filter(|key| key.lease() == 0) {
                // Not if it was written since: it may have a lease now.
                let unchanged = Compare::mod_revision(key.key(), CompareOp::Equal, key.mod_revision());
                let deletion = Txn::new().when([unchanged]).and_then([TxnOp::delete(key.key(), None)]);
                let answer = self.client.txn(deletion).await.map_err(|error| failure(&self.server, &error))?;
                removed += u64::from(answer.succeeded());
            }
        }
        Ok(removed)
    }
}

fn no_server() -> InfrastructureError {
    outbound::OutboundError::Address { address: String::new(), reason: "it names no server".to_owned() }.into()
}

/// Distinguishes answers of etcd from failures to send a request.
fn failure(server: &str, error: &etcd_client::Error) -> InfrastructureError {
    let server = server.to_owned();
    match error {
        etcd_client::Error::GRpcStatus(status) => match status.source() {
            None => InfrastructureError::Etcd { server, reason: status.message().to_owned() },
            Some(source) => outbound::OutboundError::Unreachable { server, reason: cause(source) }.into(),
        },
        etcd_client::Error::TransportError(error) => {
            outbound::OutboundError::Unreachable { server, reason: cause(error) }.into()
        }
        error => outbound::OutboundError::Address { address: server, reason: error.to_string() }.into(),
    }
}

/// Returns the first cause of an error; the outer errors only report that a call or a connection failed.
fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

fn tls(credentials: &Credentials) -> TlsOptions {
    let trust = &credentials.trust;
    let tls = match &trust.authorities {
        Some(pem) => TlsOptions::new().ca_certificate(Certificate::from_pem(pem)),
        None => TlsOptions::new().with_native_roots(),
    };
    match &trust.identity {
        Some(identity) => tls.identity(Identity::from_pem(&identity.certificate, &identity.key)),
        None => tls,
    }
}

/// Without a scheme: TLS if there are trust roots.
fn with_scheme(address: &str, credentials: &Credentials) -> String {
    let address = address.trim_end_matches('/');
    match (address.contains("://"), credentials.trust.authorities.is_some()) {
        (true, _) => address.to_owned(),
        (false, true) => format!("{SECURE}{address}"),
        (false, false) => format!("http://{address}"),
    }
}

#[cfg(test)]
mod tests {
    use outbound::Trust;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_password_of_an_address_is_shown() {
        let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mute = format!("me:secret@{}", mute.local_addr().unwrap());
        for address in ["http://me:secret@127.0.0.1:1", "http://me:secret@no host:1", "me:secret@", mute.as_str()] {
            let etcd = Etcd::new(address, &Credentials::default()).unwrap();
            let reported = etcd.check().await.unwrap_err().to_string();
            assert!(!reported.contains("secret"), "{reported}");
        }
    }

    #[test]
    fn addresses_are_read_as_the_runtime_reads_them() {
        let open = Credentials::default();
        let trust = Trust { authorities: Some(b"x".to_vec()), ..Trust::default() };
        let secured = Credentials { trust, ..Credentials::default() };
        assert_eq!(with_scheme("etcd:2379", &open), "http://etcd:2379");
        assert_eq!(with_scheme("etcd:2379", &secured), "https://etcd:2379");
        assert_eq!(with_scheme("http://etcd:2379/", &secured), "http://etcd:2379");
        assert!(Etcd::new(" , ", &open).is_err());
        assert!(Etcd::new("etcd:2379", &secured).is_err(), "x is no certificate");
        assert_eq!(Etcd::new("a:1, http://b:2", &open).unwrap().endpoints, ["http://a:1", "http://b:2"]);
    }
}

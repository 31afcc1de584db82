//! TLS for metrics, with a certificate that the process makes when it starts. Clients cannot verify it: it keeps their
//! tokens from who listens on the network.

use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{ServerConfig, crypto::ring, pki_types::PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

/// The name in the certificate.
const NAME: &str = "localhost";

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// It cannot be made.
    #[error(transparent)]
    Certificate(#[from] rcgen::Error),
    /// It cannot be served.
    #[error(transparent)]
    Serving(#[from] rustls::Error),
}

/// Accepts connections with a new certificate.
pub(super) fn acceptor() -> Result<TlsAcceptor, TlsError> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed([NAME.to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.with_no_client_auth();
    let mut config = builder.with_single_cert(vec![cert.der().clone()], key.into())?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

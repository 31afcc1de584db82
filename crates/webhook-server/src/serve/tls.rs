//! The certificate that is served, replaced without touching connections.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::{
    ServerConfig,
    crypto::ring,
    server::{ClientHello, ResolvesServerCert, danger::ClientCertVerifier},
    sign::CertifiedKey,
};

/// What clients may speak. API servers ask webhooks in HTTP/1.1 and offer nothing else; one connection of HTTP/2 could
/// carry any number of requests.
const PROTOCOLS: [&[u8]; 1] = [b"http/1.1"];

/// The certificate for new connections. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Serving {
    current: Arc<RwLock<Option<Arc<CertifiedKey>>>>,
}

impl Serving {
    /// From now on, new connections get this certificate.
    pub fn replace(&self, key: CertifiedKey) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(key));
    }

    /// Whether there is a certificate at all. Until then every handshake fails.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.current.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// How connections are secured, with clients that this verifier accepts.
    ///
    /// # Errors
    /// Never in practice: the protocol versions are those of the provider.
    pub fn config(&self, clients: Arc<dyn ClientCertVerifier>) -> Result<ServerConfig, rustls::Error> {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions()?.with_client_cert_verifier(clients);
        let mut config = builder.with_cert_resolver(Arc::new(self.clone()));
        config.alpn_protocols = PROTOCOLS.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(config)
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

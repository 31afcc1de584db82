//! TLS trust roots and client identity.

use std::sync::Arc;

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::OutboundError;

/// TLS trust roots and client identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Authorities as PEM; those of the machine if there are none.
    pub authorities: Option<Vec<u8>>,
    /// Authorities as PEM that are trusted beside those.
    pub additional: Option<Vec<u8>>,
    /// Our own certificate, for servers that require one.
    pub identity: Option<Identity>,
}

/// A certificate and its key.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate as PEM, with what leads to its authority.
    pub certificate: Vec<u8>,
    /// Its key as PEM.
    pub key: Vec<u8>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity(…)")
    }
}

/// Makes ring the provider of libraries that use the one of the process, unless it has one already. Returns whether
/// this machine has any authorities for them.
pub fn provide_tls() -> bool {
    // Fails only if there is a provider already, which then is the one to use.
    let _ = ring::default_provider().install_default();
    !rustls_native_certs::load_native_certs().certs.is_empty()
}

/// The TLS settings of a client.
///
/// # Errors
/// If a certificate or a key cannot be used.
pub fn client_config(trust: &Trust) -> Result<ClientConfig, OutboundError> {
    let unusable = |what| move |error: rustls::Error| OutboundError::Trust { what, reason: error.to_string() };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(unusable("TLS"))?;
    let builder = builder.with_root_certificates(roots(trust)?);
    let Some(identity) = &trust.identity else { return Ok(builder.with_no_client_auth()) };
    let key = PrivateKeyDer::from_pem_slice(&identity.key);
    let key = key.map_err(|error| OutboundError::Trust { what: "the client's key", reason: error.to_string() })?;
    let certificates = certificates(&identity.certificate, "the client's certificate")?;
    builder.with_client_auth_cert(certificates, key).map_err(unusable("the client's certificate"))
}

fn roots(trust: &Trust) -> Result<RootCertStore, OutboundError> {
    let mut roots = RootCertStore::empty();
    match trust.authorities.as_deref() {
        // A machine without authorities is one that talks to no server outside by TLS: it fails when it does.
        None => roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs),
        Some(pem) => roots.add_parsable_certificates(certificates(pem, "the authority's certificate")?),
    };
    if let Some(pem) = trust.additional.as_deref() {
        roots.add_parsable_certificates(certificates(pem, "the authority's certificate")?);
    }
    Ok(roots)
}

fn certificates(pem: &[u8], what: &'static str) -> Result<Vec<CertificateDer<'static>>, OutboundError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| OutboundError::Trust { what, reason: error.to_string() })?;
    if all.is_empty() {
        return Err(OutboundError::Trust { what, reason: "it holds no certificate in PEM form".to_owned() });
    }
    Ok(all)
}

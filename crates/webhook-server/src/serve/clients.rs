//! Client certificates: with `--client-ca-file`, admission is for clients whose certificate a CA of that file signed.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use rustls::{
    RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
    server::{VerifierBuilderError, WebPkiClientVerifier, danger::ClientCertVerifier},
};
use tokio::{sync::watch, time::sleep};
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

use super::Serving;

/// Time between two reads of the file. A kubelet takes longer to bring a change of a ConfigMap to its pods.
const REREAD: Duration = Duration::from_secs(5);

/// Whose connections are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clients {
    /// Everyone's.
    Any,
    /// Those with a certificate that a CA in this file signed. API servers authenticate for admission and never for
    /// conversion: a server that converts accepts connections without a certificate for that.
    SignedBy {
        /// The CAs, as PEM.
        file: PathBuf,
        /// Whether connections for conversion are accepted.
        converts: bool,
    },
}

/// Why clients cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum ClientsError {
    /// The file of CAs cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        /// As given.
        file: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// It has other content than certificates.
    #[error("{}: no PEM file of CA certificates: {reason}", file.display())]
    Content {
        /// As given.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// TLS.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

impl Clients {
    /// Whether admission is for clients with a certificate only.
    #[must_use]
    pub fn are_verified(&self) -> bool {
        *self != Self::Any
    }

    /// What accepts connections, and the content of the file that it was made from.
    ///
    /// # Errors
    /// If there is a file and it cannot be used.
    pub fn acceptor(&self, serving: &Serving) -> Result<(TlsAcceptor, Vec<u8>), ClientsError> {
        let content = self.read()?;
        Ok((TlsAcceptor::from(Arc::new(serving.config(self.verifier(&content)?)?)), content))
    }

    /// Replaces the acceptor after each change of the file, and keeps it while the file cannot be used. Sessions of
    /// clients that an earlier CA signed are not resumed: they are kept in the acceptor.
    pub async fn follow(&self, serving: &Serving, mut used: Vec<u8>, acceptor: watch::Sender<TlsAcceptor>) {
        if *self == Self::Any {
            return std::future::pending().await;
        }
        let mut rejected = None;
        loop {
            sleep(REREAD).await;
            if self.read().is_ok_and(|content| content == used) {
                rejected = None;
                continue;
            }
            match self.acceptor(serving) {
                Ok((current, content)) => {
                    acceptor.send_replace(current);
                    (used, rejected) = (content, None);
                    info!("loaded the changed CAs of clients");
                }
                Err(error) => {
                    let error = error.to_string();
                    if rejected.as_ref() != Some(&error) {
                        warn!(%error, "kept the earlier CAs of clients");
                        rejected = Some(error);
                    }
                }
            }
        }
    }

    fn read(&self) -> Result<Vec<u8>, ClientsError> {
        match self {
            Self::Any => Ok(Vec::new()),
            Self::SignedBy { file, .. } => {
                fs::read(file).map_err(|source| ClientsError::Read { file: file.clone(), source })
            }
        }
    }

    fn verifier(&self, content: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, ClientsError> {
        let Self::SignedBy { file, converts } = self else { return Ok(WebPkiClientVerifier::no_client_auth()) };
        let useless = |reason: String| ClientsError::Content { file: file.clone(), reason };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(content) {
            let certificate = certificate.map_err(|error| useless(error.to_string()))?;
            roots.add(certificate).map_err(|error| useless(error.to_string()))?;
        }
        let provider = Arc::new(ring::default_provider());
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let builder = if *converts { builder.allow_unauthenticated() } else { builder };
        builder.build().map_err(|error: VerifierBuilderError| useless(error.to_string()))
    }
}

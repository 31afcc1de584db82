//! Accepts connections, ends them in an orderly way, and replaces the certificate that is served without touching them.
//!
//! With `--client-ca-file`, admission is for clients whose certificate a CA of that file signed.

use std::{
    convert::Infallible,
    fs,
    path::PathBuf,
    pin::pin,
    sync::{Arc, PoisonError, RwLock, atomic::Ordering},
    time::Duration,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert, VerifierBuilderError, WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::CertifiedKey,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};

use super::{
    Service,
    peers::{ConnectedPeers, PeerConnection},
};

/// For each further one, one that waits for its client is ended. API servers keep a few each.
const CONNECTIONS: u32 = 512;
/// Maximum number of bytes that are kept of a connection's input and output.
const BUFFER: usize = 64 << 10;
/// After an accept that failed, for example because there are no file descriptors left.
const BREATH: Duration = Duration::from_millis(100);

/// After the signal to stop, new connections are still accepted for this long, until all clients have observed that the
/// server is not ready any more.
const LINGER: Duration = Duration::from_secs(5);
/// Requests that are under way at the end may take this long. That is as long as a request may take, nearly: most are
/// answered in a thousandth of it.
const FINISH: Duration = Duration::from_secs(4);

/// The longest that a drain takes whose clients have the time `idle`, with a second for the rest of the process.
#[must_use]
pub fn drain_grace(idle: Duration) -> Duration {
    LINGER + idle + FINISH + Duration::from_secs(1)
}

/// Serves until `stop` is done, then drains.
///
/// From `stop` on, answers have clients open a new connection for their next request, which then reaches a
/// server that stays. For the time `idle`, clients may keep connections that they do not use. A server that closes such
/// a connection cannot detect whether a request is on its way, and API servers send no request twice; so the client
/// must close it.
pub async fn serve(
    listener: TcpListener,
    tls: watch::Receiver<TlsAcceptor>,
    service: Service,
    stop: impl Future<Output = ()>,
    idle: Duration,
) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS as usize));
    let graceful = watch::Sender::new(false);
    let peers = Arc::<ConnectedPeers>::default();
    let service = Arc::new(service);
    let end = async {
        stop.await;
        service.draining.store(true, Ordering::Relaxed);
        info!(seconds = LINGER.as_secs_f64(), "draining: still serving until clients send no more requests");
        sleep(LINGER).await;
    };
    let accept_all = async {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    if slots.available_permits() == 0 && !peers.end_one() {
                        debug!("all connections are worked on; the next one waits");
                    }
                    // It is never closed.
                    let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
                    let own = peers.connected(peer.ip().to_canonical());
                    let acceptor = tls.borrow().clone();
                    let talk = talk(stream, acceptor, Arc::clone(&service), graceful.subscribe(), Arc::clone(&own));
                    let served = Arc::clone(&own);
                    let task = tokio::spawn(async move {
                        tokio::select! {
                            () = served.overdue() => debug!("the client took too long"),
                            () = talk => {}
                        }
                        drop(slot);
                    });
                    own.is_served_by(task.abort_handle());
                }
                Err(error) => {
                    warn!(%error, "cannot accept a connection; trying again");
                    sleep(BREATH).await;
                }
            }
        }
    };
    tokio::select! {
        () = end => {}
        () = accept_all => {}
    }
    drop(listener);
    if timeout(idle, slots.acquire_many(CONNECTIONS)).await.is_ok() {
        return;
    }
    graceful.send_replace(true);
    if timeout(FINISH, slots.acquire_many(CONNECTIONS)).await.is_err() {
        warn!("requests were still under way when the time for them was over");
    }
}

async fn talk(
    stream: TcpStream,
    tls: TlsAcceptor,
    service: Arc<Service>,
    mut graceful: watch::Receiver<bool>,
    own: Arc<PeerConnection>,
) {
    // Answers are small and waited for. It fails only on a socket that is gone.
    let _ = stream.set_nodelay(true);
    let stream = match tls.accept(stream).await {
        Ok(stream) => stream,
        Err(error) => return debug!(%error, "no TLS connection"),
    };
    let identified = stream.get_ref().1.peer_certificates().is_some();
    let answer = service_fn(move |request| {
        let (service, own) = (Arc::clone(&service), Arc::clone(&own));
        async move { Ok::<_, Infallible>(service.call(request, own, identified).await) }
    });
    let served = http1::Builder::new().max_buf_size(BUFFER).serve_connection(TokioIo::new(stream), answer);
    let mut served = pin!(served);
    // Fails only when the server has ended.
    let requested = async { graceful.wait_for(|requested| *requested).await.is_ok() };
    let done = tokio::select! {
        done = &mut served => done,
        _ = requested => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = done {
        debug!(%error, "a connection broke");
    }
}

/// Protocols that clients may use. API servers call webhooks in HTTP/1.1 and offer nothing else; one connection of
/// HTTP/2 could carry any number of requests.
const PROTOCOLS: [&[u8]; 1] = [b"http/1.1"];

/// The certificate for new connections; without one, every handshake fails. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct CurrentCertificate {
    current: Arc<RwLock<Option<Arc<CertifiedKey>>>>,
}

impl CurrentCertificate {
    /// From now on, new connections get this certificate.
    pub fn replace(&self, key: CertifiedKey) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(key));
    }

    /// Returns the TLS configuration of connections, with clients that this verifier accepts.
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

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Time between two reads of the file. A kubelet takes longer to bring a change of a ConfigMap to its pods.
const REREAD: Duration = Duration::from_secs(5);

/// Clients whose connections are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clients {
    /// All clients.
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

/// Reason why clients cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum ClientsError {
    /// The file of CAs cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        /// As given.
        file: PathBuf,
        /// Reason.
        source: std::io::Error,
    },
    /// It has other content than certificates.
    #[error("{}: no PEM file of CA certificates: {reason}", file.display())]
    Content {
        /// As given.
        file: PathBuf,
        /// Description of the error.
        reason: String,
    },
    /// TLS.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

impl Clients {
    /// Returns the acceptor of connections, and the content of the file that it was made from.
    ///
    /// # Errors
    /// If there is a file and it cannot be used.
    pub fn acceptor(&self, serving: &CurrentCertificate) -> Result<(TlsAcceptor, Vec<u8>), ClientsError> {
        let content = self.read()?;
        Ok((TlsAcceptor::from(Arc::new(serving.config(self.verifier(&content)?)?)), content))
    }

    /// Replaces the acceptor after each change of the file, and keeps it while the file cannot be used. Sessions of
    /// clients that an earlier CA signed are not resumed: they are kept in the acceptor.
    pub async fn follow(&self, serving: &CurrentCertificate, mut used: Vec<u8>, acceptor: watch::Sender<TlsAcceptor>) {
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
        let Self::SignedBy { file, .. } = self else { return Ok(Vec::new()) };
        fs::read(file).map_err(|source| ClientsError::Read { file: file.clone(), source })
    }

    fn verifier(&self, content: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, ClientsError> {
        let Self::SignedBy { file, converts } = self else { return Ok(WebPkiClientVerifier::no_client_auth()) };
        let useless = |reason: String| ClientsError::Content { file: file.clone(), reason };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(content) {
            let certificate = certificate.map_err(|error| useless(error.to_string()))?;
            roots.add(certificate).map_err(|error| useless(error.to_string()))?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(ring::default_provider()));
        let builder = if *converts { builder.allow_unauthenticated() } else { builder };
        builder.build().map_err(|error: VerifierBuilderError| useless(error.to_string()))
    }
}

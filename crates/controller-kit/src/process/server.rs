//! Plain HTTP for probes, and HTTPS or plain HTTP for metrics, with its certificate. Any pod of the cluster may
//! connect, so connections are few and short.

use std::{collections::VecDeque, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{ServerConfig, crypto::ring, pki_types::PrivatePkcs8KeyDer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Mutex,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tower::{BoxError, Service};
use tracing::{info, warn};

use super::{
    Readiness, StartError,
    authorization::{Authorizer, Denial, PATH},
};
use crate::metrics::Metrics;

/// The type of the OpenMetrics text format.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Open connections of an address. A further one ends the oldest, so that idle ones keep no probe from its answer.
const CONNECTIONS: usize = 64;
/// The longest that a connection is open. It serves one request.
const LIFETIME: Duration = Duration::from_secs(10);
/// The most that is read of the head of a request.
const HEAD: usize = 16 << 10;
/// Time for which a text of the metrics is served before another one is made: making one takes time for each object of
/// the caches.
const FRESH: Duration = Duration::from_secs(1);
/// After an accept that failed, for example because there are no file descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

/// Metrics as they are served. Cheap to clone; all clones are one.
#[derive(Clone)]
struct ServedMetrics {
    metrics: Metrics,
    authorizer: Option<Authorizer>,
    text: Arc<Mutex<Option<(Instant, Bytes)>>>,
}

/// Listens before it returns; requests are answered in the background. Each address serves its own paths; if both
/// addresses are one and nothing is protected, it serves all. Metrics are protected by TLS and by reviews of clients.
pub(super) async fn start(
    health: SocketAddr,
    metrics: SocketAddr,
    readiness: &Readiness,
    registry: &Metrics,
    protection: Option<(TlsAcceptor, Authorizer)>,
) -> Result<(), StartError> {
    let probes = probes(readiness.clone());
    let (tls, authorizer) = protection.unzip();
    let numbers = numbers(registry.clone(), authorizer);
    let servers = if health == metrics && tls.is_none() {
        vec![(health, "health and metrics", probes.merge(numbers), None)]
    } else {
        vec![(health, "health", probes, None), (metrics, "metrics", numbers, tls)]
    };
    for (address, what, router, tls) in servers {
        let listener = TcpListener::bind(address).await.map_err(|source| StartError::Listen { address, source })?;
        info!(address = %listener.local_addr().unwrap_or(address), tls = tls.is_some(), "serving {what}");
        tokio::spawn(accept(listener, tls, router));
    }
    Ok(())
}

fn probes(readiness: Readiness) -> Router {
    let ready = Router::new().route("/readyz", get(show_ready)).with_state(readiness);
    ready.route("/healthz", get(|| async { "ok" }))
}

fn numbers(metrics: Metrics, authorizer: Option<Authorizer>) -> Router {
    let served = ServedMetrics { metrics, authorizer, text: Arc::default() };
    Router::new().route(PATH, get(show_metrics)).with_state(served)
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, router: Router) {
    let mut open = VecDeque::<JoinHandle<()>>::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "failed to accept a connection");
                sleep(PAUSE).await;
                continue;
            }
        };
        if open.len() >= CONNECTIONS {
            open.retain(|connection| !connection.is_finished());
        }
        if let Some(oldest) = (open.len() >= CONNECTIONS).then(|| open.pop_front()).flatten() {
            oldest.abort();
        }
        let (tls, router) = (tls.clone(), router.clone());
        open.push_back(tokio::spawn(async move {
            // A client that is gone or too slow is not worth a log line.
            let _ = timeout(LIFETIME, talk(stream, tls, router)).await;
        }));
    }
}

/// Serves one connection. Its errors are those of the client.
async fn talk(stream: TcpStream, tls: Option<TlsAcceptor>, router: Router) {
    let _ = match tls {
        None => answer(stream, router).await,
        Some(tls) => match tls.accept(stream).await {
            Ok(stream) => answer(stream, router).await,
            Err(_) => return,
        },
    };
}

async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin, router: Router) -> Result<(), hyper::Error> {
    let service = service_fn(move |request| router.clone().call(request));
    http1::Builder::new().keep_alive(false).max_buf_size(HEAD).serve_connection(TokioIo::new(stream), service).await
}

async fn show_metrics(State(served): State<ServedMetrics>, headers: HeaderMap) -> Result<Response, Denial> {
    if let Some(authorizer) = &served.authorizer {
        authorizer.authorize(&headers).await?;
    }
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], served.text().await).into_response())
}

impl ServedMetrics {
    /// The metrics as of at most [`FRESH`] ago.
    async fn text(&self) -> Bytes {
        let mut last = self.text.lock().await;
        match &*last {
            Some((at, text)) if at.elapsed() < FRESH => text.clone(),
            _ => {
                let text = Bytes::from(self.metrics.text());
                *last = Some((Instant::now(), text.clone()));
                text
            }
        }
    }
}

async fn show_ready(State(readiness): State<Readiness>) -> impl IntoResponse {
    match readiness.missing() {
        None => (StatusCode::OK, "ok".to_owned()),
        Some(missing) => (StatusCode::SERVICE_UNAVAILABLE, format!("waiting for {}", missing.join(", "))),
    }
}

/// The name in the certificate.
const NAME: &str = "localhost";

/// Accepts connections with a new certificate.
pub(super) fn acceptor() -> Result<TlsAcceptor, BoxError> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed([NAME.to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.with_no_client_auth();
    let mut config = builder.with_single_cert(vec![cert.der().clone()], key.into())?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// The address of a server of all paths.
    async fn started() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = probes(Readiness::default()).merge(numbers(Metrics::new(), None));
        tokio::spawn(accept(listener, None, router));
        address
    }

    async fn answered(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn idle_connections_keep_no_probe_from_its_answer() {
        let address = started().await;
        let mut idle = Vec::new();
        for _ in 0..2 * CONNECTIONS {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        let answer = timeout(LIFETIME / 2, answered(address, "/healthz")).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        // The first of the idle ones has been ended.
        let read = timeout(LIFETIME / 2, idle[0].read(&mut [0])).await.unwrap();
        assert!(!matches!(read, Ok(1..)), "{read:?}");
    }

    #[tokio::test]
    async fn a_connection_without_a_request_ends() {
        let mut idle = TcpStream::connect(started().await).await.unwrap();
        idle.write_all(b"GET /metr").await.unwrap();
        let read = timeout(LIFETIME * 2, idle.read(&mut [0])).await.unwrap();
        assert!(!matches!(read, Ok(1..)), "{read:?}");
    }

    #[tokio::test]
    async fn each_address_serves_its_own_paths() {
        let numbers = numbers(Metrics::new(), None);
        for (router, served, other) in
            [(probes(Readiness::default()), "/healthz", "/metrics"), (numbers, "/metrics", "/readyz")]
        {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(accept(listener, None, router));
            assert!(answered(address, served).await.starts_with("HTTP/1.1 200"), "{served}");
            assert!(answered(address, other).await.starts_with("HTTP/1.1 404"), "{other}");
        }
    }
    #[tokio::test(start_paused = true)]
    async fn a_text_of_the_metrics_is_made_once_a_second() {
        let metrics = Metrics::new();
        let served = ServedMetrics { metrics: metrics.clone(), authorizer: None, text: Arc::default() };
        let before = served.text().await;
        metrics.write_skipped("Service");
        assert_eq!(served.text().await, before);
        tokio::time::advance(FRESH).await;
        assert_ne!(served.text().await, before);
    }
}

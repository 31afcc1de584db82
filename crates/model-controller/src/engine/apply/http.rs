//! One request to one engine, over a connection of its own.

use std::{
    fmt,
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::{
    engine::{
        Outcome, Request,
        protocol::{MAX_RESPONSE_BYTES, encode, outcome_of},
    },
    metrics::EngineMetrics,
};

/// Time limit of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maps the addresses of engines.
#[derive(Clone, Default)]
pub struct Dial(Option<Arc<dyn Fn(SocketAddr) -> SocketAddr + Send + Sync>>);

impl Dial {
    /// Connects to other addresses. For tests, whose engines listen on addresses that no endpoint may have.
    pub fn through(map: impl Fn(SocketAddr) -> SocketAddr + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(map)))
    }

    fn resolve(&self, socket: SocketAddr) -> SocketAddr {
        self.0.as_ref().map_or(socket, |map| map(socket))
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Dial::through(…)" } else { "Dial::default()" })
    }
}

/// HTTP client for engines. Cheap to clone.
///
/// Every request has its own connection: requests are rare, and engines need not keep connections open. Redirects are
/// not followed. There is no authentication and no TLS, because the runtime has none on this port.
#[derive(Clone, Debug)]
pub struct Http {
    dial: Dial,
    metrics: EngineMetrics,
}

impl Http {
    /// A client that counts its requests in `metrics`.
    pub fn new(dial: Dial, metrics: EngineMetrics) -> Self {
        Self { dial, metrics }
    }

    /// Sends one request, and returns its outcome within its timeout.
    pub async fn send(&self, engine: SocketAddr, request: &Request) -> Outcome {
        let start = Instant::now();
        let exchange = exchange(engine, self.dial.resolve(engine), request);
        let outcome = match tokio::time::timeout(request.timeout(), exchange).await {
            Ok(Ok((status, body))) => outcome_of(request, status, &body),
            Ok(Err(reason)) => Outcome::Unreachable { reason },
            Err(_) => Outcome::TimedOut,
        };
        self.metrics.request_finished(request, &outcome, start.elapsed());
        outcome
    }
}

async fn exchange(engine: SocketAddr, socket: SocketAddr, request: &Request) -> Result<(StatusCode, Bytes), String> {
    let (method, path, body) = encode(request);
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, engine.to_string())
        .header(header::USER_AGENT, concat!("dynamo-model-controller/", env!("CARGO_PKG_VERSION")))
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONNECTION, "close")
        .body(Full::new(Bytes::from(body.unwrap_or_default())))
        .map_err(|error| error.to_string())?;
    let stream = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(socket)).await;
    let stream = stream.map_err(|_| "no connection in time".to_owned())?.map_err(|error| error.to_string())?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let exchange = async {
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_RESPONSE_BYTES).collect().await;
        // The status of a response that is too long still counts.
        Ok((status, body.map(http_body_util::Collected::to_bytes).unwrap_or_default()))
    };
    let mut exchange = pin!(exchange);
    tokio::select! {
        answer = &mut exchange => answer,
        // The connection ends when everything is read; the response is still to be returned.
        _ = connection => exchange.await,
    }
}

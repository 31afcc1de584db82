//! Plain HTTP for probes. Any pod of the cluster may connect, so connections are few and short.

use std::{
    collections::VecDeque,
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use http::{Method, Request, Response, StatusCode};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::{sleep, timeout},
};

/// Open connections. A further one ends the oldest, so that idle ones keep no probe from its answer.
const CONNECTIONS: usize = 64;
/// The longest that a connection is open. It serves one request.
const LIFETIME: Duration = Duration::from_secs(10);
/// The most that is read of the head of a request.
const HEAD: usize = 16 << 10;
/// After an accept that failed, for example because there are no file descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether the definitions are as they should be.
#[derive(Clone, Debug, Default)]
pub(super) struct DefinitionReadiness(Arc<AtomicBool>);

impl DefinitionReadiness {
    pub fn set(&self, is_ready: bool) {
        self.0.store(is_ready, Ordering::Relaxed);
    }

    fn answer(&self, method: &Method, path: &str) -> (StatusCode, &'static str) {
        match path {
            "/healthz" | "/readyz" if method != Method::GET && method != Method::HEAD => {
                (StatusCode::METHOD_NOT_ALLOWED, "")
            }
            "/readyz" if !self.0.load(Ordering::Relaxed) => {
                (StatusCode::SERVICE_UNAVAILABLE, "waiting for definitions to be applied; the log has the errors")
            }
            "/healthz" | "/readyz" => (StatusCode::OK, "ok"),
            _ => (StatusCode::NOT_FOUND, ""),
        }
    }
}

/// Listens before it returns; requests are answered in the background.
pub(super) async fn start(address: SocketAddr, readiness: DefinitionReadiness) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    tokio::spawn(accept(listener, readiness));
    Ok(())
}

async fn accept(listener: TcpListener, readiness: DefinitionReadiness) {
    let mut open = VecDeque::<JoinHandle<()>>::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                eprintln!("failed to accept a connection: {error}");
                sleep(PAUSE).await;
                continue;
            }
        };
        open.retain(|connection| !connection.is_finished());
        if let Some(oldest) = (open.len() >= CONNECTIONS).then(|| open.pop_front()).flatten() {
            oldest.abort();
        }
        let readiness = readiness.clone();
        open.push_back(tokio::spawn(async move {
            // A client that is gone or too slow is not worth a log line.
            let _ = timeout(LIFETIME, answer(stream, readiness)).await;
        }));
    }
}

async fn answer(stream: TcpStream, readiness: DefinitionReadiness) -> Result<(), hyper::Error> {
    let service = service_fn(move |request: Request<Incoming>| {
        let (status, text) = readiness.answer(request.method(), request.uri().path());
        let mut response = Response::new(text.to_owned());
        *response.status_mut() = status;
        async { Ok::<_, Infallible>(response) }
    });
    http1::Builder::new().keep_alive(false).max_buf_size(HEAD).serve_connection(TokioIo::new(stream), service).await
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn answered(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.lines().next().unwrap().to_owned()
    }

    #[tokio::test]
    async fn probes_are_answered_while_connections_are_idle() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let readiness = DefinitionReadiness::default();
        tokio::spawn(accept(listener, readiness.clone()));
        let mut idle = Vec::new();
        for _ in 0..2 * CONNECTIONS {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        assert_eq!(answered(address, "/healthz").await, "HTTP/1.1 200 OK");
        assert_eq!(answered(address, "/readyz").await, "HTTP/1.1 503 Service Unavailable");
        assert_eq!(answered(address, "/other").await, "HTTP/1.1 404 Not Found");
        readiness.set(true);
        assert_eq!(answered(address, "/readyz").await, "HTTP/1.1 200 OK");
    }
}

//! Accepts connections, and ends them in an orderly way.

use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};

use super::Service;

/// More connections wait in the kernel. API servers keep a few each.
const CONNECTIONS: usize = 512;
/// The longest a client may take to agree on TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The longest a connection may be idle, and the longest the head of a request may take. API servers end connections that
/// were idle for 90 s; if we were first, a request could get lost in between.
const IDLE: Duration = Duration::from_secs(150);
/// After an accept that failed, for example because there are no file descriptors left.
const BREATH: Duration = Duration::from_millis(100);

/// How long what takes when the server is told to stop. Both together stay below the grace of the process.
#[derive(Debug, Clone, Copy)]
pub struct Drain {
    /// New connections are still accepted for this long, until everybody has heard that the server is not ready any more.
    pub linger: Duration,
    /// Requests that are then under way may take this long.
    pub finish: Duration,
}

impl Default for Drain {
    fn default() -> Self {
        Self { linger: Duration::from_secs(5), finish: Duration::from_secs(4) }
    }
}

/// Serves until `stop` is done, then drains.
///
/// From `stop` on, answers over HTTP/1.1 ask clients to open a new connection for their next request, which then reaches a
/// server that stays.
pub async fn serve(
    listener: TcpListener,
    tls: TlsAcceptor,
    service: Service,
    stop: impl Future<Output = ()>,
    drain: Drain,
) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    let graceful = GracefulShutdown::new();
    let draining = service.draining();
    let end = async {
        stop.await;
        draining.set();
        info!(seconds = drain.linger.as_secs_f64(), "draining: still serving until nobody sends requests here");
        sleep(drain.linger).await;
    };
    let accept_all = async {
        loop {
            // Closed never: nobody closes it.
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let connection = connection(stream, tls.clone(), service.clone(), graceful.watcher(), slot);
                    tokio::spawn(connection);
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
    if timeout(drain.finish, graceful.shutdown()).await.is_err() {
        warn!("requests were still under way when the time for them was over");
    }
}

async fn connection(
    stream: TcpStream,
    tls: TlsAcceptor,
    service: Service,
    watcher: Watcher,
    _slot: OwnedSemaphorePermit,
) {
    // Answers are small and waited for. It fails only on a socket that is gone.
    let _ = stream.set_nodelay(true);
    let stream = match timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "no TLS connection"),
        Err(_) => return debug!("no TLS connection in time"),
    };
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(IDLE);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(IDLE / 2);
    let served = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(served).await {
        debug!(%error, "a connection broke");
    }
}

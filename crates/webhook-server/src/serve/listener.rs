//! Accepts connections, and ends them in an orderly way.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};

use super::Service;

/// More connections wait in the kernel. API servers keep a few each.
const CONNECTIONS: u32 = 512;
/// What TLS calls HTTP/2.
const HTTP_2: &[u8] = b"h2";
/// The longest a client may take to agree on TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The longest a connection may be idle, and the longest the head of a request may take. API servers end connections that
/// were idle for 90 s; if we were first, a request could get lost in between.
const IDLE: Duration = Duration::from_secs(150);
/// After an accept that failed, for example because there are no file descriptors left.
const BREATH: Duration = Duration::from_millis(100);

/// How long what takes when the server is told to stop.
#[derive(Debug, Clone, Copy)]
pub struct Drain {
    /// New connections are still accepted for this long, until everybody has heard that the server is not ready any more.
    pub linger: Duration,
    /// How long clients may then keep connections that they do not use. Whoever ends such a connection cannot know whether a
    /// request is on its way, and API servers send none twice; so it is the client who shall end it.
    pub idle: Duration,
    /// Requests that are then under way may take this long.
    pub finish: Duration,
}

impl Drain {
    /// So that everybody has heard.
    const LINGER: Duration = Duration::from_secs(5);
    /// As long as a request may take, nearly: most are answered in a thousandth of it.
    const FINISH: Duration = Duration::from_secs(4);

    /// With so much time for clients to give up connections.
    #[must_use]
    pub fn waiting(idle: Duration) -> Self {
        Self { linger: Self::LINGER, idle, finish: Self::FINISH }
    }

    /// The longest that all of it takes, with a second for the rest of the process.
    #[must_use]
    pub fn grace(self) -> Duration {
        self.linger + self.idle + self.finish + Duration::from_secs(1)
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
    let slots = Arc::new(Semaphore::new(CONNECTIONS as usize));
    let graceful = Graceful::default();
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
                    tokio::spawn(connection(stream, tls.clone(), service.clone(), graceful.clone(), slot));
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
    // HTTP/2 can end a connection without a doubt about requests on their way.
    graceful.http2.send_replace(true);
    if timeout(drain.idle, slots.acquire_many(CONNECTIONS)).await.is_ok() {
        return;
    }
    graceful.http1.send_replace(true);
    if timeout(drain.finish, slots.acquire_many(CONNECTIONS)).await.is_err() {
        warn!("requests were still under way when the time for them was over");
    }
}

/// Tells connections to end once the request that is under way is answered.
#[derive(Clone, Default)]
struct Graceful {
    http1: watch::Sender<bool>,
    http2: watch::Sender<bool>,
}

impl Graceful {
    /// Returns when a connection that speaks this protocol shall end.
    async fn requested(&self, http2: bool) {
        let of_protocol = if http2 { &self.http2 } else { &self.http1 };
        // Fails only when the sender is gone, and `self` holds it.
        let _ = of_protocol.subscribe().wait_for(|requested| *requested).await;
    }
}

async fn connection(
    stream: TcpStream,
    tls: TlsAcceptor,
    service: Service,
    graceful: Graceful,
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
    let http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP_2);
    let served = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    let mut served = pin!(served);
    let done = tokio::select! {
        done = &mut served => done,
        () = graceful.requested(http2) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = done {
        debug!(%error, "a connection broke");
    }
}

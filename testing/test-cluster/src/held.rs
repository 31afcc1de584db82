//! A second API server on the same etcd, whose watches of etcd can be held: it goes on answering, and its watch cache
//! grows old.

use std::{
    io,
    path::{Path, PathBuf},
};

use futures::stream;
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::{
    body::{Body, Bytes, Frame, Incoming},
    client, server,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::watch,
    task::JoinHandle,
};

/// The socket between the API server and etcd, in the directory of the cluster.
pub(crate) const SOCKET: &str = "held:0";
/// The method whose answers are held.
const WATCH: &str = "/etcdserverpb.Watch/Watch";

/// An API server beside that of the cluster. It ends with the cluster.
#[derive(Debug)]
pub struct HeldServer {
    kubeconfig: PathBuf,
    held: watch::Sender<bool>,
    relay: JoinHandle<()>,
}

impl HeldServer {
    /// Listens between the API server and etcd, both in `dir`.
    pub(crate) fn relay(dir: &Path, etcd: &str, kubeconfig: PathBuf) -> io::Result<Self> {
        let listener = UnixListener::bind(dir.join(SOCKET))?;
        let (held, is_held) = watch::channel(false);
        let relay = tokio::spawn(accept(listener, dir.join(etcd), is_held));
        Ok(Self { kubeconfig, held, relay })
    }

    /// Kubeconfig of this API server, with all rights.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// No event of etcd reaches the API server from now on.
    pub fn hold(&self) {
        self.held.send_replace(true);
    }

    /// All events reach it.
    pub fn release(&self) {
        self.held.send_replace(false);
    }
}

impl Drop for HeldServer {
    fn drop(&mut self) {
        self.relay.abort();
    }
}

async fn accept(listener: UnixListener, etcd: PathBuf, is_held: watch::Receiver<bool>) {
    while let Ok((stream, _)) = listener.accept().await {
        if let Ok(upstream) = UnixStream::connect(&etcd).await {
            tokio::spawn(connection(stream, upstream, is_held.clone()));
        }
    }
}

async fn connection(stream: UnixStream, upstream: UnixStream, is_held: watch::Receiver<bool>) {
    let upstream = client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(upstream)).await;
    let Ok((sender, upstream)) = upstream else { return };
    tokio::spawn(upstream);
    let service = service_fn(move |request: Request<Incoming>| {
        let (mut sender, is_held) = (sender.clone(), is_held.clone());
        async move {
            let is_watch = request.uri().path() == WATCH;
            let answer: Response<Incoming> = sender.send_request(request).await?;
            Ok::<_, hyper::Error>(answer.map(|body| held_body(body, is_watch.then_some(is_held))))
        }
    });
    // Ends with either side.
    let _ =
        server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

/// The same body; while it is held, its frames wait.
fn held_body(
    body: Incoming,
    is_held: Option<watch::Receiver<bool>>,
) -> impl Body<Data = Bytes, Error = hyper::Error> + Send + 'static {
    let frames = stream::unfold((body, is_held), |(mut body, mut is_held)| async move {
        let frame: Result<Frame<Bytes>, hyper::Error> = body.frame().await?;
        if let Some(is_held) = &mut is_held {
            // Without a sender nothing is held.
            let _ = is_held.wait_for(|held| !held).await;
        }
        Some((frame, (body, is_held)))
    });
    StreamBody::new(frames)
}

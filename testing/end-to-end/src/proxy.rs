//! An API server address that kills its client: a proxy in front of the real one, which ends the controller process
//! with SIGKILL at its writes, and remembers what it watches.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use http::{Method, header};
use kube::Client;
use test_cluster::{Cluster, Program, Signal};
use tokio::{
    net::TcpListener,
    sync::{Mutex, RwLock},
};

use crate::{BoxError, Harness, operators::program};

/// Point at which a write is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The API server has carried it out, the controller never hears of it. Every write.
    After,
    /// The API server never sees it. Every second attempt at the same object, or nothing would ever move.
    Before,
    /// Nowhere: the controller is only listened to.
    Never,
}

/// A watch that a controller has opened.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Watched {
    /// Plural name of the kind.
    pub resource: String,
    /// Its label selector, encoded as in the address; empty if there is none.
    pub labels: String,
    /// Whether it was for metadata and nothing else.
    pub metadata_only: bool,
}

/// A proxy for one controller process, and that process.
pub struct KillingProxy {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    cluster: &'static Cluster,
    program: Program,
    cut: Cut,
    /// Writes that were cut and may pass when they come again.
    cut_before: Mutex<HashSet<String>>,
    kills: AtomicUsize,
    watches: Mutex<BTreeSet<Watched>>,
    killing: Mutex<()>,
    /// Read by each request on its way to the API server.
    in_flight: Arc<RwLock<()>>,
}

impl KillingProxy {
    /// Starts the proxy and, behind it, the controller.
    ///
    /// # Errors
    /// The proxy finds no port, or the controller ends at once.
    pub async fn start(harness: &Harness, binary: &str, cut: Cut) -> Result<Self, BoxError> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let kubeconfig = write_kubeconfig(harness, binary, listener.local_addr()?)?;
        let inner = Arc::new(Inner {
            client: harness.cluster.client()?,
            cluster: harness.cluster,
            program: program(binary, harness.ns(), &kubeconfig)?,
            cut,
            cut_before: Mutex::default(),
            kills: AtomicUsize::new(0),
            watches: Mutex::default(),
            killing: Mutex::new(()),
            in_flight: Arc::default(),
        });
        let router = Router::new().fallback(forward).with_state(Arc::clone(&inner));
        tokio::spawn(async move { axum::serve(listener, router).await });
        harness.cluster.run(&inner.program).await?;
        Ok(Self { inner })
    }

    /// Returns the number of kills of the controller.
    #[must_use]
    pub fn kills(&self) -> usize {
        self.inner.kills.load(Ordering::SeqCst)
    }

    /// Returns the watches of the controller so far.
    pub async fn watches(&self) -> BTreeSet<Watched> {
        self.inner.watches.lock().await.clone()
    }
}

impl Inner {
    async fn is_first_attempt(&self, write: String) -> bool {
        let mut cut = self.cut_before.lock().await;
        let first = cut.insert(write.clone());
        if !first {
            cut.remove(&write);
        }
        first
    }

    /// Kills the controller and starts it again.
    async fn kill(self: &Arc<Self>) {
        let this = Arc::clone(self);
        let runtime = tokio::runtime::Handle::current();
        let done = tokio::task::spawn_blocking(move || {
            runtime.block_on(async {
                let _one_at_a_time = this.killing.lock().await;
                this.kills.fetch_add(1, Ordering::SeqCst);
                this.cluster.stop_program(&this.program.name, Signal::Kill).await?;
                // The next process begins with what this one has written.
                let _arrived = this.in_flight.write().await;
                this.cluster.run(&this.program).await
            })
        });
        if let Ok(Err(error)) = done.await {
            eprintln!("{} was not restarted: {error}", self.program.name);
        }
    }
}

async fn forward(State(inner): State<Arc<Inner>>, request: Request) -> Response {
    let is_write = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let write = format!("{} {}", request.method(), request.uri().path());
    if let Some(watched) = watched(&request) {
        inner.watches.lock().await.insert(watched);
    }
    // The whole request: one that is cut off has not been attempted.
    let (parts, body) = request.into_parts();
    let request = match axum::body::to_bytes(body, usize::MAX).await {
        Ok(body) => http::Request::from_parts(parts, kube::client::Body::from(body.to_vec())),
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    if is_write && inner.cut == Cut::Before && inner.is_first_attempt(write).await {
        inner.kill().await;
        return StatusCode::BAD_GATEWAY.into_response();
    }
    // A task of its own: a write that may pass arrives, though another one of the same process is cut meanwhile.
    let in_flight = Arc::clone(&inner.in_flight).read_owned().await;
    let client = inner.client.clone();
    let sent = tokio::spawn(async move {
        let answer = send(&client, request).await;
        drop(in_flight);
        answer
    })
    .await;
    if is_write && inner.cut == Cut::After {
        inner.kill().await;
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let response = sent.map_err(BoxError::from).flatten();
    response.unwrap_or_else(|error| (StatusCode::BAD_GATEWAY, error.to_string()).into_response())
}

/// The watch that a request opens, if it does.
fn watched(request: &Request) -> Option<Watched> {
    let query: HashMap<&str, &str> = request.uri().query()?.split('&').filter_map(|one| one.split_once('=')).collect();
    query.get("watch").filter(|watch| **watch == "true")?;
    let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    Some(Watched {
        resource: request.uri().path().rsplit('/').next().unwrap_or_default().to_owned(),
        labels: query.get("labelSelector").copied().unwrap_or_default().to_owned(),
        metadata_only: accept.split(',').all(|one| one.contains("as=PartialObjectMetadata")),
    })
}

async fn send(client: &Client, mut request: http::Request<kube::client::Body>) -> Result<Response, BoxError> {
    request.headers_mut().remove(header::HOST);
    Ok(client.send(request).await?.map(Body::new))
}

fn write_kubeconfig(harness: &Harness, binary: &str, address: SocketAddr) -> Result<PathBuf, BoxError> {
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
        "clusters": [{ "name": "proxy", "cluster": { "server": format!("http://{address}") } }],
        "users": [{ "name": "proxy", "user": {} }],
        "contexts": [{ "name": "proxy", "context": { "cluster": "proxy", "user": "proxy" } }],
    });
    let path = harness.cluster.dir().join(format!("{binary}-{}.kubeconfig", harness.ns()));
    std::fs::write(&path, config.to_string())?;
    Ok(path)
}

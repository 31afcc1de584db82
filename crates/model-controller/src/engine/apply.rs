//! Sends the requests that the fleet plans, counts them in metrics, and enqueues the models whose state changed.
//!
//! Each request to an engine has a connection of its own.

use std::{
    net::SocketAddr,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use bytes::Bytes;
use controller_kit::{
    metrics::Metrics,
    scope::{Excluded, Fence, Permit},
    store::Key,
    sync::locked,
};
use futures::channel::mpsc;
use http::{StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use prometheus_client::metrics::{counter::Counter, family::Family, histogram::Histogram};
use tokio::{net::TcpStream, sync::Notify, task::JoinSet, time::sleep};
use tracing::{debug, info, warn};

use super::{
    DesiredAdapters, Endpoint, EngineOutcome, EngineRequest, PoolId,
    fleet::{EngineCall, Fleet},
};
use crate::engine::protocol::{MAX_RESPONSE_BYTES, encode, outcome_of};

/// Time for which changes are collected before models are enqueued: hundreds of engines respond at the same time.
const COLLECT: Duration = Duration::from_millis(100);

/// Pause before a request for which it is not known who serves the namespace.
const BEGIN_RETRY: Duration = Duration::from_secs(2);

/// The fleet, shared by the reconciles and the task that sends its requests. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SharedFleet {
    fleet: Arc<Mutex<Fleet>>,
    work: Arc<Notify>,
}

impl SharedFleet {
    /// Shares a fleet.
    pub fn new(fleet: Fleet) -> Self {
        Self { fleet: Arc::new(Mutex::new(fleet)), work: Arc::default() }
    }

    /// Locks the fleet. Never held across an await.
    pub fn lock(&self) -> MutexGuard<'_, Fleet> {
        locked(&self.fleet)
    }

    /// [`Fleet::sync`]; wakes the task that sends requests.
    pub fn sync(&self, pool: &PoolId, endpoints: &[Endpoint], desired: DesiredAdapters) {
        if self.lock().sync(pool, endpoints, desired, Instant::now()) {
            self.work.notify_one();
        }
    }

    /// Sends requests until dropped, which cancels those under way: the next lists show what they did. Skips namespaces
    /// of other installs.
    pub async fn work(&self, http: Http, changed: mpsc::UnboundedSender<Key>, fence: &Fence) {
        let mut tasks: JoinSet<(EngineCall, EngineOutcome)> = JoinSet::new();
        let mut notify_at: Option<Instant> = None;
        loop {
            let (calls, wake) = {
                let mut fleet = self.lock();
                let excluded = |namespace: &str| fence.may_act(namespace).is_err_and(|reason| !reason.is_temporary());
                fleet.forget_namespaces(excluded);
                fleet.advance(Instant::now())
            };
            for call in calls {
                // Another replica takes the namespace after the request, unless it is long. What is lost by now is
                // forgotten in the next turn.
                let (http, fence) = (http.clone(), fence.clone());
                tasks.spawn(async move {
                    let outcome = match begin(&fence, &call.engine.pool.namespace).await {
                        Ok(_until_answered) => http.send(call.socket, &call.request).await,
                        Err(excluded) => EngineOutcome::Unreachable { reason: excluded.to_string() },
                    };
                    (call, outcome)
                });
            }
            tokio::select! {
                () = self.work.notified() => {}
                Some(done) = tasks.join_next() => {
                    // A request that panics never ends; nothing in it panics.
                    if let Ok((call, outcome)) = done {
                        log(&call, &outcome);
                        self.lock().finish(&call, outcome, Instant::now());
                    }
                }
                () = sleep_until(notify_at) => {
                    for key in self.lock().take_changed() {
                        // Fails only after the controller has ended.
                        let _ = changed.unbounded_send(key);
                    }
                    notify_at = None;
                    continue;
                }
                () = sleep_until(wake) => {}
            }
            notify_at = notify_at.or_else(|| Instant::now().checked_add(COLLECT));
        }
    }
}

/// Begins work in a namespace as soon as it is known who serves it: until then no engine has failed.
async fn begin(fence: &Fence, namespace: &str) -> Result<Option<Permit>, Excluded> {
    loop {
        match fence.begin_work(namespace).await {
            Err(reason) if reason.is_temporary() => sleep(BEGIN_RETRY).await,
            begun => return begun,
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

fn log(call: &EngineCall, outcome: &EngineOutcome) {
    let (pod, engine) = (&call.pod_name, call.socket);
    let namespace = &call.engine.pool.namespace;
    let adapter = call.request.name().map(tracing::field::display);
    match (&call.request, outcome) {
        (EngineRequest::Load { .. }, EngineOutcome::Done) => info!(%namespace, pod, %engine, adapter, "loaded adapter"),
        (EngineRequest::Unload { .. }, EngineOutcome::Done) => {
            info!(%namespace, pod, %engine, adapter, "unloaded adapter")
        }
        (EngineRequest::List { .. }, EngineOutcome::Listed { names, others }) => {
            debug!(%namespace, pod, %engine, adapters = names.len(), others, "listed adapters");
        }
        (EngineRequest::List { .. }, EngineOutcome::NoList) => {
            debug!(%namespace, pod, %engine, "does not list its adapters")
        }
        (request, outcome) => {
            let request = request.operation();
            warn!(%namespace, pod, %engine, adapter, request, ?outcome, "request to an engine failed");
        }
    }
}

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

/// HTTP client for engines. Cheap to clone.
///
/// Every request has its own connection: requests are rare, and engines need not keep connections open. Redirects are
/// not followed. There is no authentication and no TLS, because the runtime has none on this port.
#[derive(Clone)]
pub struct Http {
    /// Addresses of engines.
    pub dial: Dial,
    /// Counts the requests.
    pub metrics: EngineMetrics,
}

impl Http {
    /// Sends one request, and returns its outcome within its timeout.
    pub async fn send(&self, engine: SocketAddr, request: &EngineRequest) -> EngineOutcome {
        let start = Instant::now();
        let exchange = exchange(engine, self.dial.resolve(engine), request);
        let outcome = match tokio::time::timeout(request.timeout(), exchange).await {
            Ok(Ok((status, body))) => outcome_of(request, status, &body),
            Ok(Err(reason)) => EngineOutcome::Unreachable { reason },
            Err(_) => EngineOutcome::TimedOut,
        };
        self.metrics.request_finished(request, &outcome, start.elapsed());
        outcome
    }
}

async fn exchange(
    engine: SocketAddr,
    socket: SocketAddr,
    request: &EngineRequest,
) -> Result<(StatusCode, Bytes), String> {
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

/// Upper bounds of the histogram, in seconds. Loading an adapter includes its download.
const BUCKETS: [f64; 10] = [0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 300.0];

/// Metrics of requests to engines. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EngineMetrics {
    requests: Family<[EngineLabel; 2], Counter>,
    duration: Family<[EngineLabel; 1], Histogram, fn() -> Histogram>,
}

/// Name and value.
type EngineLabel = (&'static str, &'static str);

impl EngineMetrics {
    /// Adds the families to the registry of the process.
    pub fn register(metrics: &Metrics) -> Self {
        let own = Self {
            requests: Family::default(),
            duration: Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> Histogram),
        };
        metrics.register(|registry| {
            registry.register(
                "model_engine_requests",
                "Requests to inference engines about adapters, by what came of them",
                own.requests.clone(),
            );
            registry.register(
                "model_engine_request_duration_seconds",
                "Time until an engine answered",
                own.duration.clone(),
            );
        });
        own
    }

    /// Counts one request.
    pub fn request_finished(&self, request: &EngineRequest, outcome: &EngineOutcome, took: Duration) {
        let operation = ("operation", request.operation());
        let result = match outcome {
            EngineOutcome::Done | EngineOutcome::Listed { .. } => "done",
            EngineOutcome::NoList | EngineOutcome::NotThere => "not_found",
            EngineOutcome::Unmanaged => "unmanaged",
            EngineOutcome::Refused { .. } => "refused",
            EngineOutcome::Unreachable { .. } => "unreachable",
            EngineOutcome::TimedOut => "timeout",
        };
        self.requests.get_or_create(&[operation, ("result", result)]).inc();
        self.duration.get_or_create(&[operation]).observe(took.as_secs_f64());
    }
}

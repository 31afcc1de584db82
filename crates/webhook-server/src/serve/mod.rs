//! HTTPS: what comes in, and what goes out.
//!
//! | path | what |
//! |---|---|
//! | `/convert` | conversion between versions; needs nothing but the request |
//! | those of [`Path`] | admission; needs facts about the cluster, which are gathered for each request |

mod body;
mod clients;
mod convert;
mod listener;
mod metrics;
mod peers;
mod reply;
mod weight;

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

pub use clients::{Clients, ClientsError};
use hyper::{Method, Request, Response, StatusCode, body::Incoming};
pub use listener::{Drain, Serving, serve};
pub use metrics::RequestMetrics;
use peers::{Connection, Limited, Limits, Peers};
use reply::{Reply, ReplyBody};
use tokio::time::timeout;
use tracing::{error, info};
use weight::Values;

use crate::{
    admission::{self, Answer, Path},
    facts::observe::Source,
    review,
};

/// Path of the conversion.
pub const CONVERT: &str = "/convert";

/// Admissions that are worked on at the same time; more of them wait.
const ADMISSIONS: usize = 128;
/// Conversions of many objects that are worked on at the same time. They have places of their own: an admission may
/// wait for an API server that is busy, and objects must be readable all the same. Conversions of a few objects need no
/// place.
const CONVERSIONS: usize = 32;
/// Memory for large bodies that are received or answered. With that for their values and for connections, it stays
/// below the memory limit that the chart sets.
const BODIES: usize = 192 << 20;
/// The longest a request may take. The API server waits for 10 s, and then it has failed.
const TIME: Duration = Duration::from_secs(9);
/// Largest admission request. The API server accepts objects of up to 3 MB and sends two of them.
const ADMISSION_BYTES: usize = 8 << 20;
/// Largest conversion request, of many objects: what one peer may have of the memory for bodies.
const CONVERSION_BYTES: usize = BODIES / 2;
/// The answer where the process is about to end.
const STOPPING: &str = "stopping";

/// Answers requests. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

struct Inner {
    paths: BTreeMap<&'static str, Path>,
    /// Without it, only conversion is served.
    admission: Source,
    /// Where only one namespace is served, objects of the whole cluster are converted by another install.
    converts: bool,
    /// Whether admission is for clients with a certificate only.
    verifies: bool,
    metrics: RequestMetrics,
    draining: Draining,
    limits: Arc<Limits>,
    values: Values,
}

/// Whether the server is about to stop. All clones are one.
#[derive(Debug, Clone, Default)]
pub struct Draining(Arc<AtomicBool>);

impl Draining {
    /// It is.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Service {
    /// A service for all paths; `converts` states whether conversion is one of them.
    #[must_use]
    pub fn new(admission: Source, converts: bool, clients: &Clients, metrics: RequestMetrics) -> Self {
        let paths = Path::ALL.into_iter().map(|path| (path.as_str(), path)).collect();
        let limits = Arc::new(Limits {
            bodies: Limited::new(BODIES / body::UNIT),
            admissions: Limited::new(ADMISSIONS),
            conversions: Limited::new(CONVERSIONS),
        });
        let (draining, values) = (Draining::default(), Values::default());
        let verifies = clients.are_verified();
        Self { inner: Arc::new(Inner { paths, admission, converts, verifies, metrics, draining, limits, values }) }
    }

    /// The clients of this service; none is connected.
    fn peers(&self) -> Peers {
        Peers::new(Arc::clone(&self.inner.limits))
    }

    /// Answers a request that came on a connection, of a client with a certificate if it is `identified`.
    async fn call(
        &self,
        request: Request<Incoming>,
        connection: Arc<Connection>,
        identified: bool,
    ) -> Response<ReplyBody> {
        connection.begins();
        let reply = timeout(TIME, self.inner.reply(request, &connection, identified)).await;
        let reply = reply.unwrap_or_else(|_| {
            Reply::text(StatusCode::SERVICE_UNAVAILABLE, format!("no answer within {} s", TIME.as_secs()))
        });
        connection.answers();
        reply.response(connection, self.inner.draining.is_set())
    }

    pub(crate) fn draining(&self) -> Draining {
        self.inner.draining.clone()
    }
}

impl Inner {
    async fn reply(&self, request: Request<Incoming>, connection: &Connection, identified: bool) -> Reply {
        let uri_path = request.uri().path();
        let path = self.paths.get(uri_path).copied();
        let convert = self.converts && uri_path == CONVERT;
        if path.is_none() && !convert {
            return Reply::text(StatusCode::NOT_FOUND, "nothing is served here");
        }
        if self.verifies && !convert && !identified {
            return Reply::text(StatusCode::FORBIDDEN, "admission needs a client certificate (--client-ca-file)");
        }
        if request.method() != Method::POST {
            return Reply::text(StatusCode::METHOD_NOT_ALLOWED, "send a review by POST");
        }
        let limit = if convert { CONVERSION_BYTES } else { ADMISSION_BYTES };
        let body = match body::read(request.into_body(), limit, &self.limits.bodies, connection).await {
            Ok(body) => body,
            Err(error) => return Reply::text(error.status(), error.to_string()),
        };
        let Some(path) = path else {
            return convert::convert(body, &self.limits, connection, self.values.clone(), self.metrics.clone()).await;
        };
        // A client that sends its body slowly has no place yet.
        let Some(_slot) = self.limits.admissions.take(&connection.shares.admissions, 1).await else {
            return Reply::text(StatusCode::SERVICE_UNAVAILABLE, STOPPING);
        };
        let _room = match self.values.room_for(&body.bytes).await {
            Ok(room) => room,
            Err(error) => return Reply::text(StatusCode::PAYLOAD_TOO_LARGE, error.to_string()),
        };
        connection.works();
        self.admit(path, &body.bytes).await
    }

    async fn admit(&self, path: Path, body: &[u8]) -> Reply {
        let begin = Instant::now();
        let request = match review::decode(body) {
            Ok(request) => request,
            Err(error) => return Reply::text(StatusCode::BAD_REQUEST, error.to_string()),
        };
        let is_taken = self.admission.is_taken(&request.namespace);
        let answer = if is_taken && !path.validates() {
            Answer::admitted()
        } else {
            let review = if is_taken { admission::review_for_another_install } else { admission::review };
            let facts = self.admission.facts(path, &request).await;
            let Ok(answer) = catch_unwind(AssertUnwindSafe(|| review(path, &request, &facts))) else {
                let (namespace, name) = (&request.namespace, &request.name);
                error!(path = path.as_str(), namespace, name, "a rule panicked; the request fails");
                let text = "a rule of the webhook server failed; its log says where. This is a defect of the server";
                return Reply::text(StatusCode::INTERNAL_SERVER_ERROR, text);
            };
            answer
        };
        self.metrics.admitted(path, request.operation, &answer, begin.elapsed());
        if let Answer::Deny { violations, .. } = &answer {
            let (kind, operation) = (&request.kind.kind, request.operation.as_str());
            let (namespace, name) = (&request.namespace, &request.name);
            info!(kind, operation, namespace, name, violations = violations.len(), first = %violations[0].path, "refused");
        }
        Reply::json(serde_json::to_vec(&review::encode(&request, &answer)).unwrap_or_default())
    }
}

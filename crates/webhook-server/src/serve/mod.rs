//! HTTPS: requests, answers, and the transmission of answers.
//!
//! | path | what |
//! |---|---|
//! | `/convert` | conversion between versions; needs nothing but the request |
//! | those of [`Path`] | admission; needs facts about the cluster, which are gathered for each request |

mod body;
mod convert;
mod listener;
mod metrics;
mod peers;

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, stream};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body, Bytes, Frame, Incoming, SizeHint},
    header::{CONNECTION, CONTENT_TYPE, HeaderValue},
};
use peers::{Limited, PeerConnection, PeerLimits};
use tokio::{sync::mpsc, time::timeout};
use tracing::{error, info};

use self::body::Values;
pub use self::{
    listener::{Clients, ClientsError, CurrentCertificate, drain_grace, serve},
    metrics::RequestMetrics,
};
use crate::{
    admission,
    admission::{AdmissionPath, Answer},
    facts::observe::FactSource,
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

/// Answers requests.
pub struct Service {
    /// Without it, only conversion is served.
    admission: FactSource,
    /// Whether conversion is served. If only one namespace is served, another install converts objects of the whole
    /// cluster.
    converts: bool,
    /// Whether admission is for clients with a certificate only.
    verifies: bool,
    metrics: RequestMetrics,
    /// Whether the server is about to stop.
    draining: AtomicBool,
    limits: PeerLimits,
    values: Values,
}

impl Service {
    /// A service for all paths; `converts` states whether conversion is one of them.
    #[must_use]
    pub fn new(admission: FactSource, converts: bool, clients: &Clients, metrics: RequestMetrics) -> Self {
        let limits = PeerLimits {
            bodies: Limited::new(BODIES / body::UNIT),
            admissions: Limited::new(ADMISSIONS),
            conversions: Limited::new(CONVERSIONS),
        };
        let (draining, values) = (AtomicBool::new(false), Values::default());
        Self { admission, converts, verifies: *clients != Clients::Any, metrics, draining, limits, values }
    }

    /// Answers a request that came on a connection, of a client with a certificate if it is `identified`.
    async fn call(
        &self,
        request: Request<Incoming>,
        connection: Arc<PeerConnection>,
        identified: bool,
    ) -> Response<ReplyBody> {
        connection.begins();
        let reply = timeout(TIME, self.reply(request, &connection, identified)).await.unwrap_or_else(|_| {
            Err(Reply::text(StatusCode::SERVICE_UNAVAILABLE, format!("no answer within {} s", TIME.as_secs())))
        });
        connection.answers();
        reply.unwrap_or_else(|error| error).response(connection, self.draining.load(Ordering::Relaxed))
    }

    async fn reply(
        &self,
        request: Request<Incoming>,
        connection: &PeerConnection,
        identified: bool,
    ) -> Result<Reply, Reply> {
        let uri_path = request.uri().path();
        let path = AdmissionPath::ALL.into_iter().find(|path| path.as_str() == uri_path);
        let convert = self.converts && uri_path == CONVERT;
        if path.is_none() && !convert {
            return Err(Reply::text(StatusCode::NOT_FOUND, "nothing is served here"));
        }
        if self.verifies && !convert && !identified {
            return Err(Reply::text(StatusCode::FORBIDDEN, "admission needs a client certificate (--client-ca-file)"));
        }
        if request.method() != Method::POST {
            return Err(Reply::text(StatusCode::METHOD_NOT_ALLOWED, "send a review by POST"));
        }
        let limit = if convert { CONVERSION_BYTES } else { ADMISSION_BYTES };
        let body = body::read(request.into_body(), limit, &self.limits.bodies, connection).await?;
        let Some(path) = path else {
            return convert::convert(body, &self.limits, connection, self.values.clone(), self.metrics.clone()).await;
        };
        // A client that sends its body slowly has no place yet.
        let _slot = self.limits.admissions.take(connection.peer, 1).await.ok_or_else(stopping)?;
        let _room = self.values.room_for(&body.bytes).await?;
        connection.works();
        self.admit(path, &body.bytes).await
    }

    async fn admit(&self, path: AdmissionPath, body: &[u8]) -> Result<Reply, Reply> {
        let begin = Instant::now();
        let request = review::decode(body).map_err(|error| Reply::text(StatusCode::BAD_REQUEST, error.to_string()))?;
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
                return Err(Reply::text(StatusCode::INTERNAL_SERVER_ERROR, text));
            };
            answer
        };
        self.metrics.admitted(path, request.operation, &answer, begin.elapsed());
        if let Answer::Deny { violations, .. } = &answer {
            let (kind, operation) = (&request.kind.kind, request.operation.as_str());
            let (namespace, name) = (&request.namespace, &request.name);
            info!(kind, operation, namespace, name, violations = violations.len(), first = %violations[0].path, "refused");
        }
        Ok(Reply::json(serde_json::to_vec(&review::encode(&request, &answer)).unwrap_or_default()))
    }
}

/// The answer where the process is about to end.
fn stopping() -> Reply {
    Reply::text(StatusCode::SERVICE_UNAVAILABLE, "stopping")
}

/// A part of an answer, or why the rest does not come.
type Chunk = io::Result<Bytes>;

/// An answer, before it is HTTP.
struct Reply {
    status: StatusCode,
    content_type: &'static str,
    content: Content,
}

type Content = UnsyncBoxBody<Bytes, io::Error>;

fn whole(content: Vec<u8>) -> Content {
    Full::new(Bytes::from(content)).map_err(|never| match never {}).boxed_unsync()
}

impl Reply {
    fn json(body: Vec<u8>) -> Self {
        Self { status: StatusCode::OK, content_type: JSON, content: whole(body) }
    }

    /// An answer that is still being written.
    fn stream(first: Bytes, mut rest: mpsc::Receiver<Chunk>) -> Self {
        let rest = stream::poll_fn(move |context| rest.poll_recv(context));
        let chunks = stream::iter([Ok(first)]).chain(rest).map_ok(Frame::data);
        Self { status: StatusCode::OK, content_type: JSON, content: StreamBody::new(chunks).boxed_unsync() }
    }

    fn text(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", content: whole(text.into().into_bytes()) }
    }

    /// The response on a connection; `closes`: the client opens a new connection for its next request.
    fn response(self, connection: Arc<PeerConnection>, closes: bool) -> Response<ReplyBody> {
        let mut response = Response::new(ReplyBody { content: self.content, connection });
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        if closes {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

const JSON: &str = "application/json";

/// The body of a response. Once it has gone out, its connection is idle.
struct ReplyBody {
    content: Content,
    connection: Arc<PeerConnection>,
}

impl Drop for ReplyBody {
    fn drop(&mut self) {
        self.connection.idles();
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.content).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.content.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.content.size_hint()
    }
}

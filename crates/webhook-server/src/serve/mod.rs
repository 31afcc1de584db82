//! HTTPS: what comes in, and what goes out.
//!
//! | path | what |
//! |---|---|
//! | `/convert` | conversion between versions; needs nothing but the request |
//! | those of [`Path`] | admission; needs facts about the cluster, which are gathered for each request |

mod body;
mod convert;
mod listener;
mod metrics;
mod tls;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Version};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::{error, info};

use crate::admission::{self, Answer, Path};
use crate::facts::observe::Source;
use crate::review;
pub use listener::{Drain, serve};
pub use metrics::RequestMetrics;
pub use tls::Serving;

/// Path of the conversion.
pub const CONVERT: &str = "/convert";

/// Admissions that are worked on at the same time; more of them wait.
const ADMISSIONS: usize = 64;
/// Conversions that are worked on at the same time. They have places of their own: an admission may wait for an API server that is
/// busy, and objects must be readable all the same.
const CONVERSIONS: usize = 64;
/// The longest a request may take. The API server waits for 10 s, and then it has failed.
const TIME: Duration = Duration::from_secs(9);
/// Largest admission request. The API server accepts objects of up to 3 MB and sends two of them.
const ADMISSION_BYTES: usize = 8 << 20;
/// Largest conversion request, of many objects.
const CONVERSION_BYTES: usize = 128 << 20;

/// Answers requests. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

struct Inner {
    paths: BTreeMap<&'static str, Path>,
    /// Without it, only conversion is served.
    admission: Source,
    /// Where only one namespace is served, objects of the whole cluster are converted by somebody else.
    converts: bool,
    metrics: RequestMetrics,
    draining: Draining,
    admissions: Arc<Semaphore>,
    conversions: Arc<Semaphore>,
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

/// What is answered, before it is HTTP.
struct Reply {
    status: StatusCode,
    content_type: &'static str,
    body: Vec<u8>,
}

impl Reply {
    fn json(body: Vec<u8>) -> Self {
        Self { status: StatusCode::OK, content_type: "application/json", body }
    }

    fn text(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: text.into().into_bytes() }
    }
}

impl Service {
    /// A service for all paths; `converts` tells whether conversion is one of them.
    #[must_use]
    pub fn new(admission: Source, converts: bool, metrics: RequestMetrics) -> Self {
        let paths = Path::ALL.into_iter().map(|path| (path.as_str(), path)).collect();
        let (admissions, conversions) = (Semaphore::new(ADMISSIONS).into(), Semaphore::new(CONVERSIONS).into());
        let draining = Draining::default();
        Self { inner: Arc::new(Inner { paths, admission, converts, metrics, draining, admissions, conversions }) }
    }

    pub(crate) fn draining(&self) -> Draining {
        self.inner.draining.clone()
    }
}

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            let version = request.version();
            let reply = timeout(TIME, inner.reply(request)).await;
            let reply = reply.unwrap_or_else(|_| {
                Reply::text(StatusCode::SERVICE_UNAVAILABLE, format!("no answer within {} s", TIME.as_secs()))
            });
            Ok(inner.response(reply, version))
        })
    }
}

impl Inner {
    async fn reply(&self, request: Request<Incoming>) -> Reply {
        let uri_path = request.uri().path();
        let path = self.paths.get(uri_path).copied();
        let convert = self.converts && uri_path == CONVERT;
        if path.is_none() && !convert {
            return Reply::text(StatusCode::NOT_FOUND, "nothing is served here");
        }
        if request.method() != Method::POST {
            return Reply::text(StatusCode::METHOD_NOT_ALLOWED, "send a review by POST");
        }
        // Closed never: nobody closes it.
        let slots = if convert { &self.conversions } else { &self.admissions };
        let Ok(slot) = Arc::clone(slots).acquire_owned().await else {
            return Reply::text(StatusCode::SERVICE_UNAVAILABLE, "stopping");
        };
        let limit = if convert { CONVERSION_BYTES } else { ADMISSION_BYTES };
        let body = match body::read(request.into_body(), limit).await {
            Ok(body) => body,
            Err(error) => return Reply::text(error.status(), error.to_string()),
        };
        match path {
            Some(path) => self.admit(path, &body).await,
            None => convert::convert(body, slot, &self.metrics).await,
        }
    }

    async fn admit(&self, path: Path, body: &[u8]) -> Reply {
        let begin = Instant::now();
        let request = match review::decode(body) {
            Ok(request) => request,
            Err(error) => return Reply::text(StatusCode::BAD_REQUEST, error.to_string()),
        };
        let answer = if self.admission.is_taken(&request.namespace) {
            Answer::admitted()
        } else {
            let facts = self.admission.facts(&request.namespace, admission::lookups(path, &request)).await;
            let reviewed = catch_unwind(AssertUnwindSafe(|| admission::review(path, &request, &facts)));
            match reviewed {
                Ok(answer) => answer,
                Err(_) => {
                    let (namespace, name) = (&request.namespace, &request.name);
                    error!(path = path.as_str(), namespace, name, "a rule panicked; the request fails");
                    let text =
                        "a rule of the webhook server failed; its log says where. This is a mistake in the server";
                    return Reply::text(StatusCode::INTERNAL_SERVER_ERROR, text);
                }
            }
        };
        self.metrics.admitted(path, request.operation, &answer, begin.elapsed());
        if let Answer::Deny { errors, .. } = &answer {
            let (kind, operation) = (&request.kind.kind, request.operation.as_str());
            let (namespace, name) = (&request.namespace, &request.name);
            info!(kind, operation, namespace, name, errors = errors.len(), first = %errors[0].path, "refused");
        }
        Reply::json(serde_json::to_vec(&review::encode(&request, &answer)).unwrap_or_default())
    }

    fn response(&self, reply: Reply, version: Version) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(reply.body)));
        *response.status_mut() = reply.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
        if self.draining.is_set() && version < Version::HTTP_2 {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

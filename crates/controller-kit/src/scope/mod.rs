//! Selection of the operator that acts in a namespace: the marker Lease.
//!
//! An operator that is restricted to one namespace keeps a Lease of a well-known name there. While that marker is
//! valid, every cluster-wide operator, ours or the Go one, skips the namespace. The [`Fence`] has the answer for one
//! process: it is consulted before a reconcile, and again before every write.
//!
//! The check before each write is in this file, inside the client: whatever sends a write cannot get past it.
//!
//! - `marker`: which markers are valid.
//! - `marker_reads`: reads of the markers past the cache.
//! - `exclusion`: exclusion from a namespace, and its end.
//! - `fence`: the answer for one process, and the watch that keeps it true.
//! - `shard`: the namespaces of one of several replicas, and what runs in them.

mod exclusion;
mod fence;
mod marker;
mod marker_reads;
mod shard;

use std::{
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures::{FutureExt, TryFutureExt, future::BoxFuture};
use http::{Method, Request};
use tower::{BoxError, Layer, Service};

pub use self::{
    exclusion::{Excluded, Released},
    fence::Fence,
    marker::{Marker, Markers},
    shard::Permit,
};
use crate::request::STEP_TIMEOUT;

/// Name of the marker Lease. The Go operator's, so that both exclude each other.
pub const MARKER_LEASE: &str = "dynamo-operator-namespace-scope";

/// Prefix of `holderIdentity` of a marker; the operator's version follows.
pub const HOLDER_PREFIX: &str = "namespace-restricted-operator-";

/// Annotation of a marker with its owner: the identity of the install, the same for all its processes. The Go operator
/// sets none.
pub const OWNER_ANNOTATION: &str = "operator.dynamo/owner";

/// Annotation of a marker with the `renewTime` that its owner has written. The Go operator takes any marker of its
/// namespace, renews it, and leaves the annotations as they are: from then on the two differ, and the marker is its
/// own.
pub const RENEWED_ANNOTATION: &str = "operator.dynamo/renewed";

/// Annotation of a marker whose owner gives it back: its processes stop, and it is deleted when their last requests
/// have ended.
pub const RELEASING_ANNOTATION: &str = "operator.dynamo/releasing";

/// After this long without an answer of the API server a process acts nowhere: others may have acted since.
const MAX_AGE: Duration = Duration::from_secs(10);

/// Time for which a marker is kept after it is marked as given back: by then every process of the install has read
/// that, or has stopped because it could not, and the requests that it had sent have ended.
pub const RELEASE_WAIT: Duration = MAX_AGE.saturating_add(STEP_TIMEOUT);

/// Returns the time by which a process stops acting before others may start: a sixth of the marker's duration, 5 s of
/// the usual 30 s. With this margin, watches that lag, and requests that are on their way, do not make two operators
/// act at once.
pub fn safety_margin(duration: Duration) -> Duration {
    duration / 6
}

/// Lets reads pass, and writes into namespaces where the process may act.
#[derive(Debug, Clone)]
pub struct FencedWrites<S> {
    inner: S,
    fence: Fence,
}

impl<S> Layer<S> for Fence {
    type Service = FencedWrites<S>;

    fn layer(&self, inner: S) -> FencedWrites<S> {
        FencedWrites { inner, fence: self.clone() }
    }
}

impl<S, B> Service<Request<B>> for FencedWrites<S>
where
    S: Service<Request<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError> + Send + 'static,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
    B: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if !is_fenced(request.method(), request.uri().path()) {
            return self.inner.call(request).map_err(Into::into).boxed();
        }
        let unused = self.inner.clone();
        // The one that is ready.
        let mut inner = std::mem::replace(&mut self.inner, unused);
        let fence = self.fence.clone();
        async move {
            let _until_answered = begin(&fence, request.uri().path()).await?;
            inner.call(request).await.map_err(Into::into)
        }
        .boxed()
    }
}

async fn begin(fence: &Fence, path: &str) -> Result<Option<Permit>, Excluded> {
    match namespace_written(path) {
        Some(namespace) => fence.begin_write(namespace).await,
        None => fence.leads(Instant::now()).map(|()| None),
    }
}

/// Writes, except those of Leases, by which it is determined who may act.
fn is_fenced(method: &Method, path: &str) -> bool {
    !method.is_safe() && !path.starts_with("/apis/coordination.k8s.io/")
}

/// The namespace that a write goes into.
fn namespace_written(path: &str) -> Option<&str> {
    let mut segments = path.split('/').skip_while(|segment| *segment != "namespaces").skip(1);
    let namespace = segments.next().filter(|namespace| !namespace.is_empty())?;
    // `/api/v1/namespaces/x` itself is an object of the cluster.
    segments.next().map(|_| namespace)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::{is_fenced, namespace_written};

    #[test]
    fn writes_into_namespaces_are_distinguished_from_everything_else() {
        for (method, path, expected) in [
            (Method::PATCH, "/apis/apps/v1/namespaces/team/deployments/x", Some("team")),
            (Method::POST, "/api/v1/namespaces/team/services", Some("team")),
            (Method::DELETE, "/apis/nvidia.com/v1beta1/namespaces/team/dynamocomponentdeployments/x", Some("team")),
            (Method::GET, "/apis/apps/v1/namespaces/team/deployments/x", None),
            (Method::PATCH, "/api/v1/namespaces/team", None),
            (Method::PATCH, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/x", None),
            (Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/team/leases/x", None),
        ] {
            let written = is_fenced(&method, path).then(|| namespace_written(path)).flatten();
            assert_eq!(written, expected, "{method} {path}");
        }
    }
}

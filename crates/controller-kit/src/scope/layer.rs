//! The check before each write, inside the client: whatever sends a write, it cannot get past.

use std::{
    task::{Context, Poll},
    time::Instant,
};

use futures::{
    FutureExt, TryFutureExt,
    future::{BoxFuture, err},
};
use http::{Method, Request};
use tower::{BoxError, Layer, Service};

use super::{Excluded, Fence, shard::Permit};

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
    S: Service<Request<B>>,
    S::Error: Into<BoxError> + Send + 'static,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match begin(&self.fence, request.method(), request.uri().path()) {
            Ok(permit) => {
                let answer = self.inner.call(request).map_err(Into::into);
                async move {
                    let _until_answered = permit;
                    answer.await
                }
                .boxed()
            }
            Err(excluded) => err(excluded.into()).boxed(),
        }
    }
}

fn begin(fence: &Fence, method: &Method, path: &str) -> Result<Option<Permit>, Excluded> {
    if !is_fenced(method, path) {
        return Ok(None);
    }
    match namespace_written(path) {
        Some(namespace) => fence.begin_write(namespace),
        None => fence.leads(Instant::now()).map(|()| None),
    }
}

/// Writes, except those of Leases, which decide who may act.
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
    fn writes_into_namespaces_are_told_from_everything_else() {
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

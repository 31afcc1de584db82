//! A client whose writes go to objects in memory. Reads of what is not held there go to the API server.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use futures::{FutureExt, future::BoxFuture};
use http::{Method, Request, Response, StatusCode, Uri, request::Parts};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tower::{BoxError, Service};

use crate::preview::objects::{ObjectKey, Preconditions, PreviewObjects, PreviewRejection, not_found};

/// Objects in memory in place of an API server.
#[derive(Clone)]
pub struct MemoryServer {
    objects: Arc<Mutex<PreviewObjects>>,
    live: Client,
}

impl MemoryServer {
    /// With these objects; `live` reads what they lack.
    pub fn new(objects: PreviewObjects, live: Client) -> Self {
        Self { objects: Arc::new(Mutex::new(objects)), live }
    }

    /// A client of it.
    pub fn client(&self, namespace: &str) -> Client {
        Client::new(self.clone(), namespace)
    }

    /// The objects.
    pub fn objects(&self) -> MutexGuard<'_, PreviewObjects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let (path, query) = (parts.uri.path().to_owned(), parts.uri.query().unwrap_or_default().to_owned());
        let target = RequestTarget::of(&path);
        let is_read = parts.method == Method::GET;
        let Some(target) = target else {
            // What is served, for example.
            return if is_read { self.forward(parts).await } else { accepted(&body) };
        };
        if is_read && target.key.name.is_empty() {
            // Diagnoses of pods and events: there are none in a preview.
            return answer_with(
                StatusCode::OK,
                &json!({ "kind": "List", "apiVersion": "v1", "metadata": {}, "items": [] }),
            );
        }
        // Events, and questions whether something may be created.
        if parts.method == Method::POST {
            return accepted(&body);
        }
        if is_read && !self.objects().is_known(&target.key) {
            return self.forward(parts).await;
        }
        self.read_once(&target.key, &parts.uri).await?;
        let body: Value = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body)? };
        let type_ = parts.headers.get(http::header::CONTENT_TYPE).and_then(|type_| type_.to_str().ok());
        let result = match parts.method {
            Method::GET => self.objects().get(&target.key).cloned().ok_or_else(|| not_found(&target.key)),
            Method::DELETE => self.objects().delete(&target.key, Preconditions::of(&body["preconditions"])),
            Method::PATCH => self.patch(&target, type_.unwrap_or_default(), &query, &body),
            _ => Err(PreviewRejection {
                code: 405,
                reason: "MethodNotAllowed",
                message: "no such method in a preview".to_owned(),
            }),
        };
        match result {
            Ok(object) => answer_with(StatusCode::OK, &object),
            Err(rejection) => answer_with(
                StatusCode::from_u16(rejection.code)?,
                &json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "code": rejection.code, "reason": rejection.reason, "message": rejection.message }),
            ),
        }
    }

    fn patch(&self, target: &RequestTarget, type_: &str, query: &str, body: &Value) -> Result<Value, PreviewRejection> {
        let mut objects = self.objects();
        if target.subresource.as_deref() == Some("status") {
            objects.set_status(&target.key, body["status"].clone());
            return objects.get(&target.key).cloned().ok_or_else(|| not_found(&target.key));
        }
        match type_ {
            "application/apply-patch+yaml" => objects.apply(&target.key, body, &manager(query)),
            "application/merge-patch+json" => {
                objects.patch(&target.key, Preconditions::of(&body["metadata"]), |object| {
                    let mut patch = body.clone();
                    if let Some(metadata) = patch["metadata"].as_object_mut() {
                        metadata.remove("uid");
                        metadata.remove("resourceVersion");
                    }
                    json_patch::merge(object, &patch);
                    Ok(())
                })
            }
            _ => objects.patch(&target.key, Preconditions::default(), |object| {
                let operations: json_patch::Patch =
                    serde_json::from_value(body.clone()).map_err(|error| error.to_string())?;
                json_patch::patch(object, &operations).map_err(|error| error.to_string())
            }),
        }
    }

    /// Reads an object that no list has shown. One that the user may not read counts as absent.
    async fn read_once(&self, key: &ObjectKey, uri: &Uri) -> Result<(), BoxError> {
        if self.objects().is_known(key) {
            return Ok(());
        }
        let path = uri.path().trim_end_matches("/status").trim_end_matches("/scale");
        let answer = self.live.send(Request::get(path).body(Body::empty())?).await?;
        let (status, body) = (answer.status(), answer.into_body().collect_bytes().await?);
        match status.is_success() {
            true => self.objects().read(key.clone(), serde_json::from_slice(&body)?),
            false => self.objects().read_absent(key.clone()),
        }
        Ok(())
    }

    /// Sends a read as it is: of a Secret, for example, only metadata is requested.
    async fn forward(&self, parts: Parts) -> Result<Response<Body>, BoxError> {
        Ok(self.live.send(Request::from_parts(parts, Body::empty())).await?)
    }
}

impl Service<Request<Body>> for MemoryServer {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.clone().answer(request).boxed()
    }
}

/// Target of a request path.
#[derive(Debug, PartialEq, Eq)]
struct RequestTarget {
    key: ObjectKey,
    subresource: Option<String>,
}

impl RequestTarget {
    /// `None` for paths that name neither objects nor a list of them.
    fn of(path: &str) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/');
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        parts.next()?;
        let rest: Vec<&str> = parts.collect();
        let (namespace, rest) = match rest.as_slice() {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let text = |index: usize| rest.get(index).map(|part| (*part).to_owned());
        let key = ObjectKey {
            group: group.to_owned(),
            plural: text(0)?,
            namespace: namespace.to_owned(),
            name: text(1).unwrap_or_default(),
        };
        Some(Self { key, subresource: text(2) })
    }
}

/// The field manager that a query names; names of programs need no decoding.
fn manager(query: &str) -> String {
    let value = query.split('&').find_map(|pair| pair.strip_prefix("fieldManager="));
    value.unwrap_or_default().to_owned()
}

fn accepted(body: &[u8]) -> Result<Response<Body>, BoxError> {
    Ok(Response::builder().status(StatusCode::CREATED).body(Body::from(body.to_vec()))?)
}

fn answer_with(status: StatusCode, value: &Value) -> Result<Response<Body>, BoxError> {
    Ok(Response::builder().status(status).body(Body::from(serde_json::to_vec(value)?))?)
}

#[cfg(test)]
mod tests {
    use super::RequestTarget;

    #[test]
    fn paths_name_objects_lists_and_what_is_served() {
        for (path, expected) in [
            ("/api/v1/namespaces/n/services/s", Some(("", "services", "n", "s", None))),
            (
                "/apis/apps/v1/namespaces/n/deployments/d/status",
                Some(("apps", "deployments", "n", "d", Some("status"))),
            ),
            ("/apis/apps/v1/namespaces/n/deployments", Some(("apps", "deployments", "n", "", None))),
            ("/apis/g/v1/queues/q", Some(("g", "queues", "", "q", None))),
            ("/api/v1/namespaces/n", Some(("", "namespaces", "", "n", None))),
            ("/apis", None),
            ("/apis/apps/v1", None),
            ("/version", None),
        ] {
            let found = RequestTarget::of(path);
            let found = found.as_ref().map(|RequestTarget { key, subresource }| {
                (
                    key.group.as_str(),
                    key.plural.as_str(),
                    key.namespace.as_str(),
                    key.name.as_str(),
                    subresource.as_deref(),
                )
            });
            assert_eq!(found, expected, "{path}");
        }
    }
}

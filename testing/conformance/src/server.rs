//! The API server as a set of resources found by discovery, in plain JSON. No kind is fixed in
//! advance, so that nothing an operator generates is overlooked.

use anyhow::{Context, Result};
use http::{Method, Request};
use kube::{Client, client::Body, core::ApiResource};
use serde_json::Value;

/// A resource that is served.
#[derive(Debug, Clone)]
pub(super) struct Resource {
    /// Group and version, or `v1`.
    pub(super) api_version: String,
    pub(super) kind: String,
    plural: String,
    pub(super) namespaced: bool,
    pub(super) listable: bool,
    /// Whether this is the version that the API server prefers for its group.
    pub(super) preferred: bool,
}

impl Resource {
    /// The group; empty for the core.
    pub(super) fn group(&self) -> &str {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// The version without the group.
    pub(super) fn version(&self) -> &str {
        self.api_version.rsplit_once('/').map_or(&self.api_version, |(_, version)| version)
    }

    /// The path of the whole collection, of one namespace, or of one object.
    pub(super) fn path(&self, namespace: Option<&str>, name: Option<&str>) -> String {
        let root = if self.group().is_empty() { "/api" } else { "/apis" };
        let mut path = format!("{root}/{}", self.api_version);
        if let Some(namespace) = namespace.filter(|_| self.namespaced) {
            path += &format!("/namespaces/{namespace}");
        }
        path += &format!("/{}", self.plural);
        if let Some(name) = name {
            path += &format!("/{name}");
        }
        path
    }

    /// The same for kube.
    pub(super) fn api_resource(&self) -> ApiResource {
        ApiResource {
            group: self.group().to_owned(),
            version: self.version().to_owned(),
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            plural: self.plural.clone(),
        }
    }
}

/// An answer, whatever its code.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) warnings: Vec<String>,
    pub(super) body: Value,
}

impl Answer {
    pub(super) fn is_ok(&self) -> bool {
        self.code < 300
    }
}

/// The API server and what it serves.
pub(super) struct Server {
    pub(super) client: Client,
    resources: Vec<Resource>,
}

impl Server {
    /// Asks the API server for everything it serves.
    pub(super) async fn discover(client: Client) -> Result<Self> {
        let mut server = Self { client, resources: Vec::new() };
        server.add("v1", true).await?;
        let groups = server.get("/apis").await?;
        for group in groups["groups"].as_array().into_iter().flatten() {
            for version in group["versions"].as_array().into_iter().flatten() {
                let api_version = version["groupVersion"].as_str().unwrap_or_default();
                let preferred = version == &group["preferredVersion"];
                server.add(api_version, preferred).await?;
            }
        }
        Ok(server)
    }

    async fn add(&mut self, api_version: &str, preferred: bool) -> Result<()> {
        let root = if api_version.contains('/') { "/apis" } else { "/api" };
        let answer = self.get(&format!("{root}/{api_version}")).await?;
        for resource in answer["resources"].as_array().into_iter().flatten() {
            let plural = resource["name"].as_str().unwrap_or_default();
            if plural.contains('/') {
                continue;
            }
            self.resources.push(Resource {
                api_version: api_version.to_owned(),
                kind: resource["kind"].as_str().unwrap_or_default().to_owned(),
                plural: plural.to_owned(),
                namespaced: resource["namespaced"] == true,
                listable: resource["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|verb| verb == "list")),
                preferred,
            });
        }
        Ok(())
    }

    /// Everything that is served.
    pub(super) fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// The resource of a kind, if it is served.
    pub(super) fn find(&self, api_version: &str, kind: &str) -> Option<&Resource> {
        self.resources.iter().find(|resource| resource.api_version == api_version && resource.kind == kind)
    }

    /// Returns the content of a path.
    ///
    /// # Errors
    /// There is no good answer.
    pub(super) async fn get(&self, path: &str) -> Result<Value> {
        let answer = self.send(Method::GET, path, None).await?;
        anyhow::ensure!(answer.is_ok(), "GET {path}: {} {}", answer.code, answer.body);
        Ok(answer.body)
    }

    /// All objects of a resource, in all namespaces, each with its kind.
    pub(super) async fn list(&self, resource: &Resource) -> Result<Vec<Value>> {
        let mut list = self.get(&resource.path(None, None)).await?;
        let items = list["items"].take();
        let mut items = match items {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.insert("apiVersion".to_owned(), resource.api_version.clone().into());
            item.insert("kind".to_owned(), resource.kind.clone().into());
        }
        Ok(items)
    }

    /// Sends a request. A body is a new object, or a merge patch when the method is PATCH.
    ///
    /// # Errors
    /// There is no answer. One with an error code is an answer.
    pub(super) async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer> {
        let what = format!("{method} {path}");
        let content = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string().into_bytes()));
        let request = Request::builder().method(method).uri(path).header(http::header::CONTENT_TYPE, content);
        let request = request.body(body).with_context(|| what.clone())?;
        let response = self.client.send(request).await.with_context(|| what.clone())?;
        let warnings = response.headers().get_all(http::header::WARNING).iter();
        let warnings = warnings.filter_map(|warning| Some(warning.to_str().ok()?.to_owned())).collect();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await.with_context(|| what)?;
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Ok(Answer { code, warnings, body })
    }
}

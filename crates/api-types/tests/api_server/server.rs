//! The API server of the tests, called by plain HTTP, because typed clients hide warnings and unknown fields.

use std::sync::LazyLock;

use http::{Method, Request};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use test_cluster::{Cluster, TestNamespace};
use tokio::sync::OnceCell;

use crate::converter::Converter;

/// Converts for all tests, as long as the process runs.
static CONVERTER: LazyLock<Converter> = LazyLock::new(Converter::start);
/// Whether the API server has found it.
static CONVERTS: OnceCell<()> = OnceCell::const_new();

/// Response of the API server.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub warnings: Vec<String>,
    pub body: Value,
}

impl Answer {
    /// The object of an answer that grants the request.
    pub fn granted(self) -> Value {
        assert!(self.code < 300, "refused: {}", self.body["message"]);
        self.body
    }

    /// Field and message of each cause of a rejection.
    pub fn causes(&self) -> Vec<(String, String)> {
        let causes = self.body["details"]["causes"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        causes.iter().map(|cause| (text(&cause["field"]), text(&cause["message"]))).collect()
    }
}

/// A namespace on the API server of the tests, with our definitions installed.
pub struct Server {
    client: Client,
    namespace: TestNamespace,
}

impl Server {
    pub async fn new() -> Self {
        let server = Self::with(&definitions()).await;
        CONVERTS.get_or_init(|| server.convert()).await;
        server
    }

    /// A namespace on a cluster of a test's own, whose definitions are those of the test.
    pub async fn on(cluster: &Cluster) -> Self {
        let namespace = TestNamespace::new(cluster, "api-types").await.unwrap();
        let server = Self { client: namespace.client(), namespace };
        server.convert().await;
        server
    }

    /// Has the API server call the converter, and waits until it does.
    async fn convert(&self) {
        CONVERTER.expose(&self.client).await;
        CONVERTER.inject(&self.client).await;
        let adapter = json!({
            "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeploymentScalingAdapter",
            "metadata": { "name": "a" }, "spec": { "replicas": 1, "dgdRef": { "name": "g", "serviceName": "s" } },
        });
        let path = format!("{}?dryRun=All", self.collection_in("v1alpha1", "dynamographdeploymentscalingadapters"));
        let limit = std::time::Duration::from_secs(30);
        let converted = test_cluster::wait::until("objects to be converted", limit, async || {
            let answer = self.send(Method::POST, &path, "application/json", &adapter).await;
            if answer.code < 300 { Ok(()) } else { Err(answer.body["message"].to_string()) }
        });
        converted.await.unwrap();
    }

    /// The same with these definitions.
    pub async fn with(crds: &[Value]) -> Self {
        let access = test_cluster::shared(crds).await.unwrap();
        let namespace = TestNamespace::new(access, "api-types").await.unwrap();
        Self { client: namespace.client(), namespace }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "application/json", &Value::Null).await
    }

    /// Creates an object of plural `kind` (`dynamographdeployments`, …); unknown and repeated fields are errors.
    pub async fn create(&self, kind: &str, object: &Value) -> Answer {
        self.create_in("v1beta1", kind, object).await
    }

    /// The same in a version.
    pub async fn create_in(&self, version: &str, kind: &str, object: &Value) -> Answer {
        let path = format!("{}?fieldValidation=Strict", self.collection_in(version, kind));
        self.send(Method::POST, &path, "application/json", object).await
    }

    /// The same without keeping the object.
    pub async fn try_create(&self, kind: &str, object: &Value) -> Answer {
        let path = format!("{}?fieldValidation=Strict&dryRun=All", self.collection(kind));
        self.send(Method::POST, &path, "application/json", object).await
    }

    /// Changes a graph by a merge patch.
    pub async fn patch(&self, graph: &str, patch: &Value) -> Answer {
        let path = format!("{}/{graph}", self.collection(GRAPHS));
        self.send(Method::PATCH, &path, "application/merge-patch+json", patch).await
    }

    /// Sets fields of the status of the object at `path`.
    pub async fn patch_status(&self, path: &str, status: &Value) -> Answer {
        let (path, patch) = (format!("{path}/status"), json!({ "status": status }));
        self.send(Method::PATCH, &path, "application/merge-patch+json", &patch).await
    }

    /// Server-side applies a graph as `manager`, without force.
    pub async fn apply(&self, manager: &str, graph: &Value) -> Answer {
        let name = graph["metadata"]["name"].as_str().unwrap();
        let path = format!("{}/{name}?fieldManager={manager}", self.collection(GRAPHS));
        self.send(Method::PATCH, &path, "application/apply-patch+yaml", graph).await
    }

    /// All objects of a kind, as `kubectl get` requests them.
    pub async fn table(&self, kind: &str) -> Value {
        let request =
            Request::get(self.collection(kind)).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
        let response = self.client.send(request.body(Body::empty()).unwrap()).await.unwrap();
        serde_json::from_slice(&response.into_body().collect_bytes().await.unwrap()).unwrap()
    }

    pub async fn send(&self, method: Method, path: &str, content_type: &str, body: &Value) -> Answer {
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        let response = self.client.send(request.body(Body::from(body)).unwrap()).await.unwrap();
        let warnings = response.headers().get_all("warning").iter().map(|w| w.to_str().unwrap().to_owned()).collect();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await.unwrap();
        Answer { code, warnings, body: serde_json::from_slice(&bytes).unwrap() }
    }

    fn collection(&self, kind: &str) -> String {
        self.collection_in("v1beta1", kind)
    }

    /// The path of the objects of a kind, in a version.
    pub fn collection_in(&self, version: &str, kind: &str) -> String {
        format!("/apis/nvidia.com/{version}/namespaces/{}/{kind}", self.namespace.name())
    }
}

/// Our definitions, converted by the converter of the tests.
pub fn definitions() -> Vec<Value> {
    let crds = api_types::crds::all_converted_by(&CONVERTER.service()).unwrap();
    crds.iter().map(|crd| json!(crd)).collect()
}

/// The plural of a kind.
pub fn plural(kind: &str) -> String {
    format!("{}s", kind.to_lowercase())
}

pub const GRAPHS: &str = "dynamographdeployments";
pub const COMPONENTS: &str = "dynamocomponentdeployments";

/// A graph with the given `spec`.
pub fn graph(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": { "name": name },
        "spec": spec,
    })
}

/// A graph of one component `worker`, which has `fields` beside its name.
pub fn graph_of(name: &str, fields: &Value) -> Value {
    let mut component = json!({ "name": "worker" });
    component.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    graph(name, &json!({ "components": [component] }))
}

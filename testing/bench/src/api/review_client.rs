//! Asks the webhook server as the API server does: over TLS, on a connection that stays.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::Request;
use kube::Client;
use local_operator::WebhookServer;
use serde_json::{Value, json};
use test_cluster::Cluster;

/// Path of the defaulting webhook of graphs.
pub(super) const DEFAULT: &str = "/mutate/nvidia.com/v1beta1/dynamographdeployments";
/// Path of the validating webhook of graphs.
pub(super) const VALIDATE: &str = "/validate/nvidia.com/v1beta1/dynamographdeployments";

pub(super) struct ReviewClient {
    client: Client,
}

/// Objects in another version.
pub(super) struct Converted {
    pub(super) objects: Vec<Value>,
    pub(super) took: Duration,
}

impl ReviewClient {
    pub(super) async fn new(server: &WebhookServer, cluster: &Cluster) -> Result<Self> {
        Ok(Self { client: server.client(cluster).await? })
    }

    /// Returns the duration of the answer to an admission, from the first byte of the request to the last of the
    /// answer.
    pub(super) async fn admit(
        &self,
        path: &str,
        operation: &str,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<Duration> {
        let kind = json!({ "group": api_types::GROUP, "version": "v1beta1", "kind": "DynamoGraphDeployment" });
        let resource = json!({ "group": api_types::GROUP, "version": "v1beta1", "resource": "dynamographdeployments" });
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "u", "kind": kind, "requestKind": kind, "resource": resource, "requestResource": resource,
                "operation": operation, "name": "chat", "namespace": "default",
                "userInfo": { "username": "kubernetes-admin" }, "object": object, "oldObject": old, "dryRun": false,
            },
        });
        let (answer, took) = self.post(path, &review).await?;
        ensure!(answer.contains("\"allowed\":true"), "{path} refuses: {answer}");
        Ok(took)
    }

    /// Converts objects to a version.
    pub(super) async fn convert(&self, version: &str, objects: Vec<Value>) -> Result<Converted> {
        let count = objects.len();
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {
                "uid": "u", "desiredAPIVersion": format!("{}/{version}", api_types::GROUP), "objects": objects,
            },
        });
        let (answer, took) = self.post("/convert", &review).await?;
        let answer: Value = serde_json::from_str(&answer)?;
        let objects = answer.pointer("/response/convertedObjects").and_then(Value::as_array);
        let objects = objects.with_context(|| format!("/convert fails: {answer}"))?.clone();
        ensure!(objects.len() == count, "{count} objects became {}", objects.len());
        Ok(Converted { objects, took })
    }

    async fn post(&self, path: &str, body: &Value) -> Result<(String, Duration)> {
        let request = Request::post(path).body(serde_json::to_vec(body)?)?;
        let begin = Instant::now();
        let answer = self.client.request_text(request).await.with_context(|| format!("{path} does not answer"))?;
        Ok((answer, begin.elapsed()))
    }
}

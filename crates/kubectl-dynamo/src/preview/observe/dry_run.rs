//! Admission result of an edit: a dry run on the API server, with the rights of the user.

use anyhow::{Context, anyhow};
use api_types::conversion::{ApiVersion, convert};
use http::{Method, Request, StatusCode, header::CONTENT_TYPE};
use kube::{Client, client::Body};
use serde_json::{Value, json};

use crate::preview::edit::{LAST_APPLIED, client_side_patch};

/// Limit of repeated reads of a graph that changed between a read and the dry run.
const ATTEMPTS: usize = 5;

/// An edit of one graph.
pub enum Edit {
    /// A manifest, applied as `kubectl apply` does.
    Manifest(Value),
    /// A manifest, applied as `kubectl apply --server-side` does, by this field manager.
    ServerSide(Value, String),
    /// A live graph with other fields.
    Replacement(Value),
}

/// The answer to an edit. Graphs are as they would be stored, in v1beta1.
pub enum DryRunAnswer {
    /// The API server has run admission; its warnings.
    Admitted(Value, Vec<String>),
    /// The user has no right to write the graph; why.
    NotAsked(Value, String),
    /// Reason for the rejection.
    Refused(String),
}

/// Sends a dry run of an edit. Without the right to write, the graph is merged here.
///
/// # Errors
/// The API server does not answer, or the manifest cannot be converted.
pub async fn admit(client: &Client, namespace: &str, edit: &Edit) -> anyhow::Result<DryRunAnswer> {
    let (Edit::Manifest(graph) | Edit::ServerSide(graph, _) | Edit::Replacement(graph)) = edit;
    let name = graph.pointer("/metadata/name").and_then(Value::as_str).context("metadata.name is missing")?;
    let version = graph["apiVersion"].as_str().unwrap_or_default();
    let all = format!("/apis/{version}/namespaces/{namespace}/dynamographdeployments");
    let path = format!("{all}/{name}");
    let mut attempt = 1;
    loop {
        let live = match send(client, Method::GET, &path, "application/json", &Value::Null).await? {
            Sent { status: StatusCode::NOT_FOUND, .. } => None,
            Sent { status, body, .. } if status.is_success() => Some(body),
            sent => return Err(anyhow!("cannot read graph {namespace}/{name}: {}", sent.message())),
        };
        let sent = dry_run(client, edit, live.as_ref(), &all, &path).await?;
        if sent.status.is_success() {
            let graph = convert(sent.body, ApiVersion::V1Beta1)?;
            return Ok(DryRunAnswer::Admitted(graph, sent.warnings));
        }
        let message = sent.message();
        let is_admission = message.contains("admission webhook");
        if sent.status == StatusCode::FORBIDDEN && message.contains(" cannot ") && !is_admission {
            let merged = merged(live, graph, matches!(edit, Edit::Replacement(_)), namespace)?;
            return Ok(DryRunAnswer::NotAsked(merged, message));
        }
        // A controller has written its status since the graph was read.
        let is_outdated = sent.status == StatusCode::CONFLICT && matches!(edit, Edit::Replacement(_));
        if is_outdated && attempt < ATTEMPTS {
            attempt += 1;
            continue;
        }
        return match sent.status.is_server_error() {
            true => Err(anyhow!("the API server cannot check the graph: {message}")),
            false => Ok(DryRunAnswer::Refused(message)),
        };
    }
}

/// Sends the dry run of an edit. `all` is the path of all graphs, `path` that of the one.
async fn dry_run(client: &Client, edit: &Edit, live: Option<&Value>, all: &str, path: &str) -> anyhow::Result<Sent> {
    let options = "dryRun=All&fieldValidation=Strict";
    let client_side = format!("{options}&fieldManager=kubectl-client-side-apply");
    match (edit, live) {
        (Edit::ServerSide(graph, manager), _) => {
            let target = format!("{path}?{options}&fieldManager={manager}");
            send(client, Method::PATCH, &target, "application/apply-patch+yaml", graph).await
        }
        (Edit::Replacement(graph), live) => {
            let mut body = graph.clone();
            if let Some(version) = live.and_then(|live| live.pointer("/metadata/resourceVersion")) {
                body["metadata"]["resourceVersion"] = version.clone();
            }
            let target = format!("{path}?{options}&fieldManager=kubectl-edit");
            send(client, Method::PUT, &target, "application/json", &body).await
        }
        (Edit::Manifest(graph), Some(live)) => {
            let body = client_side_patch(live, graph)?;
            send(client, Method::PATCH, &format!("{path}?{client_side}"), "application/merge-patch+json", &body).await
        }
        (Edit::Manifest(graph), None) => {
            let mut body = graph.clone();
            body["metadata"]["annotations"][LAST_APPLIED] = json!(graph.to_string());
            send(client, Method::POST, &format!("{all}?{client_side}"), "application/json", &body).await
        }
    }
}

/// The graph as it would be without admission.
fn merged(live: Option<Value>, graph: &Value, replaces: bool, namespace: &str) -> anyhow::Result<Value> {
    let desired = convert(graph.clone(), ApiVersion::V1Beta1)?;
    let Some(live) = live else {
        let mut new = desired;
        new["metadata"]["namespace"] = json!(namespace);
        return Ok(new);
    };
    if replaces {
        return Ok(desired);
    }
    let mut merged = convert(live, ApiVersion::V1Beta1)?;
    merged["spec"] = desired["spec"].clone();
    for field in ["labels", "annotations"] {
        let given = &desired["metadata"][field];
        if given.is_object() {
            json_patch::merge(&mut merged["metadata"][field], given);
        }
    }
    Ok(merged)
}

/// An answer of the API server.
struct Sent {
    status: StatusCode,
    warnings: Vec<String>,
    body: Value,
}

impl Sent {
    fn message(&self) -> String {
        self.body["message"].as_str().map_or_else(|| self.status.to_string(), str::to_owned)
    }
}

async fn send(client: &Client, method: Method, target: &str, type_: &str, body: &Value) -> anyhow::Result<Sent> {
    let request = Request::builder().method(method).uri(target).header(CONTENT_TYPE, type_);
    let body = if body.is_null() { Body::empty() } else { Body::from(serde_json::to_vec(body)?) };
    let answer = client.send(request.body(body)?).await.context("the API server does not answer")?;
    let warnings = answer.headers().get_all("warning").iter().filter_map(|value| warning(value.to_str().ok()?));
    let (status, warnings) = (answer.status(), warnings.collect());
    let bytes = answer.into_body().collect_bytes().await?;
    let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!({ "message": String::from_utf8_lossy(&bytes) }));
    Ok(Sent { status, warnings, body })
}

/// The text of a header `299 - "text"`.
fn warning(header: &str) -> Option<String> {
    let text = header.strip_prefix("299 ")?.split_once('"')?.1.strip_suffix('"')?;
    Some(text.replace("\\\"", "\"").replace("\\\\", "\\"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_read_from_headers() {
        assert_eq!(warning(r#"299 - "field \"x\" is deprecated""#).as_deref(), Some("field \"x\" is deprecated"));
        assert_eq!(warning("110 - \"stale\""), None);
    }

    #[test]
    fn without_admission_a_manifest_replaces_the_spec_and_keeps_other_metadata() {
        let graph = |spec: Value, annotations: Value| {
            json!({ "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
                "metadata": { "name": "g", "annotations": annotations }, "spec": spec })
        };
        let live = graph(json!({ "components": [{ "name": "A" }] }), json!({ "theirs": "1" }));
        let expected = graph(json!({ "components": [{ "name": "B" }] }), json!({ "mine": "2" }));
        let after = merged(Some(live), &expected, false, "n").unwrap();
        assert_eq!(after["spec"], expected["spec"]);
        assert_eq!(after["metadata"]["annotations"], json!({ "theirs": "1", "mine": "2" }));
        assert_eq!(merged(None, &expected, false, "n").unwrap()["metadata"]["namespace"], "n");
    }
}

//! Requests that change an object, each on request of the user.

use anyhow::{Context, anyhow};
use api_types::v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::observe::{Connection, words};

/// Owner of the fields that the plugin sets.
const FIELD_MANAGER: &str = "kubectl-dynamo";

/// Sets the replicas of a scaling adapter by its scale subresource.
///
/// # Errors
/// The API server rejects it.
pub async fn scale(connection: &Connection, adapter: &str, replicas: i32) -> anyhow::Result<()> {
    let api: Api<DynamoGraphDeploymentScalingAdapter> =
        Api::namespaced(connection.client.clone(), &connection.namespace);
    let patch = json!({ "spec": { "replicas": replicas } });
    let answer = api.patch_scale(adapter, &PatchParams::apply(FIELD_MANAGER), &Patch::Merge(&patch)).await;
    let what = || format!("cannot scale DynamoGraphDeploymentScalingAdapter {}/{adapter}", connection.namespace);
    answer.map(drop).map_err(|error| anyhow!(words(&error))).with_context(what)
}

/// Sets `spec.restart.id` of a graph.
///
/// # Errors
/// The API server rejects it.
pub async fn restart(connection: &Connection, graph: &str, id: &str) -> anyhow::Result<()> {
    patch_graph(connection, graph, "restart", &json!({ "spec": { "restart": { "id": id } } })).await
}

/// Sets an annotation of a graph, or removes it.
///
/// # Errors
/// The API server rejects it.
pub async fn annotate(connection: &Connection, graph: &str, key: &str, value: Option<&str>) -> anyhow::Result<()> {
    patch_graph(connection, graph, "annotate", &json!({ "metadata": { "annotations": { key: value } } })).await
}

async fn patch_graph(connection: &Connection, graph: &str, verb: &str, patch: &Value) -> anyhow::Result<()> {
    let api: Api<DynamoGraphDeployment> = Api::namespaced(connection.client.clone(), &connection.namespace);
    let answer = api.patch(graph, &PatchParams::apply(FIELD_MANAGER), &Patch::Merge(patch)).await;
    let what = || format!("cannot {verb} DynamoGraphDeployment {}/{graph}", connection.namespace);
    answer.map(drop).map_err(|error| anyhow!(words(&error))).with_context(what)
}

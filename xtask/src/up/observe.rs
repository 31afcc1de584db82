//! Reads a target and its children.

use anyhow::Result;
use api_types::{
    labels,
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client,
    api::{Api, ListParams},
};
use status_view::State;

use super::manifests::Target;

/// The state of a target, or `None` if it was deleted.
pub(super) async fn observe(client: &Client, target: &Target) -> Result<Option<State>> {
    let (namespace, name) = (&target.namespace, &target.name);
    let components: Api<DynamoComponentDeployment> = Api::namespaced(client.clone(), namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let own = |label: &str| ListParams::default().labels(&format!("{label}={name}"));
    if !target.is_graph {
        let own = own(labels::SELECTOR);
        let (component, pods) = tokio::try_join!(components.get_opt(name), pods.list(&own))?;
        return Ok(component.map(|component| State::of_component(&component, &pods.items)));
    }
    let graphs: Api<DynamoGraphDeployment> = Api::namespaced(client.clone(), namespace);
    let own = own(labels::GRAPH);
    let (graph, components, pods) = tokio::try_join!(graphs.get_opt(name), components.list(&own), pods.list(&own))?;
    Ok(graph.map(|graph| State::of_graph(&graph, &components.items, &pods.items)))
}

//! Looks at the API server and gives what there is to see of a target.

use std::collections::HashMap;

use anyhow::Result;
use api_types::{
    labels,
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, ResourceExt,
    api::{Api, ListParams},
};

use super::{
    apply::{Kind, Target},
    view::{ComponentView, View},
};

/// The present view of a target, or `None` if it was deleted.
pub(super) async fn observe(client: &Client, target: &Target) -> Result<Option<View>> {
    match target.kind {
        Kind::Graph => graph(client, target).await,
        Kind::Component => component(client, target).await,
    }
}

async fn graph(client: &Client, target: &Target) -> Result<Option<View>> {
    let graphs: Api<DynamoGraphDeployment> = Api::namespaced(client.clone(), &target.namespace);
    let components: Api<DynamoComponentDeployment> = Api::namespaced(client.clone(), &target.namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), &target.namespace);
    let own = ListParams::default().labels(&format!("{}={}", labels::GRAPH, target.name));
    let (graph, components, pods) =
        tokio::try_join!(graphs.get_opt(&target.name), components.list(&own), pods.list(&own))?;
    let Some(graph) = graph else { return Ok(None) };
    let name_of = |object_labels: &std::collections::BTreeMap<String, String>| {
        object_labels.get(labels::COMPONENT).cloned().unwrap_or_default()
    };
    let mut pods_of: HashMap<String, Vec<Pod>> = HashMap::new();
    for pod in pods {
        pods_of.entry(name_of(pod.labels())).or_default().push(pod);
    }
    let status = graph.status.clone().unwrap_or_default();
    let views = graph.spec.components.iter().map(|spec| {
        let running = components.iter().filter(|component| name_of(component.labels()) == spec.name);
        let conditions = running.flat_map(|component| component.status.iter().flat_map(|status| &status.conditions));
        ComponentView {
            counts: status.components.get(&spec.name).cloned(),
            pods: pods_of.remove(&spec.name).unwrap_or_default(),
            conditions: conditions.cloned().collect(),
            ..ComponentView::of(spec)
        }
    });
    Ok(Some(View {
        title: target.to_string(),
        generation: graph.metadata.generation.unwrap_or_default(),
        components: views.collect(),
        conditions: status.conditions,
    }))
}

async fn component(client: &Client, target: &Target) -> Result<Option<View>> {
    let components: Api<DynamoComponentDeployment> = Api::namespaced(client.clone(), &target.namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), &target.namespace);
    let own = ListParams::default().labels(&format!("{}={}", labels::SELECTOR, target.name));
    let (component, pods) = tokio::try_join!(components.get_opt(&target.name), pods.list(&own))?;
    let Some(component) = component else { return Ok(None) };
    let status = component.status.clone().unwrap_or_default();
    let view = ComponentView {
        counts: status.component,
        pods: pods.items,
        conditions: status.conditions.clone(),
        ..ComponentView::of(&component.spec.component)
    };
    Ok(Some(View {
        title: target.to_string(),
        generation: component.metadata.generation.unwrap_or_default(),
        components: vec![view],
        conditions: status.conditions,
    }))
}

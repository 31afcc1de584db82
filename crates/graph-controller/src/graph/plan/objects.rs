//! Objects that belong to the graph as a whole and not to one of its components.

use std::collections::{BTreeMap, BTreeSet};

use api_types::{labels, names};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use rendering::{DiscoveryBackend, WorkloadProvider};

use super::{
    adapters::{adapters, autoscalers},
    discovery::{add_discovery_access, shared_accounts},
    endpoint_picker, metadata,
    volumes::volumes,
};
use crate::graph::{
    model::{GraphObjects, GraphObserved, ValidGraph},
    plan::add_graph_label,
};

/// Plans what the graph needs beside its components.
pub fn objects(graph: &ValidGraph<'_>, observed: &GraphObserved) -> GraphObjects {
    let mut objects = GraphObjects {
        shared_accounts: shared_accounts(graph),
        config_maps: endpoint_picker::config_map(graph).into_iter().collect(),
        volumes: volumes(graph, &observed.legacy.claims),
        claim_templates: graph.claim_templates.clone(),
        pool: endpoint_picker::pool(graph),
        destination_rule: endpoint_picker::destination_rule(graph),
        adapters: adapters(graph, observed),
        autoscalers: autoscalers(graph),
        manifest_of: observed.legacy.manifest_of.clone(),
        build: observed.legacy.build.clone(),
        ..GraphObjects::default()
    };
    if graph.provider == WorkloadProvider::Grove {
        objects.model_services = model_services(graph);
    }
    for template in &mut objects.claim_templates {
        add_graph_label(template, graph);
    }
    if graph.discovery == DiscoveryBackend::Kubernetes {
        add_discovery_access(&mut objects, graph, observed.has_own_role);
    }
    if graph.spec.components.iter().any(|component| component.is_multinode()) {
        objects.config_maps.push(wait_for_leader(graph));
    }
    objects
}

/// One Service for each base model that components of the graph serve.
fn model_services(graph: &ValidGraph<'_>) -> Vec<Service> {
    let models = graph.spec.components.iter().filter_map(|component| component.model_ref.as_ref());
    let models: BTreeSet<_> = models.map(|model| model.name.as_str()).filter(|name| !name.is_empty()).collect();
    models.into_iter().map(|model| rendering::render_model_service(&graph.namespace, model)).collect()
}

fn wait_for_leader(graph: &ValidGraph<'_>) -> ConfigMap {
    let name = names::wait_leader_config_map(&graph.name);
    ConfigMap {
        metadata: metadata(&graph.namespace, name, [(labels::GRAPH, graph.name.clone())]),
        data: Some(BTreeMap::from([(names::WAIT_LEADER_SCRIPT.to_owned(), rendering::WAIT_FOR_LEADER.to_owned())])),
        ..ConfigMap::default()
    }
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;
    use crate::graph::{
        fixtures::{graph_with, observed, settings},
        validate::validate,
    };

    #[test]
    fn a_base_model_has_one_service_and_on_components_it_is_theirs() {
        let graph = graph_with(|g| {
            g["spec"]["components"][1]["modelRef"] = json!({ "name": "m" });
            let mut prefill = g["spec"]["components"][1].clone();
            (prefill["name"], prefill["type"]) = (json!("Prefill"), json!("prefill"));
            g["spec"]["components"].as_array_mut().unwrap().push(prefill);
        });
        let services = |provider| -> Vec<String> {
            let observed = GraphObserved { provider, ..observed(&graph, Vec::new()) };
            let all = objects(&validate(&observed, settings()).unwrap(), &observed).model_services;
            all.iter().map(ResourceExt::name_any).collect()
        };
        assert_eq!(services(WorkloadProvider::Grove), [names::model_service("m")]);
        assert_eq!(services(WorkloadProvider::Component), [""; 0]);
    }
}

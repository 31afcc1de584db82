//! Objects that belong to the graph as a whole and not to one of its components, and the storage that a graph of
//! v1alpha1 names beside its components.

use std::collections::{BTreeMap, BTreeSet};

use api_types::{
    conversion::preserved::{PreservedClaim, claims_of_graph},
    labels, names,
};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use rendering::{DiscoveryBackend, WorkloadProvider, legacy::render_claim};

use super::{
    adapters::{adapters, autoscalers},
    discovery::{add_discovery_access, shared_accounts},
    endpoint_picker, metadata,
};
use crate::graph::{
    model::{GraphObjects, GraphObserved, GraphVolume, ValidGraph},
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
    ConfigMap {
        metadata: metadata(
            &graph.namespace,
            names::wait_leader_config_map(&graph.name),
            [(labels::GRAPH, graph.name.clone())],
        ),
        data: Some(BTreeMap::from([(names::WAIT_LEADER_SCRIPT.to_owned(), rendering::WAIT_FOR_LEADER.to_owned())])),
        ..ConfigMap::default()
    }
}

/// The claims that the graph names, each once. One that it names no longer is not deleted: it goes with the
/// graph. Those `of_components` count as named too.
pub fn volumes(graph: &ValidGraph<'_>, of_components: &[PreservedClaim]) -> Vec<GraphVolume> {
    let all = of_components.iter().cloned().chain(claims_of_graph(graph.annotations));
    let named: BTreeMap<String, PreservedClaim> = all.map(|claim| (claim.name.clone(), claim)).collect();
    let made = |claim: &PreservedClaim| claim.create.then(|| render_claim(claim, &graph.namespace));
    named.into_values().map(|claim| GraphVolume { make: made(&claim), name: claim.name }).collect()
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

#[cfg(test)]
mod volumes_tests {
    use api_types::conversion::{ApiVersion, convert};
    use serde_json::{Value, json};

    use super::*;
    use crate::graph::fixtures::valid;

    fn claims(pvcs: Value) -> Vec<GraphVolume> {
        let alpha = json!({
            "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment",
            "metadata": { "name": "chat", "namespace": "team-a", "uid": "u" },
            "spec": { "pvcs": pvcs, "services": { "Frontend": { "componentType": "frontend",
                "extraPodSpec": { "mainContainer": { "image": "registry.example/frontend:1.5.0" } } } } },
        });
        let graph = serde_json::from_value(convert(alpha, ApiVersion::V1Beta1).unwrap()).unwrap();
        volumes(&valid(&graph), &[])
    }

    #[test]
    fn a_claim_is_made_only_if_the_author_says_so() {
        let shared =
            json!({ "name": "models", "storageClass": "fast", "size": "100Gi", "volumeAccessMode": "ReadWriteMany" });
        assert_eq!(claims(json!([shared])), [GraphVolume { name: "models".to_owned(), make: None }]);
        let mut made = shared.clone();
        made["create"] = json!(true);
        let [claim] = <[_; 1]>::try_from(claims(json!([shared, made]))).unwrap();
        let expected = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "models", "namespace": "team-a" },
            "spec": { "accessModes": ["ReadWriteMany"], "storageClassName": "fast",
                      "resources": { "requests": { "storage": "100Gi" } } },
        });
        assert_eq!(serde_json::to_value(claim.make.unwrap()).unwrap(), expected);
    }

    #[test]
    fn what_the_author_leaves_out_is_the_clusters_choice() {
        let [claim] = <[_; 1]>::try_from(claims(json!([{ "name": "models", "create": true }]))).unwrap();
        assert_eq!(serde_json::to_value(claim.make.unwrap()).unwrap()["spec"], json!({}));
    }
}

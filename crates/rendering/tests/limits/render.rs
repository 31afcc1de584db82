//! Result for an object: violations, or everything that a controller writes for it.

use std::collections::BTreeMap;

use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use rendering::{
    PodSettings, PullSecretIndex, RenderInput, WorkloadProvider,
    checkpoint::Start,
    grove::{self, GroveComponent, GroveGraph, GroveSettings},
    render_deployment, render_leader_worker_set, render_service, validate_leader_worker_set, validate_on,
};
use serde_json::{Value, json};

/// Result for an object.
#[derive(Debug)]
pub enum Answer {
    /// It cannot be read as an object of its kind.
    Unreadable,
    /// It has violations.
    Refused(Vec<String>),
    /// Everything was rendered.
    Rendered,
}

/// Validates and renders an object of v1beta1, as components and on Grove.
pub fn answer(object: &Value) -> Answer {
    if object["kind"] == "DynamoComponentDeployment" {
        return serde_json::from_value(object.clone()).map_or(Answer::Unreadable, |alone| component(&alone));
    }
    serde_json::from_value(object.clone()).map_or(Answer::Unreadable, |graph| on_grove(&graph))
}

fn component(component: &DynamoComponentDeployment) -> Answer {
    let valid = match validate_on(WorkloadProvider::Component, component) {
        Ok(valid) => valid,
        Err(violations) => return Answer::Refused(violations.iter().map(ToString::to_string).collect()),
    };
    let (settings, pull_secrets) = (PodSettings::default(), PullSecretIndex::default());
    let input = RenderInput {
        settings: &settings,
        pull_secrets: &pull_secrets,
        fallback_service_account: None,
        legacy_type_is_worker: false,
        restore: &Start::Cold,
        claimed_gpus: 0,
    };
    valid.joins_nodes(0);
    drop(render_service(&input, &valid));
    if !component.spec.component.is_multinode() {
        drop(render_deployment(&input, &valid));
    } else if validate_leader_worker_set(&valid, false).is_ok() {
        drop(render_leader_worker_set(&input, &valid));
    }
    Answer::Rendered
}

fn on_grove(graph: &DynamoGraphDeployment) -> Answer {
    let mut violations: Vec<_> = grove::check(graph).iter().map(ToString::to_string).collect();
    let alone: Vec<_> = graph
        .spec
        .components
        .iter()
        .map(|component| {
            let mut alone: DynamoComponentDeployment = serde_json::from_value(json!({
                "metadata": { "name": format!("g-{}", component.name), "namespace": "n", "uid": "u" }, "spec": {},
            }))
            .unwrap();
            alone.spec.backend_framework = graph.spec.backend_framework;
            alone.spec.component = component.clone();
            alone
        })
        .collect();
    let (annotations, pods, settings) = (BTreeMap::new(), PodSettings::default(), GroveSettings::default());
    let pull_secrets = PullSecretIndex::default();
    let mut components = Vec::new();
    for (declared, alone) in graph.spec.components.iter().zip(&alone) {
        match validate_on(WorkloadProvider::Grove, alone) {
            Ok(valid) => components.push(GroveComponent {
                declared,
                valid,
                unknown_type: None,
                restart_at: None,
                input: RenderInput {
                    settings: &pods,
                    pull_secrets: &pull_secrets,
                    fallback_service_account: None,
                    legacy_type_is_worker: false,
                    restore: &Start::Cold,
                    claimed_gpus: 0,
                },
            }),
            Err(found) => violations.extend(found.iter().map(ToString::to_string)),
        }
    }
    if !violations.is_empty() {
        return Answer::Refused(violations);
    }
    let set_name = grove::set_name("g", &graph.spec.components);
    let graph = GroveGraph {
        name: "g",
        namespace: "n",
        annotations: &annotations,
        spec: &graph.spec,
        set_name: &set_name,
        components: &components,
        grove: &settings,
    };
    drop(grove::render_pod_clique_set(&graph));
    components.iter().for_each(|component| drop(grove::render_service(&graph, component)));
    Answer::Rendered
}

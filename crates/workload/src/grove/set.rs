//! The PodCliqueSet of a graph.

use super::roles::{self, ChildKind, Clique, child_of};
use super::{GroveComponent, GroveGraph, clique, topology};
use crate::NodeRole;
use crate::metadata::some;
use api_types::grove::{
    HeadlessServiceConfig, PodCliqueSet, PodCliqueSetSpec, PodCliqueSetTemplate, PodCliqueSetUpdateStrategy,
    PodCliqueTemplate, ScalingGroupConfig,
};
use api_types::v1beta1::BackendFramework;
use api_types::{annotations, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

const ANY_ORDER: &str = "CliqueStartupTypeAnyOrder";
const EXPLICIT: &str = "CliqueStartupTypeExplicit";

/// The PodCliqueSet that runs a graph, as it would be made anew.
pub fn render_pod_clique_set(graph: &GroveGraph<'_>) -> PodCliqueSet {
    let mut template = PodCliqueSetTemplate {
        clique_startup_type: Some(ANY_ORDER.to_owned()),
        headless_service_config: Some(HeadlessServiceConfig { publish_not_ready_addresses: true }),
        priority_class_name: graph.spec.priority_class_name.clone().filter(|name| !name.is_empty()),
        termination_delay: graph.grove.termination_delay.clone(),
        topology_constraint: topology::of_graph(graph.spec),
        ..PodCliqueSetTemplate::default()
    };
    for component in graph.components {
        add(&mut template, graph, component);
    }
    if template.cliques.iter().any(|clique| !clique.spec.starts_after.is_empty()) {
        template.clique_startup_type = Some(EXPLICIT.to_owned());
    }
    topology::apply_overrides(&mut template, graph.spec);

    let strategy = graph.annotations.get(annotations::GROVE_UPDATE_STRATEGY);
    PodCliqueSet {
        metadata: metadata(graph),
        spec: PodCliqueSetSpec {
            replicas: 1,
            update_strategy: strategy.map(|type_| PodCliqueSetUpdateStrategy { type_: type_.clone() }),
            template,
        },
        status: None,
    }
}

fn metadata(graph: &GroveGraph<'_>) -> ObjectMeta {
    let mut all_labels = graph.spec.labels.clone().unwrap_or_default();
    all_labels.insert(labels::GRAPH.to_owned(), graph.name.to_owned());
    let mut all_annotations = graph.spec.annotations.clone().unwrap_or_default();
    graph.grove.scheduler.annotate(&mut all_annotations, graph.annotations);
    ObjectMeta {
        name: Some(graph.set_name.to_owned()),
        namespace: Some(graph.namespace.to_owned()),
        labels: some(all_labels),
        annotations: some(all_annotations),
        ..ObjectMeta::default()
    }
}

/// Adds the cliques of one component, and its scaling group if it has one.
fn add(template: &mut PodCliqueSetTemplate, graph: &GroveGraph<'_>, component: &GroveComponent<'_>) {
    let author = component.author;
    let plans = roles::cliques(author);
    let in_group = child_of(author) == ChildKind::PodCliqueScalingGroup;
    let mut cliques: Vec<PodCliqueTemplate> =
        plans.iter().map(|plan| clique::render(graph, component, plan, in_group)).collect();
    if component.valid.framework() == Some(BackendFramework::Trtllm) {
        leader_waits_for_workers(&plans, &mut cliques);
    }
    template.cliques.append(&mut cliques);
    if in_group {
        let min_available = author.min_available.unwrap_or(1).max(1);
        template.pod_clique_scaling_groups.push(ScalingGroupConfig {
            name: author.name.to_lowercase(),
            clique_names: plans.into_iter().map(|plan| plan.name).collect(),
            // Grove takes none with fewer; what shall have fewer is scaled down once it exists.
            replicas: Some(author.wanted_replicas().max(min_available)),
            min_available: Some(min_available),
            topology_constraint: topology::of_component(graph.spec, author),
            ..ScalingGroupConfig::default()
        });
    }
}

/// The leader of TensorRT-LLM starts the engine over SSH on nodes that must be there by then.
fn leader_waits_for_workers(plans: &[Clique], cliques: &mut [PodCliqueTemplate]) {
    let of = |role| plans.iter().filter(move |plan| plan.role == Some(role)).map(|plan| plan.name.clone());
    let workers: Vec<String> = of(NodeRole::Worker).collect();
    for leader in of(NodeRole::Leader) {
        let clique = cliques.iter_mut().find(|clique| clique.name == leader);
        clique.into_iter().for_each(|clique| clique.spec.starts_after.clone_from(&workers));
    }
}

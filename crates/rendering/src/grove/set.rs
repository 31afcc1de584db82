//! The PodCliqueSet of a graph.

use api_types::{
    annotations,
    grove::{
        HeadlessServiceConfig, PodCliqueSet, PodCliqueSetSpec, PodCliqueSetTemplate, PodCliqueSetUpdateStrategy,
        PodCliqueTemplate, ScalingGroupConfig,
    },
    labels, names,
    v1beta1::BackendFramework,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::{
    GroveComponent, GroveGraph, clique,
    roles::{self, ChildKind, Clique, CliqueRole, child_of},
    topology,
};
use crate::{NodeRole, metadata::some, rank_claim};

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
    let declared = component.declared;
    let plans = roles::cliques(declared);
    let in_group = child_of(declared) == ChildKind::PodCliqueScalingGroup;
    let mut cliques: Vec<PodCliqueTemplate> =
        plans.iter().map(|plan| clique::render(graph, component, plan, in_group)).collect();
    let engine_over_ssh = component.valid.framework() == Some(BackendFramework::Trtllm);
    for (plan, clique) in plans.iter().zip(&mut cliques) {
        clique.spec.starts_after = starts_after(plan, &plans, engine_over_ssh);
    }
    template.cliques.append(&mut cliques);
    let resource_sharing = share_gpus(template, component, &plans);
    if in_group {
        let min_available = declared.min_available.unwrap_or(1).max(1);
        template.pod_clique_scaling_groups.push(ScalingGroupConfig {
            name: declared.name.to_lowercase(),
            clique_names: plans.into_iter().map(|plan| plan.name).collect(),
            // Grove takes none with fewer; a component with fewer desired ones is scaled down once it exists.
            replicas: Some(declared.wanted_replicas().max(min_available)),
            min_available: Some(min_available),
            resource_sharing,
            topology_constraint: topology::of_component(graph.spec, declared),
        });
    }
}

/// The cliques that must run before a clique starts: the memory that its engines use, and with TensorRT-LLM, whose
/// leader starts the engine on the other nodes over SSH, those nodes.
fn starts_after(plan: &Clique, all: &[Clique], engine_over_ssh: bool) -> Vec<String> {
    let is_needed = |other: &Clique| match (plan.role, other.role) {
        (CliqueRole::EngineOfRank(rank, _), CliqueRole::MemoryOfRank(of)) => rank == of,
        (
            CliqueRole::Node(NodeRole::Leader) | CliqueRole::EngineOfRank(_, Some(NodeRole::Leader)),
            CliqueRole::Node(NodeRole::Worker) | CliqueRole::EngineOfRank(_, Some(NodeRole::Worker)),
        ) => engine_over_ssh,
        _ => false,
    };
    all.iter().filter(|other| is_needed(other)).map(|other| other.name.clone()).collect()
}

/// Gives each rank of a replica its own claim of GPUs, which its memory and its engines share.
fn share_gpus(
    template: &mut PodCliqueSetTemplate,
    component: &GroveComponent<'_>,
    plans: &[Clique],
) -> Vec<serde_json::Value> {
    let Some(shared) = component.valid.shared_gpus() else { return Vec::new() };
    let mut sharing = Vec::new();
    for memory in plans {
        let CliqueRole::MemoryOfRank(rank) = memory.role else { continue };
        let name = names::gpu_claim_of_rank(&component.declared.name, rank);
        let of_rank = plans.iter().filter(|plan| match plan.role {
            CliqueRole::MemoryOfRank(of) | CliqueRole::EngineOfRank(of, _) => of == rank,
            CliqueRole::Alone | CliqueRole::Node(_) => false,
        });
        let cliques: Vec<&str> = of_rank.map(|plan| plan.name.as_str()).collect();
        let mut claim = json!(rank_claim(shared));
        // As the upstream operator writes it.
        claim["metadata"] = json!({});
        template.resource_claim_templates.push(json!({ "name": name, "templateSpec": claim }));
        sharing.push(json!({ "name": name, "scope": "PerReplica", "filter": { "childCliqueNames": cliques } }));
    }
    sharing
}

//! The PodCliqueSet of a graph on Grove, and the Services of its components.

use api_types::{
    annotations,
    external::VirtualService,
    grove::{
        HeadlessServiceConfig, PodCliqueSet, PodCliqueSetSpec, PodCliqueSetTemplate, PodCliqueSetUpdateStrategy,
        PodCliqueTemplate, ScalingGroupConfig,
    },
    labels, names, ports,
    v1beta1::{BackendFramework, ComponentType},
};
use k8s_openapi::{
    api::{core::v1::Service, networking::v1::Ingress},
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};
use serde_json::{Value, json};

use super::{
    GroveComponent, GroveGraph, clique,
    roles::{self, ChildKind, Clique, CliqueRole, child_of},
    topology,
};
use crate::{
    DiscoveryBackend, NodeRole, exposure, frameworks,
    metadata::{Pairs, marked},
    rank_claim, service,
};

/// The Service of a component, without owner; `None` if there must be none.
pub fn render_service(graph: &GroveGraph<'_>, component: &GroveComponent<'_>) -> Option<Service> {
    let (input, valid) = (&component.input, &component.valid);
    let is_frontend = component.declared.type_ == Some(ComponentType::Frontend);
    if valid.discovery_backend(input) != DiscoveryBackend::Kubernetes && !is_frontend {
        return None;
    }
    let mut service = component_service(graph, component, names::service);
    service.metadata.labels.get_or_insert_default().extend(valid.discovery_labels(input));
    Some(service)
}

/// The headless Service by which others join a worker that scales over Ray and is standalone, without owner; `None` for
/// every other component. Those who join must find the head before it is ready.
pub fn render_ray_head_service(graph: &GroveGraph<'_>, component: &GroveComponent<'_>) -> Option<Service> {
    let (declared, valid) = (component.declared, &component.valid);
    let alone = !declared.is_multinode() && declared.desired_replicas() == 1;
    if !alone || valid.framework != Some(BackendFramework::Vllm) || !frameworks::may_be_joined(valid.main) {
        return None;
    }
    let head = service::tcp(ports::RAY_NAME, ports::RAY, IntOrString::Int(ports::RAY));
    let mut service = component_service(graph, component, names::ray_head_service);
    let spec = service.spec.get_or_insert_default();
    spec.cluster_ip = Some("None".to_owned());
    spec.publish_not_ready_addresses = Some(true);
    spec.ports.get_or_insert_default().insert(0, head);
    Some(service)
}

/// A Service of the pods of a component. `name` makes its name from that of the component's workload.
fn component_service(graph: &GroveGraph<'_>, component: &GroveComponent<'_>, name: impl Fn(&str) -> String) -> Service {
    let component_type = component.valid.workload_type(&component.input);
    let workload = names::component_deployment(graph.name, &component.declared.name, None);
    let mut all_annotations = graph.spec.annotations.clone().unwrap_or_default();
    all_annotations.extend(component.valid.preserved.annotations.clone());
    all_annotations.extend(component.declared.pod_annotations().cloned().unwrap_or_default());
    let metadata = marked(name(&workload), graph.namespace, service_labels(graph, component), all_annotations);
    service::of(metadata, selector(component, component_type), service::port(component_type))
}

/// The Ingress of a frontend, without owner; `None` if there must be none.
pub fn render_ingress(component: &GroveComponent<'_>) -> Option<Ingress> {
    let mut ingress = exposure::render_ingress(&component.input, &component.valid)?;
    become_the_graphs(&mut ingress.metadata);
    Some(ingress)
}

/// The VirtualService of a frontend, without owner; `None` if there must be none.
pub fn render_virtual_service(component: &GroveComponent<'_>) -> Option<VirtualService> {
    let mut route = exposure::render_virtual_service(&component.input, &component.valid)?;
    become_the_graphs(&mut route.metadata);
    Some(route)
}

/// On Grove there is no component that could own anything, and none that its objects could be watched for.
fn become_the_graphs(metadata: &mut ObjectMeta) {
    metadata.owner_references = None;
    metadata.labels.get_or_insert_default().remove(labels::OWN_COMPONENT);
}

/// The labels of a component's pods.
fn selector(component: &GroveComponent<'_>, component_type: Option<ComponentType>) -> Pairs {
    let mut selector = service::selector(&component.valid, component_type);
    selector.insert(labels::DYNAMO_NAMESPACE.to_owned(), component.valid.dynamo_namespace_for_pods());
    selector.extend(component.unknown_type.map(|unknown| (labels::COMPONENT_TYPE.to_owned(), unknown.to_owned())));
    selector
}

/// The user's labels and the revision, as the upstream operator has them, and labels of our own that say whose it is:
/// the Services of the upstream operator lack them.
fn service_labels(graph: &GroveGraph<'_>, component: &GroveComponent<'_>) -> Pairs {
    let mut all = graph.spec.labels.clone().unwrap_or_default();
    all.extend(component.valid.preserved.labels.clone());
    all.extend(component.declared.pod_labels().cloned().unwrap_or_default());
    all.extend(component.valid.revision().map(|hash| (labels::WORKER_HASH.to_owned(), hash.to_owned())));
    all.insert(labels::OWN_GRAPH.to_owned(), names::label_value(graph.name));
    all.insert(labels::OWN_COMPONENT.to_owned(), component.declared.name.clone());
    all
}

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
    marked(graph.set_name.to_owned(), graph.namespace, all_labels, all_annotations)
}

/// Adds the cliques of one component, and its scaling group if it has one.
fn add(template: &mut PodCliqueSetTemplate, graph: &GroveGraph<'_>, component: &GroveComponent<'_>) {
    let declared = component.declared;
    let plans = roles::cliques(declared);
    let in_group = child_of(declared) == ChildKind::PodCliqueScalingGroup;
    let mut cliques: Vec<PodCliqueTemplate> =
        plans.iter().map(|plan| clique::render(graph, component, plan, in_group)).collect();
    let engine_over_ssh = component.valid.framework == Some(BackendFramework::Trtllm);
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
            replicas: Some(declared.desired_replicas().max(min_available)),
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
fn share_gpus(template: &mut PodCliqueSetTemplate, component: &GroveComponent<'_>, plans: &[Clique]) -> Vec<Value> {
    let Some(shared) = component.valid.shared_gpus else { return Vec::new() };
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

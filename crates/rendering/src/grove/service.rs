//! How the components of a graph on Grove are reached.

use api_types::{external::VirtualService, labels, names, ports, v1beta1::ComponentType};
use k8s_openapi::{
    api::{
        core::v1::{Service, ServicePort, ServiceSpec},
        networking::v1::Ingress,
    },
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};

use super::{GroveComponent, GroveGraph, clique};
use crate::{
    DiscoveryBackend, exposure, frameworks,
    metadata::{Pairs, some},
    service,
};

/// The Service of a component, without owner; `None` if there must be none.
pub fn render_service(graph: &GroveGraph<'_>, component: &GroveComponent<'_>) -> Option<Service> {
    let input = clique::render_input(graph, component);
    let valid = &component.valid;
    let is_frontend = component.declared.type_ == Some(ComponentType::Frontend);
    if valid.discovery_backend(&input) != DiscoveryBackend::Kubernetes && !is_frontend {
        return None;
    }
    let component_type = valid.workload_type(&input);
    let mut all_labels = service_labels(graph, component);
    all_labels.extend(valid.discovery_labels(&input));
    let name = names::service(&names::component_deployment(graph.name, &component.declared.name, None));
    Some(Service {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(graph.namespace.to_owned()),
            labels: some(all_labels),
            annotations: some(service_annotations(graph, component)),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            selector: Some(selector(component, component_type)),
            ports: Some(vec![service::port(component_type)]),
            ..ServiceSpec::default()
        }),
        status: None,
    })
}

/// The headless Service by which others join a worker that scales over Ray and is standalone, without owner; `None` for
/// every other component. Those who join must find the head before it is ready.
pub fn render_ray_head_service(graph: &GroveGraph<'_>, component: &GroveComponent<'_>) -> Option<Service> {
    let (declared, valid) = (component.declared, &component.valid);
    let alone = !declared.is_multinode() && declared.wanted_replicas() == 1;
    if !alone || !frameworks::may_be_joined(valid.framework(), valid.main) {
        return None;
    }
    let component_type = valid.workload_type(&clique::render_input(graph, component));
    let head = ServicePort {
        name: Some(ports::RAY_NAME.to_owned()),
        port: ports::RAY,
        target_port: Some(IntOrString::Int(ports::RAY)),
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    };
    let own = names::component_deployment(graph.name, &declared.name, None);
    Some(Service {
        metadata: ObjectMeta {
            name: Some(names::ray_head_service(&own)),
            namespace: Some(graph.namespace.to_owned()),
            labels: some(service_labels(graph, component)),
            annotations: some(service_annotations(graph, component)),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            publish_not_ready_addresses: Some(true),
            selector: Some(selector(component, component_type)),
            ports: Some(vec![head, service::port(component_type)]),
            ..ServiceSpec::default()
        }),
        status: None,
    })
}

/// The Ingress of a frontend, without owner; `None` if there must be none.
pub fn render_ingress(graph: &GroveGraph<'_>, component: &GroveComponent<'_>) -> Option<Ingress> {
    let mut ingress = exposure::render_ingress(&clique::render_input(graph, component), &component.valid)?;
    become_the_graphs(&mut ingress.metadata);
    Some(ingress)
}

/// The VirtualService of a frontend, without owner; `None` if there must be none.
pub fn render_virtual_service(graph: &GroveGraph<'_>, component: &GroveComponent<'_>) -> Option<VirtualService> {
    let mut route = exposure::render_virtual_service(&clique::render_input(graph, component), &component.valid)?;
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
    if let Some(unknown) = component.unknown_type {
        selector.insert(labels::COMPONENT_TYPE.to_owned(), unknown.to_owned());
    }
    selector
}

/// The user's labels and the generation, as the upstream operator has them, and labels of our own that say whose it is:
/// the reference's Services do not tell.
fn service_labels(graph: &GroveGraph<'_>, component: &GroveComponent<'_>) -> Pairs {
    let mut all = graph.spec.labels.clone().unwrap_or_default();
    all.extend(component.valid.preserved.labels.clone());
    let template = component.declared.pod_template.as_ref().and_then(|template| template.metadata.as_ref());
    all.extend(template.and_then(|metadata| metadata.labels.clone()).unwrap_or_default());
    if let Some(generation) = component.valid.generation() {
        all.insert(labels::WORKER_HASH.to_owned(), generation.to_owned());
    }
    all.insert(labels::OWN_GRAPH.to_owned(), names::label_value(graph.name));
    all.insert(labels::OWN_COMPONENT.to_owned(), component.declared.name.clone());
    all
}

fn service_annotations(graph: &GroveGraph<'_>, component: &GroveComponent<'_>) -> Pairs {
    let mut all = graph.spec.annotations.clone().unwrap_or_default();
    all.extend(component.valid.preserved.annotations.clone());
    let template = component.declared.pod_template.as_ref().and_then(|template| template.metadata.as_ref());
    all.extend(template.and_then(|metadata| metadata.annotations.clone()).unwrap_or_default());
    all
}

//! The Service of a component, and the headless Service by which the pods of a base model are found.

use api_types::{annotations, labels, names, ports, v1beta1::ComponentType};
use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};

use crate::{
    DiscoveryBackend, NodeRole, RenderInput, ValidatedComponent,
    grove::only_assists,
    metadata::{Pairs, marked},
};

/// The Service through which a component is reached; `None` if there must be none.
///
/// Its selector leaves out the revision: during a rollout it covers the pods of both.
pub fn render_service(input: &RenderInput<'_>, valid: &ValidatedComponent<'_>) -> Option<Service> {
    let is_frontend = valid.spec().type_ == Some(ComponentType::Frontend);
    if valid.discovery_backend(input) != DiscoveryBackend::Kubernetes && !is_frontend {
        return None;
    }
    let component_type = valid.workload_type(input);
    let mut all_labels = valid.workload_labels();
    all_labels.extend(valid.discovery_labels(input));
    let mut selector = selector(valid, component_type);
    if valid.spec().is_multinode() {
        // The other pods of a replica serve no requests.
        selector.insert(labels::ROLE.to_owned(), NodeRole::Leader.as_str().to_owned());
    }
    let metadata = valid.object_meta(names::service(valid.name), all_labels, valid.workload_annotations());
    Some(of(metadata, selector, port(component_type)))
}

/// Whether a pod answers requests, by its labels. Of a replica that spans nodes, only the leader does; the Service has
/// all pods, because one that left some out would not have those of an earlier version, which lack the label.
pub fn answers_requests(labels: &Pairs) -> bool {
    let follows = labels.get(labels::ROLE).is_some_and(|role| role == NodeRole::Worker.as_str());
    !follows && !only_assists(labels)
}

/// The Service of a base model in a namespace, without owner: shared by all components that serve the model there.
pub fn render_model_service(namespace: &str, model: &str) -> Service {
    let hash = Pairs::from([(labels::BASE_MODEL_HASH.to_owned(), names::base_model_hash(model))]);
    let mut own_labels = hash.clone();
    own_labels.insert(labels::MODEL_MANAGED_BY.to_owned(), labels::OPERATOR.to_owned());
    let own_annotations = Pairs::from([(annotations::BASE_MODEL.to_owned(), model.to_owned())]);
    let metadata = marked(names::model_service(model), namespace, own_labels, own_annotations);
    let mut service = of(metadata, hash, tcp(ports::SYSTEM_NAME, ports::SYSTEM, IntOrString::Int(ports::SYSTEM)));
    service.spec.get_or_insert_default().cluster_ip = Some("None".to_owned());
    service
}

/// A Service of the pods with these labels.
pub(crate) fn of(metadata: ObjectMeta, selector: Pairs, port: ServicePort) -> Service {
    let spec = ServiceSpec { selector: Some(selector), ports: Some(vec![port]), ..ServiceSpec::default() };
    Service { metadata, spec: Some(spec), status: None }
}

/// The labels of the pods behind a component's Service, of whatever revision. Pods of a component without a type do
/// not carry the label that names it.
pub(crate) fn selector(valid: &ValidatedComponent<'_>, component_type: Option<ComponentType>) -> Pairs {
    let mut selector = Pairs::from([
        (labels::DYNAMO_NAMESPACE.to_owned(), valid.dynamo_namespace()),
        (labels::COMPONENT.to_owned(), valid.component_name().to_owned()),
    ]);
    selector.extend(component_type.map(|type_| (labels::COMPONENT_TYPE.to_owned(), type_.to_string())));
    selector
}

/// The port by which others reach a component of that type.
pub(crate) fn port(component_type: Option<ComponentType>) -> ServicePort {
    let to_port = |name: &str, number| tcp(name, number, IntOrString::String(name.to_owned()));
    match component_type {
        Some(ComponentType::Frontend) => to_port(ports::HTTP_NAME, ports::HTTP),
        Some(ComponentType::Epp) => ServicePort {
            app_protocol: Some("http2".to_owned()),
            ..tcp(ports::GRPC_NAME, ports::GRPC, IntOrString::Int(ports::GRPC))
        },
        _ => to_port(ports::SYSTEM_NAME, ports::SYSTEM),
    }
}

/// A port of a Service.
pub(crate) fn tcp(name: &str, port: i32, target: IntOrString) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port,
        target_port: Some(target),
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    }
}

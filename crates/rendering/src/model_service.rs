//! The headless Service by which the pods of a base model are found.

use std::collections::BTreeMap;

use api_types::{annotations, labels, names, ports};
use k8s_openapi::{
    api::core::v1::Service,
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};

use crate::{NodeRole, grove, metadata::named, service};

/// Whether a pod answers requests, by its labels. Of a replica that spans nodes, only the leader does; the Service has
/// all pods, because one that left some out would not have those of an earlier version, which lack the label.
pub fn answers_requests(labels: &BTreeMap<String, String>) -> bool {
    let follows = labels.get(labels::ROLE).is_some_and(|role| role == NodeRole::Worker.as_str());
    !follows && !grove::only_assists(labels)
}

/// The Service of a base model in a namespace, without owner: shared by all components that serve the model there.
pub fn render_model_service(namespace: &str, model: &str) -> Service {
    let hash = BTreeMap::from([(labels::BASE_MODEL_HASH.to_owned(), names::base_model_hash(model))]);
    let mut own_labels = hash.clone();
    own_labels.insert(labels::MODEL_MANAGED_BY.to_owned(), labels::OPERATOR.to_owned());
    let metadata = ObjectMeta {
        labels: Some(own_labels),
        annotations: Some(BTreeMap::from([(annotations::BASE_MODEL.to_owned(), model.to_owned())])),
        ..named(names::model_service(model), namespace)
    };
    let port = service::tcp(ports::SYSTEM_NAME, ports::SYSTEM, IntOrString::Int(ports::SYSTEM));
    let mut service = service::of(metadata, hash, port);
    service.spec.get_or_insert_default().cluster_ip = Some("None".to_owned());
    service
}

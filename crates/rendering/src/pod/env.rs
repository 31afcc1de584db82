//! Environment variables.

use std::collections::BTreeMap;

use api_types::{annotations, env as names, v1beta1::MAIN_CONTAINER};
use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector};

use super::parts::put;
use crate::{DiscoveryBackend, PodSettings, RenderInput, ValidatedComponent};

const CONTAINER_MODE: &str = "container";

/// A variable with a fixed value.
pub(crate) fn value(name: &str, value: impl Into<String>) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.into()).filter(|v| !v.is_empty()), value_from: None }
}

/// A variable with the value of a field of the pod.
pub(crate) fn from_field(name: &str, field: &str) -> EnvVar {
    let field_ref = ObjectFieldSelector { field_path: field.to_owned(), api_version: None };
    EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(EnvVarSource { field_ref: Some(field_ref), ..EnvVarSource::default() }),
    }
}

/// Appends a variable; one of the same name goes, for a list with two of them cannot be applied.
pub(crate) fn replace(container: &mut Container, variable: EnvVar) {
    let all = container.env.get_or_insert_default();
    all.retain(|other| other.name != variable.name);
    all.push(variable);
}

/// Sets a variable in place, or appends it.
pub(crate) fn set(container: &mut Container, variable: EnvVar) {
    let name = variable.name.clone();
    put(&mut container.env, variable, |other| other.name == name);
}

/// Both lists by name, sorted; on the same name, the entry of the later list replaces the other.
pub(crate) fn union(defaults: Vec<EnvVar>, wins: Vec<EnvVar>) -> Vec<EnvVar> {
    let by_name: BTreeMap<_, _> = defaults.into_iter().chain(wins).map(|var| (var.name.clone(), var)).collect();
    by_name.into_values().collect()
}

/// Adds what the operator is configured with; what the container has already stays.
pub(super) fn add_operator_settings(container: &mut Container, settings: &PodSettings) {
    let configured = [
        (names::NATS_SERVER, &settings.nats_address),
        (names::ETCD_ENDPOINTS, &settings.etcd_address),
        (names::MODEL_EXPRESS_URL, &settings.model_express_url),
        (names::PROMETHEUS_ENDPOINT, &settings.prometheus_endpoint),
    ];
    let set = configured.into_iter().filter_map(|(name, set)| Some((name, set.as_ref().filter(|s| !s.is_empty())?)));
    let defaults = set.map(|(name, set)| value(name, set)).collect();
    let own = container.env.take().unwrap_or_default();
    container.env = Some(union(defaults, own)).filter(|all| !all.is_empty());
}

/// Returns each component container's variables about itself.
pub(super) fn common(component_type: &str, input: &RenderInput<'_>, valid: &ValidatedComponent<'_>) -> Vec<EnvVar> {
    let mut all = vec![
        value(names::DYN_NAMESPACE, valid.dynamo_namespace_for_pods()),
        value(names::DYN_COMPONENT, component_type),
        value(names::DYN_PARENT_DGD_K8S_NAME, valid.graph_for_pods()),
        value(names::DYN_PARENT_DGD_K8S_NAMESPACE, valid.namespace),
        from_field(names::POD_NAME, "metadata.name"),
        from_field(names::POD_NAMESPACE, "metadata.namespace"),
        from_field(names::POD_UID, "metadata.uid"),
    ];
    let discovery = valid.discovery_backend(input);
    let is_kubernetes = discovery == DiscoveryBackend::Kubernetes;
    all.extend(is_kubernetes.then(|| value(names::DYN_DISCOVERY_BACKEND, discovery.as_str())));
    // Each container registers for itself instead of the pod as a whole.
    if valid.annotation(annotations::DISCOVERY_MODE) == Some(CONTAINER_MODE) {
        all.push(value(names::CONTAINER_NAME, MAIN_CONTAINER));
        all.push(value(names::DYN_KUBE_DISCOVERY_MODE, CONTAINER_MODE));
    }
    all
}

//! Identity of a component: its name, its graph, its namespaces, its revision, its type.

use std::collections::BTreeMap;

use api_types::{labels, names, v1beta1::ComponentType};
use k8s_openapi::api::core::v1::Service;

use crate::{RenderInput, ValidatedComponent, WorkloadObject};

const GRAPH_KIND: &str = "DynamoGraphDeployment";

impl<'a> ValidatedComponent<'a> {
    /// Name of the component within its graph.
    pub fn component_name(&self) -> &'a str {
        let spec_name = self.spec().name.as_str();
        if spec_name.is_empty() { self.own_label(labels::COMPONENT).unwrap_or(self.name) } else { spec_name }
    }

    /// Graph that owns the component, or that its label names; `None` if it is standalone.
    pub fn graph(&self) -> Option<&'a str> {
        let mut owners = self.dcd.metadata.owner_references.iter().flatten();
        let owner = owners.find(|owner| owner.kind == GRAPH_KIND).map(|owner| owner.name.as_str());
        owner.or_else(|| self.own_label(labels::GRAPH))
    }

    /// Dynamo namespace of the component, without the revision.
    pub fn dynamo_namespace(&self) -> String {
        let given = self.preserved.dynamo_namespace.as_deref().or_else(|| self.own_label(labels::DYNAMO_NAMESPACE));
        given.map_or_else(|| self.dynamo_namespace_for_pods(), str::to_owned)
    }

    /// Worker revision of the component; `None` if it has none.
    pub fn revision(&self) -> Option<&'a str> {
        if !self.spec().is_worker() {
            return None;
        }
        let in_template = || self.spec().pod_labels()?.get(labels::WORKER_HASH).map(String::as_str);
        self.own_label(labels::WORKER_HASH).or_else(in_template).filter(|revision| !revision.is_empty())
    }

    /// Dynamo namespace under which its pods register.
    pub fn runtime_namespace(&self) -> String {
        names::runtime_namespace(&self.dynamo_namespace(), self.revision())
    }

    /// Name of the graph in the environment of pods: the component's own if it is standalone.
    ///
    /// A graph that was deleted without its components leaves them its label: they must go on as they are.
    pub(crate) fn graph_for_pods(&self) -> &'a str {
        self.graph().unwrap_or(self.name)
    }

    /// Dynamo namespace in the environment of pods.
    pub(crate) fn dynamo_namespace_for_pods(&self) -> String {
        names::dynamo_namespace(self.namespace, self.graph_for_pods(), self.spec().global_dynamo_namespace)
    }

    /// Type under which the component's pods run.
    pub(crate) fn workload_type(&self, input: &RenderInput<'_>) -> Option<ComponentType> {
        let declared = self.spec().type_;
        let legacy = input.legacy_type_is_worker || has_legacy_type(self.dcd.metadata.labels.as_ref(), declared);
        match declared {
            Some(ComponentType::Prefill | ComponentType::Decode) if legacy => Some(ComponentType::Worker),
            other => other,
        }
    }

    /// A non-empty label of the component's own metadata.
    pub(crate) fn own_label(&self, key: &str) -> Option<&'a str> {
        let value = self.dcd.metadata.labels.as_ref()?.get(key)?.as_str();
        (!value.is_empty()).then_some(value)
    }
}

/// Whether live objects of a prefill or decode component still select the type `worker`, as operators before
/// these types made them. Both selectors are part of what serves right now, so the type stays.
pub fn legacy_type_is_worker(
    valid: &ValidatedComponent<'_>,
    workload: Option<&dyn WorkloadObject>,
    service: Option<&Service>,
) -> bool {
    let declared = valid.spec().type_;
    let templates = workload.map(WorkloadObject::templates).unwrap_or_default();
    let mut labels = templates.iter().map(|template| template.metadata.as_ref()?.labels.as_ref());
    let selector = service.and_then(|s| s.spec.as_ref()?.selector.as_ref());
    labels.any(|labels| has_legacy_type(labels, declared)) || has_legacy_type(selector, declared)
}

/// Whether a selector or pods of a prefill or decode component have the type `worker`, as operators before these types
/// made them.
pub fn has_legacy_type(live: Option<&BTreeMap<String, String>>, declared: Option<ComponentType>) -> bool {
    let Some(declared) = declared.filter(|t| matches!(t, ComponentType::Prefill | ComponentType::Decode)) else {
        return false;
    };
    let value = |key| live.and_then(|all| all.get(key)).map(String::as_str).unwrap_or_default();
    let sub_type = value(labels::SUB_COMPONENT_TYPE);
    value(labels::COMPONENT_TYPE) == ComponentType::Worker.as_str()
        && (sub_type.is_empty() || sub_type == declared.as_str())
}

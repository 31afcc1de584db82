//! Renders a component of a graph as a `DynamoComponentDeployment`: its pod template with the graph's settings merged
//! in. Pure.

mod canonical;

use std::collections::BTreeMap;

use api_types::{
    annotations,
    conversion::preserved::PreservedComponent,
    labels, names,
    names::RevisionSuffix,
    v1beta1::{
        BackendFramework, ComponentExperimental, ComponentSpec, ComponentType, DynamoComponentDeployment,
        DynamoComponentDeploymentSpec, DynamoGraphDeployment, EndpointPickerConfig, KvTransferPolicy, MAIN_CONTAINER,
    },
};
use k8s_openapi::{
    api::core::v1::{EnvVar, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::ResourceExt;
use rendering::{ValidatedComponent, WorkloadProvider};

use self::canonical::canonical;
use crate::graph::model::ValidGraph;

type StringMap = BTreeMap<String, String>;

/// Values that the plan adds to the spec of a component.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlannedFields<'a> {
    /// Its worker revision; none for other components and for workers older than revisions.
    pub revision: Option<&'a RevisionSuffix>,
    /// Fingerprint of that revision, an annotation of the object.
    pub fingerprint: Option<&'a str>,
    /// Revisions before it, an annotation of the object.
    pub previous_revisions: Option<&'a str>,
    /// Desired replicas; during a rollout they differ from the spec of the graph.
    pub replicas: i32,
    /// Version of the operator that admitted the graph.
    pub origin_version: &'a str,
    /// The DynamoCheckpoint from which its pods start; none keeps what the spec names.
    pub checkpoint: Option<&'a str>,
}

/// Builds the component's deployment object, without owner.
pub fn component_deployment(
    graph: &ValidGraph<'_>,
    component: &ComponentSpec,
    placement: PlannedFields<'_>,
) -> DynamoComponentDeployment {
    let revision = placement.revision.filter(|_| component.is_worker());
    let fixed_labels = fixed_labels(graph, component, revision);
    let mut object_labels = component.pod_labels().cloned().unwrap_or_default();
    object_labels.extend(fixed_labels.clone());

    let mut spec = match graph.provider {
        WorkloadProvider::Component => without_grove(component),
        WorkloadProvider::Grove => component.clone(),
    };
    spec.replicas = Some(placement.replicas);
    let template = spec.pod_template.get_or_insert_default();
    *template = canonical(template);
    let own = &mut template.metadata.get_or_insert_default().annotations;
    fill(own, annotations::ORIGIN_VERSION, placement.origin_version);
    complete_template(template, graph, component);
    let checkpoint = spec.experimental.as_mut().and_then(|experimental| experimental.checkpoint.as_mut());
    if let (Some(checkpoint), Some(name)) = (checkpoint, placement.checkpoint) {
        (checkpoint.identity, checkpoint.job) = (None, None);
        checkpoint.checkpoint_ref = Some(name.to_owned());
    }
    if let Some(config) = spec.epp_config.as_mut().and_then(|epp| epp.config.as_mut()) {
        complete_picker_config(config);
    }
    for key in [labels::WORKER_HASH, labels::COMPONENT_CLASS] {
        if let Some(value) = fixed_labels.get(key) {
            let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
            labels.insert(key.to_owned(), value.clone());
        }
    }

    // Annotations of the revision, fields of v1alpha1, and the topology labels of the pods.
    let own = [
        (annotations::REVISION_FINGERPRINT, placement.fingerprint),
        (annotations::PREVIOUS_REVISIONS, placement.previous_revisions),
    ];
    let own = own.into_iter().filter(|_| component.is_worker());
    let mut own: StringMap = own.filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned()))).collect();
    own.extend(PreservedComponent::of_graph(graph.annotations, &component.name).to_annotation());
    own.extend(kv_transfer_policy(graph, component).map(rendering::kv_transfer_annotations).into_iter().flatten());
    DynamoComponentDeployment {
        metadata: ObjectMeta {
            name: Some(names::component_deployment(&graph.name, &component.name, revision)),
            namespace: Some(graph.namespace.clone()),
            labels: Some(object_labels),
            annotations: Some(own).filter(|own| !own.is_empty()),
            ..ObjectMeta::default()
        },
        spec: DynamoComponentDeploymentSpec { backend_framework: graph.framework, component: spec },
        status: None,
    }
}

/// The component without fields of Grove, which its object must not have. The graph's status names them.
fn without_grove(component: &ComponentSpec) -> ComponentSpec {
    let mut spec = component.clone();
    (spec.min_available, spec.provider_override) = (None, None);
    if let Some(nodes) = &mut spec.multinode {
        (nodes.leader, nodes.worker) = (None, None);
    }
    if let Some(experimental) = &mut spec.experimental
        && experimental.grove.take_if(|grove| grove.force_scaling_group == Some(true)).is_some()
        && *experimental == ComponentExperimental::default()
    {
        spec.experimental = None;
    }
    spec
}

/// Whether an annotation of the object is one that [`component_deployment`] may set.
pub fn sets_annotation(key: &str) -> bool {
    [
        annotations::REVISION_FINGERPRINT,
        annotations::PREVIOUS_REVISIONS,
        annotations::TOPOLOGY_LABEL_KEY,
        annotations::TOPOLOGY_NAME,
        PreservedComponent::ANNOTATION,
    ]
    .contains(&key)
}

/// The KV-transfer policy, if the component is a worker.
fn kv_transfer_policy<'a>(graph: &'a ValidGraph<'_>, component: &ComponentSpec) -> Option<&'a KvTransferPolicy> {
    graph.spec.kv_transfer_policy().filter(|_| component.is_worker())
}

/// Labels that identify the object; they override labels of the spec.
fn fixed_labels(graph: &ValidGraph<'_>, component: &ComponentSpec, revision: Option<&RevisionSuffix>) -> StringMap {
    let dynamo_namespace = names::dynamo_namespace(&graph.namespace, &graph.name, component.global_dynamo_namespace);
    let mut fixed = BTreeMap::from([
        (labels::COMPONENT.to_owned(), component.name.clone()),
        (labels::DYNAMO_NAMESPACE.to_owned(), dynamo_namespace),
        (labels::GRAPH.to_owned(), graph.name.clone()),
    ]);
    if let Some(suffix) = revision {
        fixed.insert(labels::WORKER_HASH.to_owned(), suffix.to_string());
    }
    if component.is_worker() && graph.endpoint_picker().is_some() {
        fixed.insert(labels::COMPONENT_CLASS.to_owned(), ComponentType::Worker.to_string());
    }
    fixed
}

/// Merges the settings of the graph into a component's pod template. The component's own values take precedence.
fn complete_template(template: &mut PodTemplateSpec, graph: &ValidGraph<'_>, component: &ComponentSpec) {
    if let Some(env) = graph.spec.env.as_deref().filter(|env| !env.is_empty()) {
        merge_env(template, env);
    }
    if let Some(policy) = kv_transfer_policy(graph, component) {
        rendering::apply_kv_transfer_policy(template, policy, graph.topology_domains);
    }
    if component.type_ == Some(ComponentType::Planner)
        && let Some(pod) = &mut template.spec
    {
        // Its rights are bound to this account, whatever the spec names.
        pod.service_account_name = Some(names::PLANNER_SERVICE_ACCOUNT.to_owned());
    }
    let metadata = template.metadata.get_or_insert_default();
    if component.type_ == Some(ComponentType::Epp) {
        // A service mesh's proxy in front of the endpoint picker breaks the gateway's gRPC to it.
        fill(&mut metadata.annotations, annotations::ISTIO_INJECT, "false");
    }
    for key in annotations::COPIED_FROM_GRAPH.iter().filter(|key| **key != annotations::ORIGIN_VERSION) {
        if let Some(value) = graph.annotations.get(*key) {
            fill(&mut metadata.annotations, key, value);
        }
    }
    for (key, value) in graph.spec.annotations.iter().flatten() {
        fill(&mut metadata.annotations, key, value);
    }
    for (key, value) in graph.spec.labels.iter().flatten() {
        fill(&mut metadata.labels, key, value);
    }
}

/// Environment of the whole graph under the main container's own, sorted by name.
fn merge_env(template: &mut PodTemplateSpec, env: &[EnvVar]) {
    let containers = template.spec.iter_mut().flat_map(|s| &mut s.containers);
    for main in containers.filter(|c| c.name == MAIN_CONTAINER) {
        let mut merged: BTreeMap<String, EnvVar> = env.iter().map(|e| (e.name.clone(), e.clone())).collect();
        merged.extend(main.env.iter().flatten().map(|e| (e.name.clone(), e.clone())));
        main.env = Some(merged.into_values().collect());
    }
}

fn fill(map: &mut Option<StringMap>, key: &str, value: &str) {
    map.get_or_insert_default().entry(key.to_owned()).or_insert_with(|| value.to_owned());
}

/// Version of the operator that admitted the graph: from its annotation, else from a live component, because the
/// annotation may have been replaced, else this version.
pub fn origin_version(graph: &DynamoGraphDeployment, live: &[DynamoComponentDeployment]) -> String {
    let own = graph.annotations().get(annotations::ORIGIN_VERSION).map(String::as_str);
    let remembered = || live.iter().find_map(|d| d.spec.component.pod_annotation(annotations::ORIGIN_VERSION));
    own.or_else(remembered).unwrap_or(api_types::REFERENCE_VERSION).to_owned()
}

/// The engine of a captured component: its own, else the graph's, else that of an older manifest.
pub fn checkpoint_engine(
    captured: &ValidatedComponent<'_>,
    graph: Option<BackendFramework>,
) -> Option<BackendFramework> {
    let identity = captured.checkpoint.and_then(|usage| usage.identity);
    captured.framework.or(graph).or(identity.map(|identity| identity.backend_framework))
}

/// Sets the fields of an endpoint picker's configuration that the user may leave out.
pub fn complete_picker_config(config: &mut EndpointPickerConfig) {
    config.api_version = Some("inference.networking.x-k8s.io/v1alpha1".to_owned());
    config.kind = Some("EndpointPickerConfig".to_owned());
    for plugin in &mut config.plugins {
        plugin.name.get_or_insert_default();
    }
}

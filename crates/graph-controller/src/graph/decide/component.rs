//! One component of a graph as a `DynamoComponentDeployment`: the author's pod template with the graph's defaults merged in.

use std::collections::BTreeMap;

use api_types::{
    annotations,
    conversion::preserved::PreservedComponent,
    labels, names,
    names::GenerationSuffix,
    v1beta1::{
        ComponentExperimental, ComponentSpec, ComponentType, DynamoComponentDeployment, DynamoComponentDeploymentSpec,
        DynamoGraphDeployment, KvTransferPolicy, MAIN_CONTAINER,
    },
};
use k8s_openapi::{
    api::core::v1::{EnvVar, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::ResourceExt;

use super::{canonical::canonical, endpoint_picker};
use crate::graph::{program::Program, validate::ValidGraph};

type StringMap = BTreeMap<String, String>;

/// What is decided about a component beyond its spec.
#[derive(Clone, Copy, Debug, Default)]
pub struct Placement<'a> {
    /// Worker generation it belongs to; none for components that are not workers and for workers older than generations.
    pub generation: Option<&'a GenerationSuffix>,
    /// Fingerprint of that generation, kept with the object.
    pub fingerprint: Option<&'a str>,
    /// Replicas to ask for now; differs from the author's while generations change.
    pub replicas: i32,
    /// Version of the operator that admitted the graph.
    pub origin_version: &'a str,
    /// The DynamoCheckpoint from which its pods start; none leaves what the author wrote.
    pub checkpoint: Option<&'a str>,
}

/// Builds the component's deployment object, without owner.
pub fn component_deployment(
    graph: &ValidGraph<'_>,
    component: &ComponentSpec,
    placement: Placement<'_>,
) -> DynamoComponentDeployment {
    let generation = placement.generation.filter(|_| component.is_worker());
    let fixed_labels = fixed_labels(graph, component, generation);
    let mut object_labels = template_labels(component);
    object_labels.extend(fixed_labels.iter().map(|(k, v)| ((*k).to_owned(), v.clone())));

    let mut spec = match graph.program {
        Program::Component => without_grove(component),
        Program::Grove => component.clone(),
    };
    spec.replicas = Some(placement.replicas);
    let template = spec.pod_template.get_or_insert_default();
    *template = canonical(template);
    complete_template(template, graph, component, placement.origin_version);
    let checkpoint = spec.experimental.as_mut().and_then(|experimental| experimental.checkpoint.as_mut());
    if let (Some(checkpoint), Some(name)) = (checkpoint, placement.checkpoint) {
        (checkpoint.identity, checkpoint.job) = (None, None);
        checkpoint.checkpoint_ref = Some(name.to_owned());
    }
    if let Some(config) = spec.epp_config.as_mut().and_then(|epp| epp.config.as_mut()) {
        endpoint_picker::complete(config);
    }
    for key in [labels::WORKER_HASH, labels::COMPONENT_CLASS] {
        if let Some(value) = fixed_labels.get(key) {
            insert(&mut template.metadata.get_or_insert_default().labels, key, value);
        }
    }

    let fingerprint = placement.fingerprint.filter(|_| component.is_worker());
    DynamoComponentDeployment {
        metadata: ObjectMeta {
            name: Some(names::component_deployment(&graph.name, &component.name, generation)),
            namespace: Some(graph.namespace.clone()),
            labels: Some(object_labels),
            annotations: Some(object_annotations(graph, component, fingerprint)).filter(|all| !all.is_empty()),
            ..ObjectMeta::default()
        },
        spec: DynamoComponentDeploymentSpec { backend_framework: graph.framework, component: spec },
        status: None,
    }
}

/// A component without what only Grove serves: its own object may not have it, and the graph's status names it.
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

/// Annotations of the object itself: its generation, what only v1alpha1 can say, and how its pods learn where they are.
fn object_annotations(graph: &ValidGraph<'_>, component: &ComponentSpec, fingerprint: Option<&str>) -> StringMap {
    let mut all = StringMap::new();
    all.extend(fingerprint.map(|f| (annotations::GENERATION_FINGERPRINT.to_owned(), f.to_owned())));
    all.extend(PreservedComponent::of_graph(graph.annotations, &component.name).to_annotation());
    all.extend(kv_transfer_policy(graph, component).map(workload::kv_transfer_annotations).into_iter().flatten());
    all
}

/// Whether an annotation of the object is one that [`component_deployment`] may set.
pub fn sets_annotation(key: &str) -> bool {
    [
        annotations::GENERATION_FINGERPRINT,
        annotations::TOPOLOGY_LABEL_KEY,
        annotations::TOPOLOGY_NAME,
        PreservedComponent::ANNOTATION,
    ]
    .contains(&key)
}

/// The policy for exchanging key-value caches, as far as it concerns the component.
fn kv_transfer_policy<'a>(graph: &'a ValidGraph<'_>, component: &ComponentSpec) -> Option<&'a KvTransferPolicy> {
    let experimental = graph.spec.experimental.as_ref().filter(|_| component.is_worker())?;
    experimental.kv_transfer_policy.as_ref()
}

/// Labels that say what the object is; they win over everything an author writes.
fn fixed_labels(
    graph: &ValidGraph<'_>,
    component: &ComponentSpec,
    generation: Option<&GenerationSuffix>,
) -> BTreeMap<&'static str, String> {
    let dynamo_namespace = names::dynamo_namespace(&graph.namespace, &graph.name, component.global_dynamo_namespace);
    let mut fixed = BTreeMap::from([
        (labels::COMPONENT, component.name.clone()),
        (labels::DYNAMO_NAMESPACE, dynamo_namespace),
        (labels::GRAPH, graph.name.clone()),
    ]);
    if let Some(suffix) = generation {
        fixed.insert(labels::WORKER_HASH, suffix.to_string());
    }
    if component.is_worker() && graph.endpoint_picker().is_some() {
        fixed.insert(labels::COMPONENT_CLASS, ComponentType::Worker.to_string());
    }
    fixed
}

fn template_labels(component: &ComponentSpec) -> StringMap {
    let metadata = component.pod_template.as_ref().and_then(|t| t.metadata.as_ref());
    metadata.and_then(|m| m.labels.clone()).unwrap_or_default()
}

/// Merges what holds for the whole graph into a component's pod template. The component's own values win.
fn complete_template(
    template: &mut PodTemplateSpec,
    graph: &ValidGraph<'_>,
    component: &ComponentSpec,
    origin_version: &str,
) {
    if let Some(env) = graph.spec.env.as_deref().filter(|env| !env.is_empty()) {
        merge_env(template, env);
    }
    if let Some(policy) = kv_transfer_policy(graph, component) {
        workload::apply_kv_transfer_policy(template, policy, graph.topology_domains);
    }
    if component.type_ == Some(ComponentType::Planner)
        && let Some(pod) = &mut template.spec
    {
        // Its rights are bound to this account, whatever the author names.
        pod.service_account_name = Some(names::PLANNER_SERVICE_ACCOUNT.to_owned());
    }
    let metadata = template.metadata.get_or_insert_default();
    if component.type_ == Some(ComponentType::Epp) {
        // A service mesh's proxy in front of the endpoint picker breaks the gateway's gRPC to it.
        fill(&mut metadata.annotations, annotations::ISTIO_INJECT, "false");
    }
    fill(&mut metadata.annotations, annotations::ORIGIN_VERSION, origin_version);
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

fn insert(map: &mut Option<StringMap>, key: &str, value: &str) {
    map.get_or_insert_default().insert(key.to_owned(), value.to_owned());
}

/// Version of the operator that admitted the graph: from the graph, else from a child that remembers it (the graph's
/// annotations may have been replaced), else this one.
pub fn origin_version(graph: &DynamoGraphDeployment, live: &[DynamoComponentDeployment]) -> String {
    let remembered = |d: &DynamoComponentDeployment| {
        let metadata = d.spec.component.pod_template.as_ref()?.metadata.as_ref()?;
        metadata.annotations.as_ref()?.get(annotations::ORIGIN_VERSION).cloned()
    };
    graph
        .annotations()
        .get(annotations::ORIGIN_VERSION)
        .cloned()
        .or_else(|| live.iter().find_map(remembered))
        .unwrap_or_else(|| api_types::REFERENCE_VERSION.to_owned())
}

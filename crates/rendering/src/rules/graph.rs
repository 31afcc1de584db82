//! Rules about a graph as it is, and about its changes.

use std::collections::BTreeSet;

use api_types::{
    annotations,
    conversion::preserved::legacy::PreservedGraph,
    names::{RevisionSuffix, component_deployment},
    rollout_control::rollout_control,
    v1beta1::{BackendFramework, ComponentSpec, DynamoGraphDeployment, EngineMode},
    violations::{self, Reason, Violation},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::{
    Features, Findings, GRAPH, GraphRuleContext, ProviderChoice, Version, annotation,
    component::{self, ComponentRuleContext},
    component_path,
    fragment::{self, FragmentPlace},
    lacks_grove, not_supported, power_limit,
    provider::{DISCOVERY_CONTAINER, discovery_backend, grove_update_strategy, one_of, vllm_executor},
    provider_of_new,
};
use crate::{RolloutStrategy, WorkloadProvider, grove, lws};

fn annotation_path(key: &str) -> String {
    format!("metadata.annotations[{key}]")
}

/// Checks a graph as it is, in the order of its fields.
pub fn check(graph: &DynamoGraphDeployment, context: &GraphRuleContext<'_>, out: &mut Findings) {
    let (provider, lacks_grove) =
        (ProviderChoice::of(&graph.metadata), lacks_grove(&graph.metadata, context.features.grove));
    let lacks_grove = lacks_grove.as_deref();
    metadata(graph, context.is_new, out);
    rollout(graph, lacks_grove.is_none(), out);
    let spec = &graph.spec;
    if let Some(root) = &spec.provider_override {
        fragment::check("spec.providerOverride", root, FragmentPlace::Root, provider, out);
    }
    let has_priority = spec.priority_class_name.as_deref().is_some_and(|name| !name.is_empty());
    if let Some(reason) = lacks_grove.filter(|_| has_priority) {
        out.forbidden("spec.priorityClassName", reason);
    }
    let is_built = is_built(&graph.metadata);
    out.extend(no_components(graph).filter(|_| !is_built));
    if lacks_grove.is_none() {
        out.extend(grove::check_names(graph));
    }
    let around = ComponentRuleContext {
        features: context.features,
        provider: Some(provider),
        lacks_grove,
        framework: spec.backend_framework,
        is_built,
    };
    for (index, component) in spec.components.iter().enumerate() {
        let at = component_path(index, component);
        memory_between_pods(&at, component, &around, out);
        power_limit::check(&at, component, out);
        component::check(&at, component, &around, out);
    }
    restart(graph, out);
    fragment::check_topology(graph, lacks_grove, context, out);
}

/// The label that a graph's name becomes must fit.
pub fn name(graph: &DynamoGraphDeployment) -> Option<Violation> {
    let global = graph.spec.components.iter().all(|component| component.global_dynamo_namespace);
    let [namespace, name] =
        [&graph.metadata.namespace, &graph.metadata.name].map(|text| text.as_deref().unwrap_or_default());
    let (problem, remedy) = violations::graph_name(namespace, name, global)?;
    Some(Violation::invalid("metadata.name", name, problem, remedy))
}

/// A graph has components, unless a manifest in an archive names them.
pub fn no_components(graph: &DynamoGraphDeployment) -> Option<Violation> {
    let violation = || Violation::required("spec.components", "add at least one component", "");
    graph.spec.components.is_empty().then(violation)
}

/// Whether the image of a graph's components is built from an archive, unless they name one.
fn is_built(metadata: &ObjectMeta) -> bool {
    let preserved = metadata.annotations.as_ref().and_then(PreservedGraph::of);
    preserved.is_some_and(|preserved| preserved.source.is_some())
}

fn metadata(graph: &DynamoGraphDeployment, is_new: bool, out: &mut Findings) {
    let given = |key| annotation(&graph.metadata, key);
    out.extend(name(graph).filter(|_| is_new));
    if let Some(origin) = given(annotations::ORIGIN_VERSION).filter(|origin| Version::lenient(origin).is_none()) {
        let text = "is no version of the operator; write one such as 1.5.0, or leave the annotation out";
        out.invalid(annotation_path(annotations::ORIGIN_VERSION), origin, text);
    }
    type Rule = fn(String, &str) -> Option<Violation>;
    let rules: [(&str, Rule); 5] = [
        (annotations::VLLM_EXECUTOR_BACKEND, vllm_executor),
        (annotations::GROVE_UPDATE_STRATEGY, grove_update_strategy),
        (annotations::DISCOVERY_BACKEND, discovery_backend),
        (annotations::DISCOVERY_MODE, |path, mode| one_of(path, mode, ["pod", DISCOVERY_CONTAINER])),
        (annotations::WORKLOAD_PROVIDER, |path, provider| {
            one_of(path, provider, [annotations::PROVIDER_COMPONENT, annotations::PROVIDER_GROVE])
        }),
    ];
    out.extend(rules.into_iter().filter_map(|(key, rule)| rule(annotation_path(key), given(key)?)));
    let is_within_pod =
        |component: &ComponentSpec| component.failover().is_some_and(|failover| failover.mode == EngineMode::IntraPod);
    let mode = given(annotations::DISCOVERY_MODE);
    if graph.spec.components.iter().any(is_within_pod) && mode != Some(DISCOVERY_CONTAINER) {
        let text = "engines that stand in for each other within a pod register one by one; set the annotation to \"container\"";
        out.invalid(annotation_path(annotations::DISCOVERY_MODE), json!(mode), text);
    }
}

/// The annotations by which users control the rollout of workers.
fn rollout(graph: &DynamoGraphDeployment, on_grove: bool, out: &mut Findings) {
    let is_recreated = |component: &&ComponentSpec| {
        let strategy = RolloutStrategy::from_annotations(component.pod_annotations());
        component.is_worker() && strategy.is_ok_and(|strategy| strategy == RolloutStrategy::Recreate)
    };
    let recreated = graph.spec.components.iter().filter(is_recreated).map(|component| component.name.as_str());
    let none = Default::default();
    let annotations = graph.metadata.annotations.as_ref().unwrap_or(&none);
    let violations = rollout_control(annotations, on_grove, &recreated.collect::<Vec<_>>()).err();
    out.extend(violations.into_iter().flatten().map(|violation| violation.at(|key| annotation_path(key))));
}

/// GPU memory shared between pods.
fn memory_between_pods(at: &str, component: &ComponentSpec, around: &ComponentRuleContext<'_>, out: &mut Findings) {
    if !grove::roles::shares_memory_between_pods(component) {
        return;
    }
    let mode = format!("{at}.experimental.gpuMemoryService.mode");
    if let Some(reason) = around.lacks_grove {
        out.forbidden(mode.as_str(), reason);
    }
    if around.framework != Some(BackendFramework::Vllm) {
        let found = around.framework.map_or("not set", BackendFramework::as_str);
        let text = format!(
            "memory is shared between pods for vLLM only, and spec.backendFramework is {found}; set it to vllm, or use mode \
             IntraPod"
        );
        out.invalid(mode, "InterPod", text);
    }
}

/// The order of a restart.
fn restart(graph: &DynamoGraphDeployment, out: &mut Findings) {
    let strategy = graph.spec.restart.as_ref().and_then(|restart| restart.strategy.as_ref());
    let Some(order) = strategy.and_then(|strategy| strategy.order.as_ref()).filter(|order| !order.is_empty()) else {
        return;
    };
    let path = "spec.restart.strategy.order";
    let names: BTreeSet<&str> = graph.spec.components.iter().map(|component| component.name.as_str()).collect();
    let unique: BTreeSet<&str> = order.iter().map(String::as_str).collect();
    if unique.len() != order.len() {
        out.invalid(path, json!(order), "names a component twice; name each once");
    }
    if unique.len() != names.len() {
        let text =
            format!("names {} of {} components; name all of them, or leave the order out", unique.len(), names.len());
        out.invalid(path, json!(order), text);
    }
    let known: Vec<&str> = names.iter().copied().collect();
    let unknown = order.iter().enumerate().filter(|(_, name)| !names.contains(name.as_str()));
    out.extend(unknown.map(|(index, name)| not_supported(format!("{path}[{index}]"), name, &known, "")));
}

/// Warns about what will not work although it is admitted.
pub fn warn(graph: &DynamoGraphDeployment, features: &Features, out: &mut Findings) {
    let on_grove = match ProviderChoice::of(&graph.metadata) {
        ProviderChoice::Unselected => provider_of_new(&graph.metadata, features.grove) == WorkloadProvider::Grove,
        provider => provider.is_grove(),
    };
    for (index, component) in graph.spec.components.iter().enumerate() {
        let at = component_path(index, component);
        if component.is_multinode() && !on_grove && !features.lws {
            let text = "leaderworkerset.x-k8s.io (LeaderWorkerSet) is not served, and the graph does not run on Grove; install \
                        LeaderWorkerSet, or create the graph anew where Grove is available: the component does not start before";
            out.warn(format!("{at}.multinode"), text);
        }
        if component.is_multinode() && !on_grove && features.lws {
            long_names(graph, &at, component, out);
        }
        component::warn(&at, component, out);
    }
}

/// A component whose LeaderWorkerSet needs names that are too long is stalled while the others start.
fn long_names(graph: &DynamoGraphDeployment, at: &str, component: &ComponentSpec, out: &mut Findings) {
    // The suffixes of worker revisions are equally long.
    let revision = component.is_worker().then(|| RevisionSuffix::of("", 0));
    let graph = graph.metadata.name.as_deref().unwrap_or_default();
    let name = component_deployment(graph, &component.name, revision.as_ref());
    let Some((longest, excess)) = lws::excess_of_names(&name, component.desired_replicas().into()) else { return };
    let text = format!(
        "with LeaderWorkerSet the component needs StatefulSets such as {longest}, whose names are too long for their pods to \
         be created; shorten the name of the component or of the graph by {excess} at least: the component does not start before"
    );
    out.warn(format!("{at}.name"), text);
}

/// Changes that the user may make.
#[derive(Clone, Copy, Debug)]
pub struct Permissions {
    /// Replicas that a scaling adapter owns.
    pub may_scale: bool,
    /// The workload provider of a graph without one.
    pub may_choose_provider: bool,
}

/// Checks the change from one graph to another.
pub fn check_update(
    new: &DynamoGraphDeployment,
    old: &DynamoGraphDeployment,
    permissions: Permissions,
    out: &mut Findings,
) {
    provider(new, old, permissions, out);
    components(new, old, out);
    for (index, component) in new.spec.components.iter().enumerate() {
        if let Some(earlier) = old.spec.components.iter().find(|earlier| earlier.name == component.name) {
            let at = component_path(index, component);
            if !permissions.may_scale {
                component::check_replicas(&at, component, earlier, out);
            }
            component::check_update(&at, component, earlier, GRAPH, out);
            power_limit::check_update(&at, component, earlier, out);
        }
    }
}

/// The workload provider is chosen once, and not by users.
fn provider(new: &DynamoGraphDeployment, old: &DynamoGraphDeployment, permissions: Permissions, out: &mut Findings) {
    let [now, before] = [new, old].map(|graph| annotation(&graph.metadata, annotations::WORKLOAD_PROVIDER));
    let path = annotation_path(annotations::WORKLOAD_PROVIDER);
    match before {
        Some(before) if now != Some(before) => {
            let remedy = format!("put back {before:?}, or delete the graph and create it anew");
            out.immutable(path, now.map_or(Value::Null, Value::from), remedy);
        }
        None if now.is_some() && !permissions.may_choose_provider => {
            out.forbidden(path, "the operator chooses what runs a graph; remove the annotation");
        }
        _ => {}
    }
}

/// The components of a graph stay.
fn components(new: &DynamoGraphDeployment, old: &DynamoGraphDeployment, out: &mut Findings) {
    let names = |graph: &DynamoGraphDeployment| -> BTreeSet<String> {
        graph.spec.components.iter().map(|component| component.name.clone()).collect()
    };
    let (now, before) = (names(new), names(old));
    let list = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join(", ");
    let changes = [("adds", list(&now - &before)), ("removes", list(&before - &now))].into_iter();
    let changes = changes.filter(|(_, names)| !names.is_empty()).map(|(verb, names)| format!("{verb} {names}"));
    let changes: Vec<String> = changes.collect();
    if !changes.is_empty() {
        let text = format!(
            "the components of a graph stay, and this {}; set replicas to 0 to stop one, or delete the graph and create it anew",
            changes.join(" and ")
        );
        out.extend([Violation::of_text("spec.components", Reason::Forbidden, Value::Null, &text)]);
    }
}

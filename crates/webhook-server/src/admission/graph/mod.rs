//! DynamoGraphDeployments.

mod alpha;
mod archive;
mod dynamo_namespace;
mod metadata;
mod names;
mod restart;
mod rollout;
mod topology;
mod update;

pub(super) use alpha::{component as alpha_component, graph as alpha_graph};
use api_types::{
    names::{RevisionSuffix, component_deployment},
    v1beta1::{BackendFramework, EngineMode},
};
pub(super) use update::check_update;

use super::{
    Facts, Lookup, Operation,
    field::Findings,
    provider_override,
    shared::{self, Owner, Surroundings},
    view::{Component, Graph, Pathway, Provider},
};

/// The objects that the rules for a graph read. Topologies are checked when a graph is created.
pub(super) fn lookups(graph: &Graph<'_>, operation: Operation, facts: &Facts) -> Vec<Lookup> {
    let mut lookups = dynamo_namespace::lookups(graph, facts);
    if facts.features.grove && operation == Operation::Create {
        lookups.extend(topology::lookups(graph));
    }
    lookups
}

/// Checks a graph as it is, in the order of its fields.
pub(super) fn check(graph: &Graph<'_>, operation: Operation, facts: &Facts, out: &mut Findings) {
    let (pathway, provider) = (Pathway::of(graph, facts), graph.provider());
    metadata::check(graph, operation, out);
    rollout::check(graph, pathway.is_grove(), out);
    dynamo_namespace::check(graph, operation, facts, out);
    let spec = graph.spec();
    let root = spec.field("providerOverride");
    if root.is_set() {
        provider_override::check(&root, provider_override::Scope::Root, provider, out);
    }
    let priority = spec.field("priorityClassName");
    if let Some(reason) = pathway.reason().filter(|_| !priority.text().is_empty()) {
        out.forbidden(&priority, reason);
    }
    let components = graph.components();
    // The manifest in an archive may name them.
    if components.is_empty() && !graph.is_built() {
        out.required(&spec.field("components"), "add at least one component");
    }
    if pathway.is_grove() {
        names::check(graph.name(), &components, out);
    }
    let framework = spec.field("backendFramework").text();
    let owner = Owner::Graph { pathway: pathway.clone(), provider };
    let around = Surroundings { facts, owner, framework, is_built: graph.is_built() };
    for component in &components {
        memory_between_pods(component, &pathway, framework, out);
        shared::power_limit(component, out);
        shared::check(component, &around, out);
    }
    restart::check(&spec.field("restart"), &components, out);
    topology::check(graph, &pathway, operation, facts, out);
}

/// Tells what will not work as the author may expect, although it is admitted.
pub(super) fn warn(graph: &Graph<'_>, operation: Operation, facts: &Facts, out: &mut Findings) {
    if operation == Operation::Update {
        dynamo_namespace::warn(graph, facts, out);
    }
    let on_grove = match graph.provider() {
        Provider::Unselected => Provider::of_new(graph, facts) == Provider::Grove,
        provider => provider == Provider::Grove,
    };
    for component in graph.components() {
        let multinode = component.field("multinode");
        if component.is_multinode() && !on_grove && !facts.features.lws {
            out.warn(format!(
                "{}: leaderworkerset.x-k8s.io (LeaderWorkerSet) is not served, and the graph does not run on Grove; install \
                 LeaderWorkerSet, or create the graph anew where Grove is available: the component does not start before",
                multinode.path()
            ));
        }
        if component.is_multinode() && !on_grove && facts.features.lws {
            long_names(graph, &component, out);
        }
        shared::warn(&component, out);
    }
}

/// A component whose LeaderWorkerSet needs names that are too long is stalled while the others start.
fn long_names(graph: &Graph<'_>, component: &Component<'_>, out: &mut Findings) {
    // The suffixes of worker revisions are equally long.
    let revision = component.is_worker().then(|| RevisionSuffix::of("", 0));
    let name = component_deployment(graph.name(), component.name(), revision.as_ref());
    let Some((longest, excess)) = rendering::excess_of_names(&name, component.replicas()) else { return };
    out.warn(format!(
        "{}: with LeaderWorkerSet the component needs StatefulSets such as {longest}, whose names are too long for their pods to \
         be created; shorten the name of the component or of the graph by {excess} at least: the component does not start before",
        component.field("name").path()
    ));
}

/// GPU memory shared between pods.
fn memory_between_pods(component: &Component<'_>, pathway: &Pathway, framework: &str, out: &mut Findings) {
    if component.memory_service() != Some(EngineMode::InterPod) {
        return;
    }
    let mode = component.experimental("gpuMemoryService").field("mode");
    if let Some(reason) = pathway.reason() {
        out.forbidden(&mode, reason);
    }
    if framework != BackendFramework::Vllm.as_str() {
        let found = if framework.is_empty() { "not set" } else { framework };
        let detail = format!(
            "memory is shared between pods for vLLM only, and spec.backendFramework is {found}; set it to vllm, or use mode \
             IntraPod"
        );
        out.invalid(&mode, detail);
    }
}

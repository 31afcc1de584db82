//! Name and annotations of a graph.

use api_types::{annotations, v1beta1::EngineMode, violations};

use super::super::{
    Operation,
    field::{Findings, Node},
    shared::discovery_backend,
    version::Version,
    view::Graph,
};

const EXECUTORS: [&str; 2] = ["mp", "ray"];
const GROVE_UPDATES: [&str; 2] = ["RollingRecreate", "OnDelete"];
const DISCOVERY_CONTAINER: &str = "container";
const DISCOVERY_MODES: [&str; 2] = ["pod", DISCOVERY_CONTAINER];
const PROVIDERS: [&str; 2] = [annotations::PROVIDER_COMPONENT, annotations::PROVIDER_GROVE];

pub(super) fn check(graph: &Graph<'_>, operation: Operation, out: &mut Findings) {
    if operation == Operation::Create {
        name(graph, out);
    }
    let origin = graph.annotation(annotations::ORIGIN_VERSION);
    if origin.is_set() && Version::lenient(origin.text()).is_none() {
        out.invalid(&origin, "is no version of the operator; write one such as 1.5.0, or leave the annotation out");
    }
    executor(&graph.annotation(annotations::VLLM_EXECUTOR_BACKEND), out);
    one_of(&graph.annotation(annotations::GROVE_UPDATE_STRATEGY), &GROVE_UPDATES, out);
    discovery_backend(&graph.annotation(annotations::DISCOVERY_BACKEND), out);
    let mode = graph.annotation(annotations::DISCOVERY_MODE);
    one_of(&mode, &DISCOVERY_MODES, out);
    one_of(&graph.annotation(annotations::WORKLOAD_PROVIDER), &PROVIDERS, out);
    let within_pods = graph.components().iter().any(|component| component.failover() == Some(EngineMode::IntraPod));
    if within_pods && mode.text() != DISCOVERY_CONTAINER {
        let detail = "engines that stand in for each other within a pod register one by one; set the annotation to \"container\"";
        out.invalid(&mode, detail);
    }
}

/// vLLM's executor, on graphs and on services of v1alpha1.
pub(super) fn executor(annotation: &Node<'_>, out: &mut Findings) {
    if annotation.is_set() && !EXECUTORS.contains(&annotation.text().to_ascii_lowercase().as_str()) {
        out.invalid(annotation, "is no executor of vLLM; write \"mp\" or \"ray\", or remove the annotation");
    }
}

fn one_of(annotation: &Node<'_>, supported: &[&str], out: &mut Findings) {
    if annotation.is_set() && !supported.contains(&annotation.text()) {
        out.not_supported(annotation, supported, "");
    }
}

/// Names that become values of labels must fit into them.
fn name(graph: &Graph<'_>, out: &mut Findings) {
    let global = graph.components().iter().all(|c| c.field("globalDynamoNamespace").is_true());
    if let Some((problem, remedy)) = violations::graph_name(graph.namespace(), graph.name(), global) {
        out.invalid(&graph.metadata().field("name"), format!("{problem}; {remedy}"));
    }
}

//! Warnings about fields of the legacy API that have no effect any more.

use api_types::{annotations, env};
use serde_json::Value;

use super::super::field::{Findings, Node};

const SEVERAL_NODES: &str = "for several nodes, set multinode.nodeCount, and a command that starts each of them";
const DEBUGGING: &str = "use `kubectl debug` on a pod";

/// Annotations of a service that mean nothing any more, and what to do instead.
const MEANINGLESS: [(&str, &str); 5] = [
    (annotations::DEPLOYMENT_TYPE, SEVERAL_NODES),
    (annotations::LWS_SIZE, SEVERAL_NODES),
    (annotations::DEBUG_MODE, DEBUGGING),
    (annotations::DEBUG_STEALING_TRAFFIC, DEBUGGING),
    (annotations::DEBUG_POD_TRAFFIC, DEBUGGING),
];

/// Warns about a graph in v1alpha1 whose image is built from an archive.
pub(super) fn graph(spec: &Node<'_>, out: &mut Findings) {
    let sources = ["dynamoComponent", "dynamoGraph"].map(|field| spec.field(field));
    let Some(source) = sources.iter().find(|source| !source.text().is_empty()) else { return };
    let services = spec.field("services");
    let mut named = services.entries().filter(|(_, service)| service.is_set()).peekable();
    if named.peek().is_some() && named.all(|(_, service)| says_what_it_runs(&service)) {
        out.warn(format!(
            "{}: the manifest in the archive is not read, because each service says what it runs; set workers, resources \
             and envs of the manifest in {}",
            source.path(),
            services.path()
        ));
    }
    configuration(spec, out);
    for (_, service) in services.entries() {
        component(&service, out);
    }
}

/// Whether a service of a graph needs no manifest.
fn says_what_it_runs(service: &Node<'_>) -> bool {
    let main = service.field("extraPodSpec").field("mainContainer");
    ["dynamoTag", "componentType"].into_iter().any(|field| !service.field(field).text().is_empty())
        || !main.field("image").text().is_empty()
        || ["command", "args"].into_iter().any(|field| main.field(field).items().next().is_some())
}

/// Warns about a component in v1alpha1 whose image is built from an archive.
pub(super) fn component(component: &Node<'_>, out: &mut Findings) {
    let given = component.field("annotations");
    for (key, remedy) in MEANINGLESS {
        let annotation = given.key(key);
        if !["", "false"].contains(&annotation.text()) {
            out.warn(format!("{}: has no effect; {remedy}, and remove the annotation", annotation.path()));
        }
    }
    configuration(component, out);
}

/// Warns about services that would have been spread over nodes.
fn configuration(within: &Node<'_>, out: &mut Findings) {
    let Some(variable) = within.field("envs").named(env::DYN_DEPLOYMENT_CONFIG) else { return };
    let value = variable.field("value");
    let config: Value = serde_json::from_str(value.text()).unwrap_or_default();
    for (service, said) in config.as_object().into_iter().flatten() {
        if spans_nodes(&said["ServiceArgs"]) {
            out.warn(format!("{}: total_gpus of {service} has no effect; {SEVERAL_NODES}", value.path()));
        }
    }
}

/// Whether a service wants more GPUs in all than on one node.
fn spans_nodes(args: &Value) -> bool {
    let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok());
    let (total, on_one) = (number(&args["total_gpus"]), number(&args["resources"]["gpu"]));
    total.zip(on_one).is_some_and(|(total, on_one)| on_one > 0.0 && total > on_one)
}

//! Power limits of GPUs, from which planners compute. They cannot follow changes, so nothing of what they compute with
//! changes.

use api_types::{annotations::GPU_POWER_LIMIT, v1beta1::ComponentSpec};
use k8s_openapi::{
    api::core::v1::{Container, PodSpec},
    apimachinery::pkg::api::resource::Quantity,
};
use serde_json::json;

use super::Findings;
use crate::gpus;

fn limit(component: &ComponentSpec) -> Option<&str> {
    component.pod_annotation(GPU_POWER_LIMIT)
}

fn path(at: &str) -> String {
    format!("{at}.podTemplate.metadata.annotations[{GPU_POWER_LIMIT}]")
}

/// Checks the limit of a component, if it has one.
pub(super) fn check(at: &str, component: &ComponentSpec, out: &mut Findings) {
    let Some(text) = limit(component) else { return };
    let watts = text.strip_prefix('+').unwrap_or(text);
    let is_number = !watts.is_empty() && watts.bytes().all(|b| b.is_ascii_digit());
    if !is_number || !watts.parse::<i64>().is_ok_and(|watts| watts > 0) {
        out.invalid(path(at), text, "is no power limit; write a whole number of watts above 0, such as \"400\"");
    }
    if let Some(claim) = devices(at, component) {
        let text = format!(
            "GPUs that come by resource claims have no power limit that planners could read; remove it, or the annotation \
             {GPU_POWER_LIMIT}"
        );
        out.forbidden(claim, text);
    }
}

/// Finds the component's request for devices by claims.
fn devices(at: &str, component: &ComponentSpec) -> Option<String> {
    if component.gpu_memory_service().is_some() {
        return Some(format!("{at}.experimental.gpuMemoryService"));
    }
    let pod = component.pod_spec()?;
    let claims = |container: &Container| {
        let claims = container.resources.as_ref().and_then(|resources| resources.claims.as_ref());
        claims.is_some_and(|claims| !claims.is_empty())
    };
    let in_list = |list: &str, containers: &[Container]| {
        let position = containers.iter().position(claims)?;
        Some(format!("{at}.podTemplate.spec.{list}[{position}].resources.claims"))
    };
    let PodSpec { containers, init_containers, .. } = pod;
    in_list("containers", containers).or_else(|| in_list("initContainers", init_containers.as_deref()?))
}

/// Checks a change of a component that has, had or gets a limit.
pub(super) fn check_update(at: &str, new: &ComponentSpec, old: &ComponentSpec, out: &mut Findings) {
    let anew = "delete the graph and create it anew";
    if limit(new) != limit(old) {
        out.immutable(path(at), json!(limit(new)), format!("leave it as it was, or {anew}"));
    }
    if limit(old).is_none() {
        return;
    }
    let remedy = format!("planners compute with it since annotation {GPU_POWER_LIMIT} was set; leave it, or {anew}");
    let ((field, gpus), (_, before)) = (scalar_gpus(new), scalar_gpus(old));
    if gpus != before {
        let value = gpus.map_or_else(|| json!({}), |gpus| json!(gpus));
        out.immutable(format!("{at}.podTemplate.spec.containers{field}"), value, &remedy);
    }
    if new.node_count() != old.node_count() {
        let nodes = new.multinode.as_ref().map(|multinode| multinode.node_count);
        out.immutable(format!("{at}.multinode.nodeCount"), json!(nodes), &remedy);
    }
}

/// The number of whole NVIDIA GPUs of the main container, and its field below the containers; the field where it would
/// be, if there is none.
fn scalar_gpus(component: &ComponentSpec) -> (String, Option<&Quantity>) {
    let Some(main) = component.main_container() else { return (String::new(), None) };
    let at = format!("[{}].resources", main.name);
    match gpus::first(main.resources.as_ref(), |resource| resource == api_types::GPU) {
        Some((list, resource, amount)) => (format!("{at}.{list}[{resource}]"), Some(amount)),
        None => (at, None),
    }
}

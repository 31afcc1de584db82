//! Power limits of GPUs, from which planners compute. They cannot follow changes, so nothing of what they compute with
//! changes.

use api_types::annotations;

use super::super::{
    field::{Findings, Node},
    view::{Component, template_containers},
};

/// Checks the limit of a component, if it has one.
pub(in crate::admission) fn power_limit(component: &Component<'_>, out: &mut Findings) {
    let limit = component.annotation(annotations::GPU_POWER_LIMIT);
    let Some(text) = limit.given() else { return };
    let watts = text.strip_prefix('+').unwrap_or(text);
    let is_number = !watts.is_empty() && watts.bytes().all(|b| b.is_ascii_digit());
    if !is_number || !watts.parse::<i64>().is_ok_and(|watts| watts > 0) {
        out.invalid(&limit, "is no power limit; write a whole number of watts above 0, such as \"400\"");
    }
    if let Some(claim) = devices(component) {
        let detail = format!(
            "GPUs that come by resource claims have no power limit that planners could read; remove it, or the annotation {}",
            annotations::GPU_POWER_LIMIT
        );
        out.forbidden(&claim, detail);
    }
}

/// Where the component asks for devices by claims.
fn devices<'a>(component: &Component<'a>) -> Option<Node<'a>> {
    let service = component.experimental("gpuMemoryService");
    let claims =
        template_containers(&component.pod()).into_iter().map(|container| container.fields(&["resources", "claims"]));
    Some(service).filter(Node::is_set).or_else(|| claims.into_iter().find(Node::has_entries))
}

/// Checks a change of a component that has, had or gets a limit.
pub(in crate::admission) fn power_limit_update(new: &Component<'_>, old: &Component<'_>, out: &mut Findings) {
    let remedy = format!(
        "planners compute with it since annotation {} was set; leave it, or delete the graph and create it anew",
        annotations::GPU_POWER_LIMIT
    );
    let limits = [new, old].map(|component| component.annotation(annotations::GPU_POWER_LIMIT));
    if limits[0].given() != limits[1].given() {
        out.immutable(&limits[0], "leave it as it was, or delete the graph and create it anew");
    }
    if limits[1].given().is_none() {
        return;
    }
    let (gpus, before) = (scalar_gpus(new), scalar_gpus(old));
    if gpus.quantity() != before.quantity() {
        out.immutable(&gpus, &remedy);
    }
    if new.nodes() != old.nodes() {
        out.immutable(&new.fields(&["multinode", "nodeCount"]), &remedy);
    }
}

/// The number of whole NVIDIA GPUs of the main container; where it would stand, if there is none.
fn scalar_gpus<'a>(component: &Component<'a>) -> Node<'a> {
    let Some(main) = component.main() else { return component.containers() };
    let [limit, request] = ["limits", "requests"].map(|list| main.fields(&["resources", list]).key(api_types::GPU));
    if limit.is_set() {
        limit
    } else if request.is_set() {
        request
    } else {
        main.field("resources")
    }
}

//! Collects what the caches hold of a graph on Grove.

use std::collections::BTreeMap;

use api_types::{
    conversion::preserved::unknown_types_of_graph,
    grove,
    v1beta1::{ComponentType, DynamoGraphDeployment},
};
use controller_kit::store::UnpackError;
use kube::{
    ResourceExt,
    core::{ApiResource, GroupVersionKind},
};
use serde_json::Value;

use super::is_orphan_of;
use crate::graph::{caches::GroveCaches, model::LiveGrove};

/// The kind of the KAI scheduler's queues.
pub fn kai_queues() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("scheduling.run.ai", "v2", "Queue"))
}

/// The kind of the Volcano scheduler's gangs.
pub fn volcano_groups() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("scheduling.volcano.sh", "v1beta1", "PodGroup"))
}

/// The kind of cluster topologies.
pub fn topology_bindings() -> ApiResource {
    let (group, version) = grove::API_VERSION.split_once('/').unwrap_or_default();
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, "ClusterTopologyBinding"))
}

/// Component types of a stored graph that the API does not define. Our conversion keeps them in an annotation, the
/// upstream operator in the field.
pub fn unknown_types(stored: &Value, annotations: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let components = stored.pointer("/spec/components").and_then(Value::as_array).into_iter().flatten();
    let text = |component: &Value, field: &str| component[field].as_str().map(str::to_owned);
    let given = components.filter_map(|component| Some((text(component, "name")?, text(component, "type")?)));
    let unknown = given.filter(|(_, type_)| !type_.is_empty() && ComponentType::named(type_).is_none());
    unknown_types_of_graph(annotations).into_iter().chain(unknown).collect()
}

/// Reads what is live of a graph.
///
/// # Errors
/// If a PodCliqueSet of the graph has a form that this version cannot read.
pub(super) fn cached(caches: &GroveCaches, graph: &DynamoGraphDeployment) -> Result<LiveGrove, UnpackError> {
    let owned = caches.sets.children_of(&graph.uid().unwrap_or_default());
    let mut sets = owned.iter().map(|set| set.unpack()).collect::<Result<Vec<_>, _>>()?;
    let namespace = graph.namespace().unwrap_or_default();
    let orphans = caches.sets.orphans(&namespace).into_iter().filter(|set| is_orphan_of(graph, set.as_ref()));
    sets.extend(orphans.filter_map(|set| set.unpack().ok()));

    let (mut cliques, mut groups) = (Vec::new(), Vec::new());
    for set in &sets {
        let uid = set.uid().unwrap_or_default();
        // An object of Grove that cannot be parsed counts as absent.
        cliques.extend(caches.cliques.children_of(&uid).iter().filter_map(|clique| clique.unpack().ok()));
        groups.extend(caches.groups.children_of(&uid).iter().filter_map(|group| group.unpack().ok()));
    }
    let pull_secrets = caches.pull_secrets.as_ref().map(|secrets| secrets.index(&namespace));
    Ok(LiveGrove { sets, cliques, groups, pull_secrets: pull_secrets.unwrap_or_default(), ..LiveGrove::default() })
}

//! Collects what the caches hold of a graph's checkpoints.

use std::collections::BTreeSet;

use api_types::{
    labels,
    v1alpha1::DynamoCheckpoint,
    v1beta1::{ComponentSpec, DynamoComponentDeployment, DynamoGraphDeployment},
};
use controller_kit::store::{Packed, controller_owner};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::ResourceExt;
use rendering::checkpoint::{StorageLocation, storage_of_agents};

use super::Caches;
use crate::graph::{model::LiveCheckpoints, settings::Settings};

/// The checkpoints that a graph made or names. Free for a graph without checkpoints.
pub(super) fn cached(
    caches: &Caches,
    graph: &DynamoGraphDeployment,
    components: &[DynamoComponentDeployment],
) -> LiveCheckpoints {
    let uid = graph.uid().unwrap_or_default();
    let mut named: BTreeSet<&str> = graph.spec.components.iter().filter_map(reference).collect();
    named.extend(components.iter().filter_map(|d| reference(&d.spec.component)));
    if !graph.spec.components.iter().any(has_checkpoint) && caches.checkpoints.children_of(&uid).is_empty() {
        return LiveCheckpoints::default();
    }
    let (namespace, name) = (graph.namespace(), graph.name_any());
    let concerns = |found: &Packed<DynamoCheckpoint>| {
        let owner = controller_owner(found).map(|owner| owner.uid == uid);
        let of_graph = found.labels().get(labels::GRAPH) == Some(&name);
        found.namespace() == namespace && (named.contains(found.name_any().as_str()) || owner.unwrap_or(of_graph))
    };
    let all = caches.checkpoints.all().into_iter().filter(|found| concerns(found));
    // The schema is our own: what is there can be read.
    let all = all.filter_map(|found| found.unpack().ok()).collect();
    LiveCheckpoints { all, in_use: in_use(caches, graph), place: StorageLocation::Unknown }
}

/// Storage of the checkpoints of a namespace.
pub(super) fn place(caches: &Caches, settings: &Settings, namespace: &str) -> StorageLocation {
    let Some(snapshots) = &settings.snapshots else { return StorageLocation::Unknown };
    match snapshots.storage.storage() {
        Err(problem) => StorageLocation::Invalid(problem),
        // The claim was there, or made, before the first checkpoint became ready.
        Ok(Some(storage)) => StorageLocation::Named { storage, exists: true },
        Ok(None) => {
            let all = caches.agents.as_ref().map(|agents| agents.all()).unwrap_or_default();
            let here = all.iter().filter(|agent| agent.namespace().as_deref() == Some(namespace));
            let agents: Vec<DaemonSet> = here.filter_map(|agent| agent.unpack().ok()).collect();
            storage_of_agents(&agents).map_or(StorageLocation::Unknown, StorageLocation::OfAgent)
        }
    }
}

fn in_use(caches: &Caches, graph: &DynamoGraphDeployment) -> BTreeSet<String> {
    let namespace = graph.namespace();
    let components = caches.components.all().into_iter().filter(|d| d.namespace() == namespace);
    let components = components.filter_map(|d| reference(&d.unpack().ok()?.spec.component).map(str::to_owned));
    let graphs = caches.graphs.all().into_iter().filter(|graph| graph.namespace() == namespace);
    let graphs = graphs.filter_map(|graph| graph.unpack().ok());
    let graphs = graphs.flat_map(|graph| names_in(&graph));
    components.chain(graphs).collect()
}

/// Names of the checkpoints that a graph's user names.
pub fn names_in(graph: &DynamoGraphDeployment) -> Vec<String> {
    graph.spec.components.iter().filter_map(reference).map(str::to_owned).collect()
}

/// Whether a component has a checkpoint.
pub fn has_checkpoint(component: &ComponentSpec) -> bool {
    let experimental = component.experimental.as_ref();
    experimental.and_then(|experimental| experimental.checkpoint.as_ref()).is_some_and(|checkpoint| checkpoint.enabled)
}

fn reference(component: &ComponentSpec) -> Option<&str> {
    let checkpoint = component.experimental.as_ref()?.checkpoint.as_ref().filter(|checkpoint| checkpoint.enabled)?;
    checkpoint.checkpoint_ref.as_deref().filter(|name| !name.is_empty())
}

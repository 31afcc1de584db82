//! The graphs that an object concerns without being theirs, from an index: an event costs what it concerns, and not a
//! look at all graphs.

use api_types::{
    v1alpha1::{DynamoCheckpoint, DynamoComponent},
    v1beta1::DynamoGraphDeployment,
};
use controller_kit::{
    controller::owner_key,
    store::{Index, Key, Packed, controller_owner},
};
use kube::{Resource, ResourceExt};

use crate::graph::{
    apply::graph_of,
    observe::{build_of, checkpoints::names_in},
};

/// What a graph depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Concern {
    /// What all graphs of a namespace share.
    Namespace(String),
    /// A checkpoint that its user names.
    Checkpoint(Key),
    /// The DynamoComponent whose image it runs.
    Build(Key),
}

/// What a graph depends on, for the index of graphs.
pub(super) fn concerns(graph: &Packed<DynamoGraphDeployment>) -> Vec<Concern> {
    let namespace = graph.namespace().unwrap_or_default();
    let named = graph.unpack().map(|graph| names_in(&graph)).unwrap_or_default();
    let checkpoints = named.into_iter().map(|name| Concern::Checkpoint(Key::new(&namespace, &name)));
    let build = build_of(graph.annotations()).map(|name| Concern::Build(Key::new(&namespace, &name)));
    checkpoints.chain(build).chain([Concern::Namespace(namespace.clone())]).collect()
}

/// The graphs that an object concerns: its owner, or all of its namespace if they share it.
pub(super) fn concerned_by<K: Resource>(graphs: &Index<Concern>) -> impl Fn(&K) -> Vec<Key> + Send + use<K> {
    let neighbours = neighbours(graphs);
    move |object| match controller_owner(object) {
        Some(_) => owner_key::<DynamoGraphDeployment, K>(object).into_iter().collect(),
        None => neighbours(object),
    }
}

/// The graph that made a checkpoint, and those that name it.
pub(super) fn concerned_by_checkpoint(
    graphs: &Index<Concern>,
) -> impl Fn(&Packed<DynamoCheckpoint>) -> Vec<Key> + Send + use<> {
    let graphs = graphs.clone();
    move |checkpoint| {
        let naming = graphs.get(&Concern::Checkpoint(Key::of(checkpoint)));
        naming.into_iter().chain(graph_of(checkpoint)).collect()
    }
}

/// The graphs that run what a DynamoComponent builds, and the one that owns it.
pub(super) fn running(graphs: &Index<Concern>) -> impl Fn(&Packed<DynamoComponent>) -> Vec<Key> + Send + use<> {
    let graphs = graphs.clone();
    move |build| {
        let running = graphs.get(&Concern::Build(Key::of(build)));
        running.into_iter().chain(owner_key::<DynamoGraphDeployment, _>(build)).collect()
    }
}

/// All graphs of an object's namespace.
pub(super) fn neighbours<K: Resource>(graphs: &Index<Concern>) -> impl Fn(&K) -> Vec<Key> + Send + use<K> {
    let graphs = graphs.clone();
    move |object| graphs.get(&Concern::Namespace(object.meta().namespace.clone().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::graph::fixtures::graph_with;

    fn index(graphs: &[(&str, Value)]) -> Index<Concern> {
        let index = Index::default();
        for (name, checkpoint) in graphs {
            let graph = graph_with(|g| {
                g["metadata"]["name"] = json!(name);
                g["spec"]["components"][1]["experimental"] = json!({ "checkpoint": checkpoint });
            });
            let packed = Packed::from_value(serde_json::to_value(&graph).unwrap()).unwrap();
            index.set(&Key::of(&packed), concerns(&packed));
        }
        index
    }

    #[test]
    fn a_checkpoint_wakes_the_graphs_that_name_it_and_its_own() {
        let named = |name: &str| json!({ "enabled": true, "checkpointRef": name });
        let graphs = index(&[("a", named("warm")), ("b", named("other")), ("c", json!({ "enabled": false }))]);
        let checkpoint = |namespace: &str| {
            let labels = json!({ "nvidia.com/dynamo-graph-deployment-name": "maker" });
            let metadata = json!({ "name": "warm", "namespace": namespace, "labels": labels });
            Packed::<DynamoCheckpoint>::from_value(json!({ "metadata": metadata })).unwrap()
        };
        let woken = |namespace: &str| {
            let keys = concerned_by_checkpoint(&graphs)(&checkpoint(namespace));
            keys.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(woken("team-a"), ["team-a/a", "team-a/maker"]);
        assert_eq!(woken("team-b"), ["team-b/maker"], "a name of another namespace");
        let shared = checkpoint("team-a");
        assert_eq!(neighbours(&graphs)(&shared).len(), 3);
    }
}

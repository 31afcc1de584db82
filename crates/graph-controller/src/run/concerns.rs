//! The graphs that an object concerns without being theirs, from an index: an event costs what it concerns, and not a
//! look at all graphs. States by which objects are counted in the metrics.

use api_types::{
    v1alpha1::{DynamoCheckpoint, DynamoComponent},
    v1beta1::{
        DynamoGraphDeployment, DynamoGraphDeploymentRequest, DynamoGraphDeploymentScalingAdapter, GraphState,
        RequestPhase,
    },
};
use controller_kit::{
    controller::owner_key,
    store::{Index, Key, Packed, controller_owner},
};
use kube::{Resource, ResourceExt};
use serde::Deserialize;

use crate::graph::{
    apply::graph_of,
    observe::{build_of, names_in},
};

/// Dependency of a graph.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Concern {
    /// Objects that all graphs of a namespace share.
    Namespace(String),
    /// A checkpoint that its user names.
    Checkpoint(Key),
    /// The DynamoComponent whose image it runs.
    Build(Key),
}

/// Returns the dependencies of a graph, for the index of graphs.
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

/// The state of a graph. One that has none was not looked at yet.
pub(super) fn of_graph(graph: &Packed<DynamoGraphDeployment>) -> &'static str {
    GraphState::deserialize(&graph.status()["state"]).unwrap_or_default().as_str()
}

/// The phase of a request. One that has none was not looked at yet.
pub(super) fn of_request(request: &Packed<DynamoGraphDeploymentRequest>) -> &'static str {
    RequestPhase::deserialize(&request.status()["phase"]).unwrap_or(RequestPhase::Pending).as_str()
}

/// Whether autoscalers can use an adapter: its selector is set, and selects one pod at least.
pub(super) fn of_adapter(adapter: &Packed<DynamoGraphDeploymentScalingAdapter>) -> &'static str {
    let status = adapter.status();
    let selects = status["selector"].as_str().is_some_and(|selector| !selector.is_empty());
    if selects && status["replicas"].as_i64().is_some_and(|replicas| replicas > 0) { "ready" } else { "not_ready" }
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

#[cfg(test)]
mod counts_tests {
    use serde_json::{Value, json};

    use super::*;

    fn with<K>(status: &Value) -> Packed<K> {
        Packed::from_value(json!({ "metadata": { "name": "x" }, "status": status })).unwrap()
    }

    #[test]
    fn states_are_those_of_the_dashboards() {
        for state in ["initializing", "pending", "successful", "failed"] {
            assert_eq!(of_graph(&with(&json!({ "state": state }))), state);
        }
        for phase in ["Pending", "Profiling", "Ready", "Deploying", "Deployed", "Failed"] {
            assert_eq!(of_request(&with(&json!({ "phase": phase }))), phase);
        }
        for nothing in [json!({}), Value::Null, json!("x"), json!({ "state": "x", "phase": 1 })] {
            assert_eq!(
                (of_graph(&with(&nothing)), of_request(&with(&nothing))),
                ("initializing", "Pending"),
                "{nothing}"
            );
        }
    }

    #[test]
    fn an_adapter_is_ready_once_autoscalers_can_use_it() {
        for (status, expected) in [
            (json!({ "selector": "a=b", "replicas": 2 }), "ready"),
            (json!({ "selector": "a=b", "replicas": 0 }), "not_ready"),
            (json!({ "selector": "", "replicas": 2 }), "not_ready"),
            (json!({ "replicas": 2 }), "not_ready"),
            (Value::Null, "not_ready"),
        ] {
            assert_eq!(of_adapter(&with(&status)), expected, "{status}");
        }
    }
}

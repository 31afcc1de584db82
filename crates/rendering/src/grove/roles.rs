//! Cliques of a component, and the object that scales it.

use std::collections::BTreeMap;

use api_types::{
    grove, labels, names,
    v1beta1::{ComponentSpec, EngineMode, Failover},
};

use crate::{LEADER_CLIQUE, NodeRole, WORKER_CLIQUE};

/// A clique of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Clique {
    /// Name within the PodCliqueSet.
    pub(super) name: String,
    /// Role of its pods.
    pub(super) role: CliqueRole,
    /// Its pods.
    pub(super) replicas: i32,
    /// Least pods that are placed together.
    pub(super) min_available: i32,
}

/// Role of the pods of a clique.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CliqueRole {
    /// Each is a replica by itself.
    Alone,
    /// Together with another clique they are a replica.
    Node(NodeRole),
    /// They hold the GPU memory of a rank.
    MemoryOfRank(i32),
    /// They are the engines of a rank, all but one standing by. The role is that of a replica that spans nodes.
    EngineOfRank(i32, Option<NodeRole>),
}

/// Suffix of the cliques that hold a component's GPU memory.
const MEMORY_CLIQUE: &str = "gms";

/// Kind of the object that Grove creates for a component. Its replicas are requested through the scale subresource of
/// this object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildKind {
    /// A clique by itself.
    PodClique,
    /// A group of cliques.
    PodCliqueScalingGroup,
}

/// Returns the kind that Grove creates for a component.
pub fn child_of(component: &ComponentSpec) -> ChildKind {
    if component.is_multinode() || component.forces_scaling_group() || shares_memory_between_pods(component) {
        ChildKind::PodCliqueScalingGroup
    } else {
        ChildKind::PodClique
    }
}

/// The cliques of a component, in the order of the PodCliqueSet.
///
/// Grove takes no template with fewer pods than its minimum, and none with none: a component with fewer desired ones is
/// scaled down once it exists.
pub(super) fn cliques(component: &ComponentSpec) -> Vec<Clique> {
    let name = component.name.to_lowercase();
    match (shares_memory_between_pods(component), component.is_multinode()) {
        (true, _) => ranks(component, &name),
        (false, true) => {
            let node = |suffix: &str, role, replicas| Clique {
                name: format!("{name}-{suffix}"),
                role: CliqueRole::Node(role),
                replicas,
                // Nodes of one replica work together: without all of them there is none.
                min_available: replicas,
            };
            let others = component.node_count() - 1;
            vec![node(LEADER_CLIQUE, NodeRole::Leader, 1), node(WORKER_CLIQUE, NodeRole::Worker, others)]
        }
        (false, false) => {
            let (replicas, min_available) = match child_of(component) {
                ChildKind::PodCliqueScalingGroup => (1, 1),
                ChildKind::PodClique => {
                    let least = component.min_available.unwrap_or(1).max(1);
                    (component.desired_replicas().max(least), least)
                }
            };
            vec![Clique { name, role: CliqueRole::Alone, replicas, min_available }]
        }
    }
}

/// A clique that holds memory and a clique of engines for each rank.
fn ranks(component: &ComponentSpec, name: &str) -> Vec<Clique> {
    let failover = component.failover().filter(|failover| failover.mode == EngineMode::InterPod);
    let engines = 1 + failover.map_or(0, Failover::standbys);
    let clique = |name, role, replicas| Clique { name, role, replicas, min_available: 1 };
    let of_rank = |rank: i32| {
        let (engine, node) = match (component.is_multinode(), rank) {
            (false, _) => (name.to_owned(), None),
            (true, 0) => (format!("{name}-{LEADER_CLIQUE}"), Some(NodeRole::Leader)),
            (true, rank) => (format!("{name}-{WORKER_CLIQUE}-{rank}"), Some(NodeRole::Worker)),
        };
        [
            clique(format!("{name}-{MEMORY_CLIQUE}-{rank}"), CliqueRole::MemoryOfRank(rank), 1),
            clique(engine, CliqueRole::EngineOfRank(rank, node), engines),
        ]
    };
    (0..component.node_count().max(1)).flat_map(of_rank).collect()
}

/// Whether a pod on Grove answers no requests, by its labels: it follows the leader of a replica that spans nodes, or
/// holds the GPU memory of a rank.
pub(crate) fn only_assists(labels: &BTreeMap<String, String>) -> bool {
    let (Some(clique), Some(component)) = (labels.get(grove::POD_CLIQUE), labels.get(labels::COMPONENT)) else {
        return false;
    };
    let component = component.to_lowercase();
    let (clique, rank) = match clique.rsplit_once('-') {
        Some((clique, rank)) if !rank.is_empty() && rank.bytes().all(|byte| byte.is_ascii_digit()) => (clique, true),
        _ => (clique.as_str(), false),
    };
    let is_of = |suffix: &str| clique.ends_with(&format!("-{component}-{suffix}"));
    is_of(WORKER_CLIQUE) || (rank && is_of(MEMORY_CLIQUE))
}

pub(crate) fn shares_memory_between_pods(component: &ComponentSpec) -> bool {
    component.gpu_memory_service().is_some_and(|service| service.mode == EngineMode::InterPod)
}

/// Name of a graph's PodCliqueSet.
pub fn set_name(graph: &str, components: &[ComponentSpec]) -> String {
    names::pod_clique_set(graph, components.iter().map(names_beside_set).max().unwrap_or_default())
}

/// Length of the names beside the PodCliqueSet's in the name of a component's pod.
pub(super) fn names_beside_set(component: &ComponentSpec) -> usize {
    let name = component.name.to_lowercase().len();
    match child_of(component) {
        ChildKind::PodClique => name,
        ChildKind::PodCliqueScalingGroup => {
            name + cliques(component).iter().map(|clique| clique.name.len()).max().unwrap_or_default().max(name)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn component(spec: Value) -> ComponentSpec {
        serde_json::from_value(spec).unwrap()
    }

    fn roles_of(spec: Value) -> Vec<(String, i32, i32)> {
        cliques(&component(spec)).into_iter().map(|c| (c.name, c.replicas, c.min_available)).collect()
    }

    fn between_pods(failover: bool) -> Value {
        let mut experimental = json!({ "gpuMemoryService": { "mode": "InterPod" } });
        if failover {
            experimental["failover"] = json!({ "mode": "InterPod" });
        }
        experimental
    }

    #[test]
    fn pods_that_assist_others_are_known_by_their_clique() {
        let assists = |component: &str, clique: &str| {
            let labels = [(labels::COMPONENT, component), (grove::POD_CLIQUE, clique)];
            only_assists(&labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into())
        };
        for (component, clique, expected) in [
            ("W", "g-0-w", false),
            ("W", "g-0-w-0-w-ldr", false),
            ("W", "g-0-w-0-w-wkr", true),
            ("W", "g-0-w-0-w-wkr-1", true),
            ("W", "g-0-w-0-w-gms-0", true),
            ("w-wkr", "g-0-w-wkr", false),
            ("w-wkr-1", "g-0-w-wkr-1", false),
            ("w-gms-0", "g-0-w-gms-0", false),
            ("w-wkr", "g-0-w-wkr-0-w-wkr-wkr", true),
        ] {
            assert_eq!(assists(component, clique), expected, "{component} {clique}");
        }
        assert!(!only_assists(&BTreeMap::new()));
    }

    #[test]
    fn every_shape_has_its_cliques() {
        let table = [
            (json!({ "name": "Front", "replicas": 3 }), vec![("front", 3, 1)]),
            (json!({ "name": "Front", "replicas": 3, "minAvailable": 2 }), vec![("front", 3, 2)]),
            (json!({ "name": "Front", "replicas": 0 }), vec![("front", 1, 1)]),
            (json!({ "name": "Front", "replicas": 1, "minAvailable": 2 }), vec![("front", 2, 2)]),
            (
                json!({ "name": "W", "replicas": 5, "experimental": { "grove": { "forceScalingGroup": true } } }),
                vec![("w", 1, 1)],
            ),
            (
                json!({ "name": "W", "replicas": 2, "multinode": { "nodeCount": 4 } }),
                vec![("w-ldr", 1, 1), ("w-wkr", 3, 3)],
            ),
            (json!({ "name": "W", "experimental": between_pods(false) }), vec![("w-gms-0", 1, 1), ("w", 1, 1)]),
            (
                json!({ "name": "W", "multinode": { "nodeCount": 2 }, "experimental": between_pods(true) }),
                vec![("w-gms-0", 1, 1), ("w-ldr", 2, 1), ("w-gms-1", 1, 1), ("w-wkr-1", 2, 1)],
            ),
        ];
        for (spec, expected) in table {
            let expected: Vec<_> = expected.into_iter().map(|(name, r, m)| (name.to_owned(), r, m)).collect();
            assert_eq!(roles_of(spec.clone()), expected, "{spec}");
        }
    }

    #[test]
    fn long_names_of_graphs_are_cut_to_what_their_components_leave() {
        let graph = "a-rather-long-graph-deployment-name-for-test";
        let (front, one, many) = (
            component(json!({ "name": "Frontend" })),
            component(json!({ "name": "VllmDecodeWorker" })),
            component(json!({ "name": "VllmDecodeWorker", "multinode": {} })),
        );
        assert_eq!(set_name(graph, &[front.clone(), one]), "a-rather-long-graph-depl-f0fc");
        assert_eq!(set_name(graph, &[front, many]), "a-ra-f0fc");
    }
}

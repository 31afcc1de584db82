//! Which cliques a component has, and what scales it.

use crate::{LEADER_CLIQUE, NodeRole, WORKER_CLIQUE};
use api_types::names;
use api_types::v1beta1::{ComponentSpec, EngineMode};

/// A clique of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Clique {
    /// Name within the PodCliqueSet.
    pub(super) name: String,
    /// Place of its pods in a replica that spans nodes; `None` if each is a replica by itself.
    pub(super) role: Option<NodeRole>,
    /// Its pods.
    pub(super) replicas: i32,
    /// Least pods that are placed together.
    pub(super) min_available: i32,
}

/// What Grove makes of a component, and through whose scale subresource its replicas are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildKind {
    /// A clique by itself.
    PodClique,
    /// A group of cliques.
    PodCliqueScalingGroup,
}

/// What Grove makes of a component.
pub fn child_of(component: &ComponentSpec) -> ChildKind {
    let experimental = component.experimental.as_ref();
    let forced = experimental.and_then(|e| e.grove.as_ref()?.force_scaling_group).unwrap_or(false);
    let shares_gpus = experimental.and_then(|e| e.gpu_memory_service.as_ref());
    let between_pods = shares_gpus.is_some_and(|service| service.mode == EngineMode::InterPod);
    if component.is_multinode() || forced || between_pods {
        ChildKind::PodCliqueScalingGroup
    } else {
        ChildKind::PodClique
    }
}

/// The cliques of a component, in the order of the PodCliqueSet.
///
/// Grove takes no template with fewer pods than its minimum, and none with none: a component that shall have fewer is
/// scaled down once it exists.
pub(super) fn cliques(component: &ComponentSpec) -> Vec<Clique> {
    let name = component.name.to_lowercase();
    if component.is_multinode() {
        let others = component.node_count() - 1;
        let node = |suffix: &str, role, replicas| Clique {
            name: format!("{name}-{suffix}"),
            role: Some(role),
            replicas,
            // Nodes of one replica work together: without all of them there is none.
            min_available: replicas,
        };
        return vec![node(LEADER_CLIQUE, NodeRole::Leader, 1), node(WORKER_CLIQUE, NodeRole::Worker, others)];
    }
    let (replicas, min_available) = match child_of(component) {
        ChildKind::PodCliqueScalingGroup => (1, 1),
        ChildKind::PodClique => {
            let least = component.min_available.unwrap_or(1).max(1);
            (component.wanted_replicas().max(least), least)
        }
    };
    vec![Clique { name, role: None, replicas, min_available }]
}

/// Name of a graph's PodCliqueSet.
pub fn set_name(graph: &str, components: &[ComponentSpec]) -> String {
    names::pod_clique_set(graph, components.iter().map(names_beside_set).max().unwrap_or_default())
}

/// Length of the names that stand beside the PodCliqueSet's in the name of a component's pod.
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
    use super::*;
    use serde_json::{Value, json};

    fn component(spec: Value) -> ComponentSpec {
        serde_json::from_value(spec).unwrap()
    }

    fn told(spec: Value) -> Vec<(String, i32, i32)> {
        cliques(&component(spec)).into_iter().map(|c| (c.name, c.replicas, c.min_available)).collect()
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
        ];
        for (spec, expected) in table {
            let expected: Vec<_> = expected.into_iter().map(|(name, r, m)| (name.to_owned(), r, m)).collect();
            assert_eq!(told(spec.clone()), expected, "{spec}");
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

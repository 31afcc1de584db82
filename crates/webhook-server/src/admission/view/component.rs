//! A component of v1beta1: an item of a graph's list, or the spec of a DynamoComponentDeployment.

use api_types::v1beta1::{ComponentType, EngineMode, MAIN_CONTAINER};

use super::super::field::Node;

/// Nodes per replica where `multinode` does not say.
const DEFAULT_NODES: i64 = 2;

/// A component.
#[derive(Debug, Clone)]
pub(in crate::admission) struct Component<'a> {
    node: Node<'a>,
}

impl<'a> Component<'a> {
    pub(in crate::admission) fn new(node: Node<'a>) -> Self {
        Self { node }
    }

    /// The component itself.
    pub(in crate::admission) fn node(&self) -> &Node<'a> {
        &self.node
    }

    pub(in crate::admission) fn field(&self, name: &str) -> Node<'a> {
        self.node.field(name)
    }

    pub(in crate::admission) fn fields(&self, names: &[&str]) -> Node<'a> {
        self.node.fields(names)
    }

    /// Name within the graph.
    pub(in crate::admission) fn name(&self) -> &'a str {
        self.field("name").text()
    }

    pub(in crate::admission) fn role(&self) -> Option<ComponentType> {
        self.field("type").parse()
    }

    pub(in crate::admission) fn is_worker(&self) -> bool {
        self.role().is_some_and(ComponentType::is_worker)
    }

    /// Wanted replicas with the default applied.
    pub(in crate::admission) fn replicas(&self) -> i64 {
        self.field("replicas").number().unwrap_or(1)
    }

    /// Nodes per replica.
    pub(in crate::admission) fn nodes(&self) -> i64 {
        let multinode = self.field("multinode");
        if multinode.is_set() { multinode.field("nodeCount").number().unwrap_or(DEFAULT_NODES) } else { 1 }
    }

    pub(in crate::admission) fn is_multinode(&self) -> bool {
        self.nodes() > 1
    }

    /// The pod spec.
    pub(in crate::admission) fn pod(&self) -> Node<'a> {
        self.fields(&["podTemplate", "spec"])
    }

    /// Containers of the pod, without init containers.
    pub(in crate::admission) fn containers(&self) -> Node<'a> {
        self.pod().field("containers")
    }

    /// The container that runs the component.
    pub(in crate::admission) fn main(&self) -> Option<Node<'a>> {
        self.containers().named(MAIN_CONTAINER)
    }

    /// An annotation of the pod.
    pub(in crate::admission) fn annotation(&self, key: &str) -> Node<'a> {
        self.fields(&["podTemplate", "metadata", "annotations"]).key(key)
    }

    /// A feature under `experimental`.
    pub(in crate::admission) fn experimental(&self, name: &str) -> Node<'a> {
        self.fields(&["experimental", name])
    }

    /// How GPU memory is shared, if it is.
    pub(in crate::admission) fn memory_service(&self) -> Option<EngineMode> {
        mode(&self.experimental("gpuMemoryService"))
    }

    /// How engines stand in for each other, if they do.
    pub(in crate::admission) fn failover(&self) -> Option<EngineMode> {
        mode(&self.experimental("failover"))
    }

    pub(in crate::admission) fn shares_memory_between_pods(&self) -> bool {
        self.memory_service() == Some(EngineMode::InterPod)
    }

    /// Whether one node is to be run as a scaling group all the same.
    pub(in crate::admission) fn forces_scaling_group(&self) -> bool {
        self.fields(&["experimental", "grove", "forceScalingGroup"]).is_true()
    }

    /// Whether Grove runs it as a scaling group, not as a single clique.
    pub(in crate::admission) fn uses_scaling_group(&self) -> bool {
        self.is_multinode() || self.shares_memory_between_pods() || self.forces_scaling_group()
    }
}

/// The mode of a feature that is on by being there.
fn mode(feature: &Node<'_>) -> Option<EngineMode> {
    feature.is_set().then(|| feature.field("mode").parse().unwrap_or_default())
}

/// Containers and init containers of a pod spec.
pub(in crate::admission) fn template_containers<'a>(pod: &Node<'a>) -> Vec<Node<'a>> {
    let lists = [pod.field("containers"), pod.field("initContainers")];
    lists.iter().flat_map(|list| list.items().collect::<Vec<_>>()).collect()
}

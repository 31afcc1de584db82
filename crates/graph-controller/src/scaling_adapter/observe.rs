//! An adapter and its graph, read from the caches.

use api_types::v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter as Adapter};
use controller_kit::store::{Index, Key, Packed, Store, UnpackError, controller_owner};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::decide::first_of;

/// What adapters name: a graph, and a component of one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Named {
    /// A graph.
    Graph(Key),
    /// A component of a graph.
    Component(Key, String),
}

/// What an adapter names, for the index of adapters. One that cannot be read names nothing.
pub fn named_by(packed: &Packed<Adapter>) -> Vec<Named> {
    let Ok(adapter) = packed.unpack() else { return Vec::new() };
    let target = adapter.spec.dgd_ref;
    let graph = Key::new(packed.metadata.namespace.as_deref().unwrap_or_default(), &target.name);
    vec![Named::Graph(graph.clone()), Named::Component(graph, target.component_name)]
}

/// The caches of this controller.
#[derive(Clone)]
pub struct Caches {
    /// Graphs.
    pub graphs: Store<Packed<DynamoGraphDeployment>>,
    /// Adapters.
    pub adapters: Store<Packed<Adapter>>,
    /// Adapters by what they name.
    pub by_target: Index<Named>,
}

/// An adapter and its graph, at one moment.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The adapter.
    pub adapter: Adapter,
    /// The graph that it names; none if there is none, or if it is on its way out.
    pub graph: Option<DynamoGraphDeployment>,
    /// The name of the adapter that scales the component in its place; none if it is this one.
    pub preceded_by: Option<String>,
}

/// Reads an adapter and its graph.
///
/// # Errors
/// One of them has a form that this version does not know.
pub fn observe(caches: &Caches, packed: &Packed<Adapter>) -> Result<Observed, UnpackError> {
    let adapter = packed.unpack()?;
    let namespace = adapter.metadata.namespace.clone().unwrap_or_default();
    let key = Key::new(&namespace, &adapter.spec.dgd_ref.name);
    let graph = caches.graphs.get(&key).filter(|graph| graph.metadata.deletion_timestamp.is_none());
    let first = caches.in_charge(&Named::Component(key, adapter.spec.dgd_ref.component_name.clone()));
    let preceded_by = first.map(|first| first.name).filter(|name| Some(name) != adapter.metadata.name.as_ref());
    Ok(Observed { adapter, graph: graph.as_deref().map(Packed::unpack).transpose()?, preceded_by })
}

impl Caches {
    /// The adapter that scales a component.
    fn in_charge(&self, component: &Named) -> Option<Key> {
        let (Named::Component(graph, _) | Named::Graph(graph)) = component;
        let uid = self.graphs.get(graph).and_then(|graph| graph.metadata.uid.clone());
        let rivals = self.by_target.get(component).into_iter().filter_map(|key| self.adapters.get(&key));
        let rivals: Vec<ObjectMeta> = rivals.map(|rival| rival.metadata.clone()).collect();
        first_of(&rivals, uid.as_deref()).map(|name| Key::new(&graph.namespace, name))
    }

    /// The adapter that scales the component of an adapter that changed or is gone: it may be in charge only now.
    pub fn successors_of(&self, changed: &Packed<Adapter>) -> Vec<Key> {
        let components = named_by(changed).into_iter().filter(|named| matches!(named, Named::Component(..)));
        components.filter_map(|component| self.in_charge(&component)).filter(|key| *key != Key::of(changed)).collect()
    }

    /// The adapters that a graph concerns: its own, and those of its namespace that name it and are nobody's.
    pub fn adapters_of(&self, graph: &Packed<DynamoGraphDeployment>) -> Vec<Key> {
        let uid = graph.metadata.uid.as_deref().unwrap_or_default();
        let own = self.adapters.children_of(uid).into_iter().map(|adapter| Key::of(adapter.as_ref()));
        let naming = self.by_target.get(&Named::Graph(Key::of(graph))).into_iter();
        let is_nobodys = |key: &Key| self.adapters.get(key).is_some_and(|a| controller_owner(a.as_ref()).is_none());
        own.chain(naming.filter(is_nobodys)).collect()
    }
}

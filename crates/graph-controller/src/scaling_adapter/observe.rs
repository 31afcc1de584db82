//! Reads an adapter and its graph from the caches.

use std::time::Duration;

use api_types::{
    conversion::preserved::add_implied_adapters,
    v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter as Adapter},
};
use controller_kit::store::{Index, Key, Packed, Store, UnpackError, controller_owner, keep::controller_of};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::model::ScalingAdapterObserved;

/// References of adapters: a graph, and a component of one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Named {
    /// A graph.
    Graph(Key),
    /// A component of a graph.
    Component(Key, String),
}

/// Returns the references of an adapter, for the index of adapters. An adapter that cannot be read has none.
pub fn named_by(packed: &Packed<Adapter>) -> Vec<Named> {
    let Ok(adapter) = packed.unpack() else { return Vec::new() };
    let graph = graph_of(&adapter);
    vec![Named::Graph(graph.clone()), Named::Component(graph, adapter.spec.dgd_ref.component_name)]
}

/// The caches of this controller.
#[derive(Clone)]
pub struct ScalingAdapterCaches {
    /// Graphs.
    pub graphs: Store<Packed<DynamoGraphDeployment>>,
    /// Adapters.
    pub adapters: Store<Packed<Adapter>>,
    /// Adapters by what they name.
    pub by_target: Index<Named>,
}

/// Reads an adapter and its graph. `pause` is how long a component of a graph must not be scaled yet.
///
/// # Errors
/// The graph has a form that this version cannot read.
pub(super) fn observe(
    caches: &ScalingAdapterCaches,
    pause: impl FnOnce(&Key, &str) -> Option<Duration>,
    adapter: Adapter,
) -> Result<ScalingAdapterObserved, UnpackError> {
    let key = graph_of(&adapter);
    let component = adapter.spec.dgd_ref.component_name.clone();
    let graph = caches.graphs.get(&key).filter(|graph| graph.metadata.deletion_timestamp.is_none());
    let pause = pause(&key, &component);
    let first = caches.in_charge(&Named::Component(key, component));
    let preceded_by = first.map(|first| first.name).filter(|name| Some(name) != adapter.metadata.name.as_ref());
    let mut graph = graph.as_deref().map(Packed::unpack).transpose()?;
    graph.iter_mut().for_each(add_implied_adapters);
    Ok(ScalingAdapterObserved { adapter, graph, preceded_by, pause })
}

/// The graph that an adapter names.
pub(super) fn graph_of(adapter: &Adapter) -> Key {
    Key::new(adapter.metadata.namespace.as_deref().unwrap_or_default(), &adapter.spec.dgd_ref.name)
}

/// The name of the adapter that scales a component, of all that name it: the one that the graph of this uid owns, else
/// the oldest, else the first by name.
pub fn first_of<'a>(adapters: &'a [ObjectMeta], graph: Option<&str>) -> Option<&'a str> {
    let is_owned = |adapter: &ObjectMeta| controller_of(adapter).is_some_and(|owner| Some(&*owner.uid) == graph);
    let alive = adapters.iter().filter(|adapter| adapter.deletion_timestamp.is_none());
    let first = alive.min_by_key(|adapter| (!is_owned(adapter), &adapter.creation_timestamp, &adapter.name));
    first.and_then(|first| first.name.as_deref())
}

impl ScalingAdapterCaches {
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

    /// The adapters that a graph concerns: its own, and those of its namespace that name it and have no owner.
    pub fn adapters_of(&self, graph: &Packed<DynamoGraphDeployment>) -> Vec<Key> {
        let uid = graph.metadata.uid.as_deref().unwrap_or_default();
        let own = self.adapters.children_of(uid).into_iter().map(|adapter| Key::of(adapter.as_ref()));
        let naming = self.by_target.get(&Named::Graph(Key::of(graph))).into_iter();
        let has_no_owner = |key: &Key| self.adapters.get(key).is_some_and(|a| controller_owner(a.as_ref()).is_none());
        own.chain(naming.filter(has_no_owner)).collect()
    }
}

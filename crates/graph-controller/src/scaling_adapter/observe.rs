//! An adapter and its graph, read from the caches.

use std::sync::Arc;

use api_types::v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter as Adapter};
use controller_kit::store::{Key, Packed, Store, UnpackError, controller_owner};

/// The caches of this controller.
#[derive(Clone)]
pub struct Caches {
    /// Graphs.
    pub graphs: Store<Packed<DynamoGraphDeployment>>,
    /// Adapters.
    pub adapters: Store<Packed<Adapter>>,
}

/// An adapter and its graph, at one moment.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The adapter.
    pub adapter: Adapter,
    /// The graph that it names; none if there is none, or if it is on its way out.
    pub graph: Option<DynamoGraphDeployment>,
}

/// Reads an adapter and its graph.
///
/// # Errors
/// One of them has a form that this version does not know.
pub fn observe(caches: &Caches, packed: &Packed<Adapter>) -> Result<Observed, UnpackError> {
    let adapter = packed.unpack()?;
    let namespace = adapter.metadata.namespace.clone().unwrap_or_default();
    let graph = caches.graphs.get(&Key::new(&namespace, &adapter.spec.dgd_ref.name));
    let graph = graph.filter(|graph| graph.metadata.deletion_timestamp.is_none());
    Ok(Observed { adapter, graph: graph.as_deref().map(Packed::unpack).transpose()? })
}

/// The adapters that a graph concerns: its own, and those of its namespace that name it and are nobody's.
pub fn adapters_of(adapters: &Store<Packed<Adapter>>, graph: &Packed<DynamoGraphDeployment>) -> Vec<Key> {
    let names_it = |adapter: &Arc<Packed<Adapter>>| {
        adapter.metadata.namespace == graph.metadata.namespace
            && match controller_owner(adapter.as_ref()) {
                Some(owner) => Some(&owner.uid) == graph.metadata.uid.as_ref(),
                None => adapter.unpack().is_ok_and(|a| Some(&a.spec.dgd_ref.name) == graph.metadata.name.as_ref()),
            }
    };
    adapters.all().iter().filter(|adapter| names_it(adapter)).map(|adapter| Key::of(adapter.as_ref())).collect()
}

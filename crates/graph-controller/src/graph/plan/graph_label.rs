//! Labels objects of a graph that carry no label of the upstream operator. Pure.

use api_types::{labels, names};
use kube::Resource;

use crate::graph::model::ValidGraph;

/// Adds the label by which the object is watched.
pub(super) fn add_graph_label<K: Resource>(object: &mut K, graph: &ValidGraph<'_>) {
    let labels = object.meta_mut().labels.get_or_insert_default();
    labels.insert(labels::OWN_GRAPH.to_owned(), names::label_value(&graph.name));
}

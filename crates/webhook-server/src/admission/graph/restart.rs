//! Requests to restart a graph.

use std::collections::BTreeSet;

use super::super::{
    field::{Findings, Node},
    view::Component,
};

pub(super) fn check(restart: &Node<'_>, components: &[Component<'_>], out: &mut Findings) {
    let order = restart.fields(&["strategy", "order"]);
    if !order.has_entries() {
        return;
    }
    let names: BTreeSet<&str> = components.iter().map(Component::name).collect();
    let items: Vec<Node<'_>> = order.items().collect();
    let unique: BTreeSet<&str> = items.iter().map(Node::text).collect();
    if unique.len() != items.len() {
        out.invalid(&order, "names a component twice; name each once");
    }
    if unique.len() != names.len() {
        let detail =
            format!("names {} of {} components; name all of them, or leave the order out", unique.len(), names.len());
        out.invalid(&order, detail);
    }
    let known: Vec<&str> = names.iter().copied().collect();
    for item in items.iter().filter(|item| !names.contains(item.text())) {
        out.not_supported(item, &known, "");
    }
}

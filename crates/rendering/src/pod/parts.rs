//! Parts of pods in lists that may be absent.

use k8s_openapi::api::core::v1::{Container, PodSpec};

/// Appends an item, unless there is the `same` already.
pub(crate) fn add<T>(list: &mut Option<Vec<T>>, item: T, same: impl Fn(&T) -> bool) {
    let items = list.get_or_insert_default();
    if !items.iter().any(same) {
        items.push(item);
    }
}

/// Replaces the item that is the `same`, or appends it.
pub(super) fn put<T>(list: &mut Option<Vec<T>>, item: T, same: impl Fn(&T) -> bool) {
    let items = list.get_or_insert_default();
    match items.iter_mut().find(|other| same(other)) {
        Some(other) => *other = item,
        None => items.push(item),
    }
}

/// The pod's container of that name.
pub(crate) fn find<'a>(pod: &'a mut PodSpec, name: &str) -> Option<&'a mut Container> {
    pod.containers.iter_mut().find(|container| container.name == name)
}

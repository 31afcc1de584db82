//! What only v1beta1 can say about the mounts of the main container, and how it is put back.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::{MAIN, live_container};
use crate::conversion::{
    lens::{Edit, in_groups},
    value::{Object, fill, list, object},
};

/// Key of a mount: name and path.
type Key<'a> = (Option<&'a Value>, Option<&'a Value>);

fn key(mount: &Value) -> Key<'_> {
    (mount.get("name"), mount.get("mountPath"))
}

/// First index of each mount in a list.
fn ranks(mounts: &[Value]) -> HashMap<Key<'_>, usize> {
    let mut ranks = HashMap::with_capacity(mounts.len());
    for (rank, mount) in mounts.iter().enumerate() {
        ranks.entry(key(mount)).or_insert(rank);
    }
    ranks
}

/// The mounts: by key where v1alpha1 has the rest, whole where it has not.
pub(super) fn sparse_mounts(mounts: &[Value], projected: &[Value]) -> Vec<Value> {
    let projected: HashSet<&Value> = projected.iter().collect();
    let sparse = |mount: &Value| match projected.contains(mount) {
        true => json!({ "name": mount.get("name"), "mountPath": mount.get("mountPath") }),
        false => mount.clone(),
    };
    mounts.iter().map(sparse).collect()
}

/// The mount that v1alpha1 makes for the compilation cache.
pub(super) fn cache_mount(beta: &Object) -> Option<Value> {
    let cache = object(beta, "compilationCache")?;
    let path = cache.get("mountPath").cloned().unwrap_or_else(|| json!(""));
    Some(json!({ "name": cache.get("pvcName"), "mountPath": path }))
}

/// How the mounts of the saved main container are put back.
pub(super) fn mount_edits(main: &Object) -> Vec<Edit<'_>> {
    let saved = list(main, "volumeMounts");
    let mut edits: Vec<Edit<'_>> = vec![Box::new(move |beta| drop_generated_mount(beta, saved))];
    edits.push(Box::new(move |beta| put_mounts_in_order(beta, saved)));
    let says_more = |mount: &&Value| mount.as_object().is_some_and(|fields| fields.len() > 2);
    let groups = in_groups(saved.iter().filter(says_more).collect());
    edits.extend(groups.map(|group| Box::new(move |beta: &mut Object| fill_mounts(beta, &group)) as Edit<'_>));
    edits
}

fn drop_generated_mount(beta: &mut Object, saved: &[Value]) {
    let Some(cache) = cache_mount(beta).filter(|cache| !saved.iter().any(|mount| key(mount) == key(cache))) else {
        return;
    };
    let Some(main) = live_container(beta, MAIN) else { return };
    if let Some(Value::Array(mounts)) = main.get_mut("volumeMounts") {
        mounts.retain(|mount| *mount != cache);
        if mounts.is_empty() {
            main.remove("volumeMounts");
        }
    }
}

fn live_mounts(beta: &mut Object) -> Option<&mut Vec<Value>> {
    live_container(beta, MAIN)?.get_mut("volumeMounts")?.as_array_mut()
}

/// Adds what v1alpha1 does not know to the mounts of the same name and place, or to the only one of the name.
fn fill_mounts(beta: &mut Object, saved: &[&Value]) {
    let Some(live) = live_mounts(beta) else { return };
    let exact = ranks(live);
    let mut only: HashMap<Option<&Value>, Option<usize>> = HashMap::new();
    for (place, mount) in live.iter().enumerate() {
        only.entry(mount.get("name")).and_modify(|only| *only = None).or_insert(Some(place));
    }
    let place = |mount: &Value| exact.get(&key(mount)).copied().or(only.get(&mount.get("name")).copied().flatten());
    let places: Vec<Option<usize>> = saved.iter().map(|mount| place(mount)).collect();
    for (place, saved) in places.into_iter().zip(saved) {
        let live = place.and_then(|place| live.get_mut(place)).and_then(Value::as_object_mut);
        if let (Some(live), Some(saved)) = (live, saved.as_object()) {
            fill(live, saved);
        }
    }
}

/// v1alpha1 puts the mount of the compilation cache first.
fn put_mounts_in_order(beta: &mut Object, order: &[Value]) {
    let Some(mounts) = live_mounts(beta) else { return };
    let ranks = ranks(order);
    let rank = |mount: &Value| ranks.get(&key(mount)).copied();
    if mounts.len() == order.len() && mounts.iter().all(|mount| rank(mount).is_some()) {
        mounts.sort_by_key(rank);
    }
}

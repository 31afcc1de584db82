//! Storage and restoration of data about a component and the mounts of its main container that only v1beta1 can
//! express.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::{MAIN, Name, SIDECAR, live_containers};
use crate::conversion::{
    component::live_container,
    lens::{RestoreEdit, in_groups},
    value::{Object, at, copy, fill, insert_filled, is_empty, list, name_of, named, object, places, put, text},
};

/// Returns the data that `rebuilt` lacks to equal `original`.
pub(super) fn save(original: &Object, rebuilt: &Object) -> Object {
    let mut saved = Object::new();
    copy(original, &mut saved, &["name"]);
    for key in ["frontendSidecar", "type"] {
        if original.get(key) != rebuilt.get(key) {
            copy(original, &mut saved, &[key]);
        }
    }
    match (object(original, "experimental"), object(rebuilt, "experimental")) {
        (Some(experimental), None) => put(&mut saved, &["experimental"], Some(json!(experimental))),
        (Some(experimental), Some(_)) => {
            put(&mut saved, &["experimental", "grove"], experimental.get("grove").cloned());
        }
        _ => {}
    }
    if let Some(template) = object(original, "podTemplate")
        && original.get("podTemplate") != rebuilt.get("podTemplate")
    {
        let sparse = sparse_template(template, object(rebuilt, "podTemplate"));
        saved.insert("podTemplate".to_owned(), Value::Object(sparse));
    }
    saved
}

fn sparse_template(original: &Object, rebuilt: Option<&Object>) -> Object {
    let mut sparse = Object::new();
    let mut metadata = object(original, "metadata").cloned().unwrap_or_default();
    metadata.retain(|key, _| key != "labels" && key != "annotations");
    insert_filled(&mut sparse, "metadata", metadata);
    let containers = sparse_containers(containers_of(original), rebuilt.map_or(&[], containers_of));
    if !containers.is_empty() {
        sparse.insert("spec".to_owned(), json!({ "containers": containers }));
    }
    sparse
}

fn containers_of(template: &Object) -> &[Value] {
    object(template, "spec").map_or(&[], |spec| list(spec, "containers"))
}

/// The containers of which something would be lost, by name; all of them if their order would be lost.
fn sparse_containers(original: &[Value], rebuilt: &[Value]) -> Vec<Value> {
    let names = |containers: &[Value]| -> Vec<String> {
        containers.iter().filter_map(name_of).map(ToOwned::to_owned).collect()
    };
    let before = names(original);
    let mut after = names(rebuilt);
    if named(original, MAIN).is_none() {
        after.retain(|name| name != MAIN);
    }
    let reordered = before != after;
    let rebuilt_at = places(rebuilt);
    let sparse = |container: &Value| {
        let (name, fields) = (name_of(container)?, container.as_object()?);
        let rebuilt = rebuilt_at.get(name).and_then(|place| rebuilt.get(*place)).and_then(Value::as_object);
        let entry = sparse_container(name, fields, rebuilt);
        let says_more = entry.len() > 1 || (name == MAIN && main_needs_key(fields, rebuilt));
        (reordered || says_more).then_some(Value::Object(entry))
    };
    original.iter().filter_map(sparse).collect()
}

fn sparse_container(name: &str, original: &Object, rebuilt: Option<&Object>) -> Object {
    let mut entry = Object::from_iter([("name".to_owned(), json!(name))]);
    match rebuilt {
        Some(rebuilt) if name == MAIN => {
            let (mounts, projected) = (list(original, "volumeMounts"), list(rebuilt, "volumeMounts"));
            if !mounts.is_empty() && mounts != projected {
                entry.insert("volumeMounts".to_owned(), Value::Array(sparse_mounts(mounts, projected)));
            }
        }
        Some(rebuilt) if rebuilt == original => {}
        _ => entry = original.clone(),
    }
    entry
}

/// Whether the main container has to be named because its absence would be understood as something.
fn main_needs_key(original: &Object, rebuilt: Option<&Object>) -> bool {
    let mounts = |container: &Object| list(container, "volumeMounts").len();
    original.len() == 1 || rebuilt.is_some_and(|rebuilt| mounts(rebuilt) > mounts(original))
}

/// Returns the edits that restore saved data.
pub(super) fn edits<'a>(name: Name<'a>, saved: &'a Object) -> Vec<RestoreEdit<'a>> {
    let mut edits: Vec<RestoreEdit<'a>> = Vec::new();
    if let (Name::Object(Some(object)), None) = (name, text(saved, "name")) {
        edits.push(Box::new(move |beta| {
            if text(beta, "name") == Some(object) {
                beta.remove("name");
            }
        }));
    }
    for key in ["frontendSidecar", "type"] {
        if let Some(value) = saved.get(key) {
            edits.push(Box::new(move |beta| put(beta, &[key], Some(value.clone()))));
        }
    }
    if let Some(experimental) = object(saved, "experimental") {
        edits.push(Box::new(move |beta| fill_object(beta, "experimental", experimental)));
    }
    if let Some(template) = object(saved, "podTemplate") {
        edits.extend(template_edits(template));
    }
    edits
}

fn fill_object(beta: &mut Object, key: &str, fields: &Object) {
    if let Value::Object(into) = beta.entry(key).or_insert_with(|| json!({})) {
        fill(into, fields);
    }
}

fn template_edits(saved: &Object) -> Vec<RestoreEdit<'_>> {
    let containers = containers_of(saved);
    let mut edits: Vec<RestoreEdit<'_>> = Vec::new();
    edits.push(Box::new(move |beta| {
        beta.entry("podTemplate").or_insert_with(|| Value::Object(saved.clone()));
    }));
    if let Some(metadata) = object(saved, "metadata") {
        edits.push(Box::new(move |beta| {
            if let Some(Value::Object(template)) = beta.get_mut("podTemplate") {
                fill_object(template, "metadata", metadata);
            }
        }));
    }
    if named(containers, MAIN).is_none() {
        edits.push(Box::new(drop_generated_main));
    }
    let mains = containers.iter().filter_map(Value::as_object).filter(|fields| text(fields, "name") == Some(MAIN));
    edits.extend(mains.flat_map(mount_edits));
    edits.extend(container_edits(containers));
    let order: Vec<&str> = containers.iter().filter_map(name_of).collect();
    if order.len() > 1 {
        edits.push(Box::new(move |beta| put_in_order(beta, &order)));
    }
    edits
}

/// v1alpha1 always makes a main container; one that says nothing was not there before.
fn drop_generated_main(beta: &mut Object) {
    let cache = mount_of_cache(beta);
    let says_nothing = |container: &Value| {
        container.as_object().is_some_and(|fields| {
            fields.iter().all(|(key, value)| match key.as_str() {
                "name" => value == MAIN,
                "volumeMounts" => {
                    cache.is_some() && value.as_array().is_some_and(|m| m.iter().all(|m| Some(m) == cache.as_ref()))
                }
                _ => false,
            })
        })
    };
    let Some(containers) = live_containers(beta) else { return };
    containers.retain(|container| !says_nothing(container));
    if containers.is_empty() {
        put(beta, &["podTemplate", "spec", "containers"], None);
        if at(beta, &["podTemplate", "spec"]).is_some_and(is_empty) {
            put(beta, &["podTemplate", "spec"], None);
        }
    }
}

/// The containers that v1alpha1 lacks, and the fields of others that it lacks: one edit for each
/// container, one for all if they are many.
fn container_edits(saved: &[Value]) -> Vec<RestoreEdit<'_>> {
    let says_more =
        |container: &&Object| container.len() > 1 && text(container, "name").is_some_and(|name| name != MAIN);
    let saved: Vec<&Object> = saved.iter().filter_map(Value::as_object).filter(says_more).collect();
    in_groups(saved)
        .map(|group| Box::new(move |beta: &mut Object| put_containers(beta, &group)) as RestoreEdit<'_>)
        .collect()
}

fn put_containers(beta: &mut Object, saved: &[&Object]) {
    let Some(live) = live_containers(beta) else { return };
    let mut known: HashMap<String, usize> =
        places(live).into_iter().map(|(name, place)| (name.to_owned(), place)).collect();
    for saved in saved {
        let Some(name) = text(saved, "name") else { continue };
        let place = known.get(name).copied();
        match place.and_then(|place| live.get_mut(place)).and_then(Value::as_object_mut) {
            Some(container) => fill(container, saved),
            None if name != SIDECAR => {
                known.entry(name.to_owned()).or_insert(live.len());
                live.push(Value::Object((*saved).clone()));
            }
            None => {}
        }
    }
}

fn put_in_order(beta: &mut Object, order: &[&str]) {
    let Some(containers) = live_containers(beta) else { return };
    // From the last to the first, so that the first stays.
    let ranks: HashMap<&str, usize> = order.iter().enumerate().rev().map(|(rank, name)| (*name, rank)).collect();
    let rank = |container: &Value| name_of(container).and_then(|name| ranks.get(name)).copied();
    if containers.len() == order.len() && containers.iter().all(|container| rank(container).is_some()) {
        containers.sort_by_key(rank);
    }
}

/// Key of a mount: name and path.
type MountKey<'a> = (Option<&'a Value>, Option<&'a Value>);

fn key(mount: &Value) -> MountKey<'_> {
    (mount.get("name"), mount.get("mountPath"))
}

/// First index of each mount in a list.
fn ranks(mounts: &[Value]) -> HashMap<MountKey<'_>, usize> {
    // From the last to the first, so that the first stays.
    mounts.iter().enumerate().rev().map(|(rank, mount)| (key(mount), rank)).collect()
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
pub(super) fn mount_of_cache(beta: &Object) -> Option<Value> {
    let cache = object(beta, "compilationCache")?;
    let path = cache.get("mountPath").cloned().unwrap_or_else(|| json!(""));
    Some(json!({ "name": cache.get("pvcName"), "mountPath": path }))
}

/// Returns the edits that restore the mounts of the saved main container.
pub(super) fn mount_edits(main: &Object) -> Vec<RestoreEdit<'_>> {
    let saved = list(main, "volumeMounts");
    let mut edits: Vec<RestoreEdit<'_>> = vec![Box::new(move |beta| drop_generated_mount(beta, saved))];
    edits.push(Box::new(move |beta| put_mounts_in_order(beta, saved)));
    let says_more = |mount: &&Value| mount.as_object().is_some_and(|fields| fields.len() > 2);
    let groups = in_groups(saved.iter().filter(says_more).collect());
    edits.extend(groups.map(|group| Box::new(move |beta: &mut Object| fill_mounts(beta, &group)) as RestoreEdit<'_>));
    edits
}

fn drop_generated_mount(beta: &mut Object, saved: &[Value]) {
    let Some(cache) = mount_of_cache(beta).filter(|cache| !saved.iter().any(|mount| key(mount) == key(cache))) else {
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

/// Adds what v1alpha1 lacks to the mounts of the same name and place, or to the only one of the name.
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

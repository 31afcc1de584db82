//! What only v1beta1 can say about a component, and how it is put back.

use super::{MAIN, Name, SIDECAR};
use crate::conversion::lens::Edit;
use crate::conversion::value::{Object, at, copy, is_empty, list, name_of, named, object, put, text};
use serde_json::{Value, json};

/// What `rebuilt` lacks to be `original`.
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
            if let Some(grove) = experimental.get("grove") {
                put(&mut saved, &["experimental", "grove"], Some(grove.clone()));
            }
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
    if !metadata.is_empty() {
        sparse.insert("metadata".to_owned(), Value::Object(metadata));
    }
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
    let sparse = |container: &Value| {
        let (name, fields) = (name_of(container)?, container.as_object()?);
        let entry = sparse_container(name, fields, named(rebuilt, name));
        let says_more = entry.len() > 1 || (name == MAIN && main_needs_key(fields, named(rebuilt, MAIN)));
        (before != after || says_more).then_some(Value::Object(entry))
    };
    original.iter().filter_map(sparse).collect()
}

fn sparse_container(name: &str, original: &Object, rebuilt: Option<&Object>) -> Object {
    let mut entry = Object::from_iter([("name".to_owned(), json!(name))]);
    match rebuilt {
        Some(rebuilt) if name == MAIN => {
            let (mounts, projected) = (list(original, "volumeMounts"), list(rebuilt, "volumeMounts"));
            if !mounts.is_empty() && mounts != projected {
                let mounts: Vec<Value> = mounts.iter().map(|mount| sparse_mount(mount, projected)).collect();
                entry.insert("volumeMounts".to_owned(), Value::Array(mounts));
            }
        }
        Some(rebuilt) if rebuilt == original => {}
        _ => entry = original.clone(),
    }
    entry
}

fn sparse_mount(mount: &Value, projected: &[Value]) -> Value {
    match projected.contains(mount) {
        true => json!({ "name": mount.get("name"), "mountPath": mount.get("mountPath") }),
        false => mount.clone(),
    }
}

/// Whether the main container has to be named because its absence would be understood as something.
fn main_needs_key(original: &Object, rebuilt: Option<&Object>) -> bool {
    let mounts = |container: &Object| list(container, "volumeMounts").len();
    original.len() == 1 || rebuilt.is_some_and(|rebuilt| mounts(rebuilt) > mounts(original))
}

/// How saved data is put back.
pub(super) fn edits<'a>(name: Name<'a>, saved: &'a Object) -> Vec<Edit<'a>> {
    let mut edits: Vec<Edit<'a>> = Vec::new();
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
        for (key, value) in fields {
            into.entry(key).or_insert_with(|| value.clone());
        }
    }
}

fn template_edits(saved: &Object) -> Vec<Edit<'_>> {
    let containers = containers_of(saved);
    let mut edits: Vec<Edit<'_>> = Vec::new();
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
    for container in containers.iter().filter_map(Value::as_object) {
        match text(container, "name") {
            Some(MAIN) => edits.extend(mount_edits(container)),
            Some(name) if container.len() > 1 => edits.push(container_edit(name, container)),
            _ => {}
        }
    }
    let order: Vec<&str> = containers.iter().filter_map(name_of).collect();
    if order.len() > 1 {
        edits.push(Box::new(move |beta| put_in_order(beta, &order)));
    }
    edits
}

fn live_containers(beta: &mut Object) -> Option<&mut Vec<Value>> {
    beta.get_mut("podTemplate")?.get_mut("spec")?.get_mut("containers")?.as_array_mut()
}

fn live_container<'a>(beta: &'a mut Object, name: &str) -> Option<&'a mut Object> {
    let containers = live_containers(beta)?.iter_mut();
    containers.into_iter().find(|container| name_of(container) == Some(name))?.as_object_mut()
}

/// v1alpha1 always makes a main container; one that says nothing was not there before.
fn drop_generated_main(beta: &mut Object) {
    let cache = cache_mount(beta);
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

/// The mount that v1alpha1 makes for the compilation cache.
fn cache_mount(beta: &Object) -> Option<Value> {
    let cache = object(beta, "compilationCache")?;
    let path = cache.get("mountPath").cloned().unwrap_or_else(|| json!(""));
    Some(json!({ "name": cache.get("pvcName"), "mountPath": path }))
}

/// A container that v1alpha1 does not know, or the fields of it that v1alpha1 does not know.
fn container_edit<'a>(name: &'a str, saved: &'a Object) -> Edit<'a> {
    Box::new(move |beta| {
        if let Some(container) = live_container(beta, name) {
            for (key, value) in saved {
                container.entry(key).or_insert_with(|| value.clone());
            }
        } else if name != SIDECAR
            && let Some(containers) = live_containers(beta)
        {
            containers.push(Value::Object(saved.clone()));
        }
    })
}

fn same_mount(a: &Value, b: &Value) -> bool {
    a.get("name") == b.get("name") && a.get("mountPath") == b.get("mountPath")
}

fn mount_edits(main: &Object) -> Vec<Edit<'_>> {
    let saved = list(main, "volumeMounts");
    let mut edits: Vec<Edit<'_>> = vec![Box::new(move |beta| {
        let Some(cache) = cache_mount(beta).filter(|cache| !saved.iter().any(|mount| same_mount(mount, cache))) else {
            return;
        };
        let Some(main) = live_container(beta, MAIN) else { return };
        if let Some(Value::Array(mounts)) = main.get_mut("volumeMounts") {
            mounts.retain(|mount| *mount != cache);
            if mounts.is_empty() {
                main.remove("volumeMounts");
            }
        }
    })];
    edits.push(Box::new(move |beta| put_mounts_in_order(beta, saved)));
    for mount in saved.iter().filter(|mount| mount.as_object().is_some_and(|fields| fields.len() > 2)) {
        edits.push(Box::new(move |beta| {
            let Some(Value::Array(live)) = live_container(beta, MAIN).and_then(|main| main.get_mut("volumeMounts"))
            else {
                return;
            };
            let exact = live.iter().position(|live| same_mount(live, mount));
            let mut namesakes = live.iter().enumerate().filter(|(_, live)| live.get("name") == mount.get("name"));
            let only = namesakes.next().map(|(index, _)| index).filter(|_| namesakes.next().is_none());
            if let (Some(index), Some(saved)) = (exact.or(only), mount.as_object())
                && let Some(Value::Object(live)) = live.get_mut(index)
            {
                for (key, value) in saved {
                    live.entry(key).or_insert_with(|| value.clone());
                }
            }
        }));
    }
    edits
}

/// v1alpha1 puts the mount of the compilation cache first.
fn put_mounts_in_order(beta: &mut Object, order: &[Value]) {
    if let Some(Value::Array(mounts)) = live_container(beta, MAIN).and_then(|main| main.get_mut("volumeMounts")) {
        let place = |mount: &Value| order.iter().position(|saved| same_mount(saved, mount));
        if mounts.len() == order.len() && mounts.iter().all(|mount| place(mount).is_some()) {
            mounts.sort_by_key(place);
        }
    }
}

fn put_in_order(beta: &mut Object, order: &[&str]) {
    if let Some(containers) = live_containers(beta) {
        let place = |container: &Value| order.iter().position(|name| name_of(container) == Some(*name));
        if containers.len() == order.len() && containers.iter().all(|container| place(container).is_some()) {
            containers.sort_by_key(place);
        }
    }
}

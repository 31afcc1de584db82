//! Storage and restoration of data about a component that only v1alpha1 can express.
//!
//! Of some lists v1alpha1 has two, one of its own and one of the main container, where v1beta1 has one. Saved data
//! holds the place of an item, and not its existence: an item that is gone from v1beta1 is gone from both lists, one
//! that was changed is changed where it is, and a new one goes into v1alpha1's own list.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::{Name, SIDECAR};
use crate::conversion::{
    component::main_container::{GPU, to_native},
    lens::RestoreEdit,
    value::{
        Object, at, fill, filled, is_empty, is_quantity, is_true, list, name_of, named, nanos, object, places, put,
        text,
    },
};

type KeyPath = &'static [&'static str];

/// Fields that depend on each other: they are saved and put back together.
const GROUPS: [&[KeyPath]; 26] = [
    &[&["annotations"]],
    &[&["labels"]],
    &[&["componentType"], &["subComponentType"]],
    &[&["subComponentType"]],
    &[&["dynamoNamespace"]],
    &[&["autoscaling"]],
    &[&["ingress"]],
    &[&["sharedMemory"]],
    &[&["scalingAdapter"]],
    &[&["gpuMemoryService"]],
    &[&["failover"]],
    &[&["checkpoint"]],
    &[&["extraPodMetadata"]],
    &[&["resources"], &["extraPodSpec", "mainContainer", "resources"]],
    &[&["envs"], &["extraPodSpec", "mainContainer", "env"]],
    &[&["envFromSecret"], &["extraPodSpec", "mainContainer", "envFrom"]],
    &[&["volumeMounts"], &["extraPodSpec", "mainContainer", "volumeMounts"]],
    &[&["livenessProbe"], &["extraPodSpec", "mainContainer", "livenessProbe"]],
    &[&["readinessProbe"], &["extraPodSpec", "mainContainer", "readinessProbe"]],
    &[&["extraPodSpec", "mainContainer", "name"]],
    &[&["serviceName"]],
    &[&["dynamoComponent"]],
    &[&["dynamoTag"]],
    &[&["pvc"]],
    &[&["runMode"]],
    &[&["externalServices"]],
];

/// Returns the function that restores the items of a group one by one; none if the group is one thing.
fn by_item(group: &[KeyPath]) -> Option<PlaceItems> {
    match **group.first()? {
        ["resources"] => Some(place_resources),
        ["envs"] => Some(place_env),
        ["volumeMounts"] => Some(place_mounts),
        ["livenessProbe"] => Some(|alpha, own, main| place_probe(alpha, "livenessProbe", own, main)),
        ["readinessProbe"] => Some(|alpha, own, main| place_probe(alpha, "readinessProbe", own, main)),
        _ => None,
    }
}

/// The saved value at `path`, if it says something and is of the type that the schema has there.
fn saved_at(saved: &Object, path: KeyPath) -> Option<&Value> {
    let value = at(saved, path).filter(|value| !is_empty(value))?;
    let fits = match *path {
        [
            "componentType" | "subComponentType" | "dynamoNamespace" | "envFromSecret" | "serviceName"
            | "dynamoComponent" | "dynamoTag",
        ]
        | [.., "name"] => value.is_string(),
        ["envs" | "volumeMounts"] | [.., "env" | "envFrom" | "volumeMounts"] => value.is_array(),
        _ => value.is_object(),
    };
    fits.then_some(value)
}

/// Whether the group is saved. The part of a type is not enough for the type.
fn is_saved(group: &[KeyPath], saved: &Object) -> bool {
    let places = if group.first() == Some(&(&["componentType"] as KeyPath)) { &group[..1] } else { group };
    places.iter().any(|path| saved_at(saved, path).is_some())
}

/// Returns the data that `rebuilt` lacks to equal `original`.
pub(super) fn save(name: Name<'_>, original: &Object, rebuilt: &Object) -> Object {
    let mut saved = Object::new();
    for group in GROUPS {
        if group.iter().any(|path| at(original, path) != at(rebuilt, path)) {
            for path in group {
                put(&mut saved, path, at(original, path).cloned());
            }
        }
    }
    if let (Name::Object(Some(object)), None) = (name, original.get("serviceName"))
        && text(rebuilt, "serviceName") == Some(object)
    {
        saved.insert("serviceName".to_owned(), Value::Null);
    }
    if let Some(sidecar) = original.get("frontendSidecar").filter(|_| !rebuilt.contains_key("frontendSidecar")) {
        saved.insert("frontendSidecar".to_owned(), sidecar.clone());
        let extra = object(original, "extraPodSpec");
        if let Some(container) = extra.and_then(|extra| named(list(extra, "containers"), SIDECAR)) {
            put(&mut saved, &["extraPodSpec", "containers"], Some(json!([container])));
        }
    }
    saved
}

/// Returns the edits that restore saved data.
pub(super) fn edits<'a>(name: Name<'a>, saved: &'a Object) -> Vec<RestoreEdit<'a>> {
    let mut edits: Vec<RestoreEdit<'a>> = Vec::new();
    for group in GROUPS.into_iter().filter(|group| is_saved(group, saved)) {
        let halves: Vec<_> = group.iter().map(|path| (*path, saved_at(saved, path))).collect();
        edits.push(Box::new(move |alpha| {
            match (by_item(group), halves.as_slice()) {
                (Some(place), [(own_path, own), (main_path, main)]) => {
                    let (own, main) = place(alpha, *own, *main);
                    put(alpha, own_path, filled(own));
                    put(alpha, main_path, filled(main));
                }
                _ => halves.iter().for_each(|(path, half)| put(alpha, path, half.cloned())),
            }
            tidy(alpha);
        }));
    }
    if let (Name::Object(Some(object)), Some(Value::Null)) = (name, saved.get("serviceName")) {
        edits.push(Box::new(move |alpha| {
            if text(alpha, "serviceName") == Some(object) {
                alpha.remove("serviceName");
            }
        }));
    }
    if let Some(sidecar) = object(saved, "frontendSidecar") {
        let extra = object(saved, "extraPodSpec");
        let stays = extra.is_some_and(|extra| named(list(extra, "containers"), SIDECAR).is_some());
        edits.push(Box::new(move |alpha| put_sidecar(alpha, sidecar, stays)));
    }
    edits
}

/// Makes the sidecar's container a `frontendSidecar` again, with what the container says now. If v1alpha1 had a
/// container of its own with that name, it stays.
fn put_sidecar(alpha: &mut Object, saved: &Object, stays: bool) {
    let mut sidecar = saved.clone();
    if let Some(Value::Array(containers)) = alpha.get_mut("extraPodSpec").and_then(|extra| extra.get_mut("containers"))
        && !stays
    {
        if let Some(container) = named(containers, SIDECAR) {
            read_sidecar(&mut sidecar, container);
        }
        containers.retain(|container| name_of(container) != Some(SIDECAR));
        if containers.is_empty() {
            put(alpha, &["extraPodSpec", "containers"], None);
        }
    }
    alpha.insert("frontendSidecar".to_owned(), Value::Object(sidecar));
    tidy(alpha);
}

fn read_sidecar(sidecar: &mut Object, container: &Object) {
    let secret = match list(container, "envFrom") {
        [only] => at_secret(only).cloned(),
        // Saying that there is no secret is not the same as saying nothing.
        _ => sidecar.get("envFromSecret").filter(|secret| is_empty(secret)).cloned(),
    };
    put(sidecar, &["envFromSecret"], secret);
    for (field, key) in [("image", "image"), ("args", "args"), ("envs", "env")] {
        match container.get(key) {
            Some(value) => put(sidecar, &[field], Some(value.clone())),
            None if sidecar.get(field).is_some_and(is_empty) => {}
            None => put(sidecar, &[field], None),
        }
    }
}

fn at_secret(source: &Value) -> Option<&Value> {
    source.get("secretRef")?.get("name")
}

/// Removes what became empty by taking things out of it.
fn tidy(alpha: &mut Object) {
    let empty = |value: Option<&Value>| value.and_then(Value::as_object).is_some_and(Object::is_empty);
    if empty(at(alpha, &["extraPodSpec", "mainContainer"])) {
        put(alpha, &["extraPodSpec", "mainContainer"], None);
    }
    if empty(alpha.get("extraPodSpec")) {
        alpha.remove("extraPodSpec");
    }
}

/// Function that returns the items of a projected v1alpha1 component at the places that the two saved lists specify:
/// those of its own list, and those of the main container.
type PlaceItems = fn(&Object, Option<&Value>, Option<&Value>) -> (Value, Value);

fn items(list: Option<&Value>) -> &[Value] {
    list.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn fields(half: Option<&Value>) -> Object {
    half.and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Variables, by name. One that both lists have is that of the main container.
fn place_env(alpha: &Object, own: Option<&Value>, main: Option<&Value>) -> (Value, Value) {
    let live = list(alpha, "envs");
    let (own, main) = (items(own), items(main));
    let (known, in_own, in_main) = (places(live), places(own), places(main));
    if [(&known, live.len()), (&in_own, own.len()), (&in_main, main.len())].iter().any(|(map, len)| map.len() != *len) {
        return (Value::from(own), Value::from(main));
    }
    let now = |item: &Value| Some(live.get(*known.get(name_of(item)?)?)?.clone());
    let has = |list: &HashMap<&str, usize>, item: &Value| name_of(item).is_some_and(|name| list.contains_key(name));
    let hidden = |item: &Value| has(&in_main, item).then(|| item.clone());
    let kept = own.iter().filter_map(|item| now(item).map(|now| hidden(item).unwrap_or(now)));
    let new = live.iter().filter(|item| !has(&in_own, item) && !has(&in_main, item)).cloned();
    (kept.chain(new).collect(), main.iter().filter_map(now).collect())
}

/// Mounts, by name and path.
fn place_mounts(alpha: &Object, own: Option<&Value>, main: Option<&Value>) -> (Value, Value) {
    type Key<'a> = (Option<&'a str>, Option<&'a str>, bool);
    fn key<'a>(mount: &'a Value, path: &str) -> Key<'a> {
        let cache = mount.as_object().is_some_and(|mount| is_true(mount, "useAsCompilationCache"));
        (name_of(mount), mount.as_object().and_then(|mount| text(mount, path)), cache)
    }
    let live = list(alpha, "volumeMounts");
    let there: HashSet<Key<'_>> = live.iter().map(|mount| key(mount, "mountPoint")).collect();
    // The mount of the compilation cache is one of the container, too.
    let is_there = |key: Key<'_>| there.contains(&key) || there.contains(&(key.0, key.1, true));
    let main: Vec<&Value> = items(main).iter().filter(|mount| is_there(key(mount, "mountPath"))).collect();
    let own: Vec<&Value> = items(own).iter().filter(|mount| there.contains(&key(mount, "mountPoint"))).collect();
    let known: HashSet<Key<'_>> = own.iter().map(|mount| key(mount, "mountPoint")).collect();
    let in_main: HashSet<Key<'_>> = main.iter().map(|mount| key(mount, "mountPath")).collect();
    let is_known = |key: Key<'_>| known.contains(&key) || in_main.contains(&key);
    let new = live.iter().filter(|mount| !is_known(key(mount, "mountPoint")));
    (own.into_iter().chain(new).cloned().collect(), main.into_iter().cloned().collect())
}

/// Resources, by side and name.
fn place_resources(alpha: &Object, own: Option<&Value>, main: Option<&Value>) -> (Value, Value) {
    let live = object(alpha, "resources").map(to_native).unwrap_or_default();
    let (mut own, mut main) = (fields(own), fields(main));
    for side in ["requests", "limits"] {
        let live = object(&live, side).cloned().unwrap_or_default();
        shrink(&mut main, side, |main| update(main, &live, |name| Some(name.to_owned())));
        let in_main = object(&main, side).cloned().unwrap_or_default();
        let mut item = object(&own, side).cloned().unwrap_or_default();
        let some = !item.is_empty();
        place_side(&mut item, &live, &in_main);
        if some || !item.is_empty() {
            put(&mut own, &[side], filled(item));
        }
    }
    let with_claims = if main.contains_key("claims") { &mut main } else { &mut own };
    put(with_claims, &["claims"], live.get("claims").cloned());
    (Value::Object(own), Value::Object(main))
}

/// Changes the object at `key`, and removes it if that takes the last out of it.
fn shrink(from: &mut Object, key: &str, change: impl FnOnce(&mut Object)) {
    let Some(Value::Object(part)) = from.get_mut(key) else { return };
    let had_some = !part.is_empty();
    change(part);
    if had_some && part.is_empty() {
        from.remove(key);
    }
}

/// The quantities as they are now, without those that are gone. `name` says what a key is called in v1beta1.
fn update(list: &mut Object, live: &Object, name: impl Fn(&str) -> Option<String>) {
    list.retain(|key, quantity| {
        let Some(name) = name(key) else { return true };
        let Some(now) = live.get(&name) else { return false };
        let same = quantity == now || nanos(quantity).is_some_and(|value| Some(value) == nanos(now));
        if !same {
            *quantity = now.clone();
        }
        true
    });
}

/// One side of v1alpha1's own resources. What the main container has, too, is hidden by it and stays as it was.
fn place_side(item: &mut Object, live: &Object, in_main: &Object) {
    let gpu = text(item, "gpuType").unwrap_or(GPU).to_owned();
    let called = |key: &str| match key {
        "cpu" | "memory" => Some(key.to_owned()),
        "gpu" => Some(gpu.clone()),
        _ => None,
    };
    let hidden: HashSet<String> = in_main.keys().filter(|name| live.contains_key(*name)).cloned().collect();
    let seen = |name: &str| !hidden.contains(name);
    let valid = |quantity: Option<&Value>| quantity.and_then(Value::as_str).is_some_and(is_quantity);
    let mut known = hidden.clone();
    known.extend(["cpu", "memory", "gpu"].into_iter().filter(|key| valid(item.get(*key))).filter_map(called));
    let own: HashSet<String> = item.iter().filter(|(_, q)| valid(Some(q))).map(|(key, _)| key.clone()).collect();
    update(item, live, |key| called(key).filter(|name| own.contains(key) && seen(name)));
    shrink(item, "custom", |custom| {
        let own: HashSet<String> = custom.iter().filter(|(_, q)| valid(Some(q))).map(|(key, _)| key.clone()).collect();
        known.extend(own.iter().cloned());
        update(custom, live, |name| (own.contains(name) && seen(name)).then(|| name.to_owned()));
    });
    for (name, quantity) in live.iter().filter(|(name, _)| !known.contains(*name)) {
        let quantity = Some(quantity.clone());
        match name.as_str() {
            "cpu" | "memory" => put(item, &[name], quantity),
            GPU if gpu == GPU => put(item, &["gpu"], quantity),
            _ => put(item, &["custom", name], quantity),
        }
    }
}

/// A probe, by field. A field that both probes have is that of the main container; the other one is hidden by it and
/// stays as it was.
fn place_probe(alpha: &Object, key: &str, own: Option<&Value>, main: Option<&Value>) -> (Value, Value) {
    let live = object(alpha, key).cloned().unwrap_or_default();
    let (mut own, mut main) = (fields(own), fields(main));
    // What is deeper in a field has no place of its own.
    let both: HashSet<String> = main.keys().filter(|field| own.contains_key(*field)).cloned().collect();
    for half in [&mut own, &mut main] {
        half.retain(|field, value| match live.get(field) {
            Some(now) if !both.contains(field) => {
                *value = now.clone();
                true
            }
            now => now.is_some(),
        });
    }
    fill(&mut own, &live.into_iter().filter(|(field, _)| !main.contains_key(field)).collect());
    (Value::Object(own), Value::Object(main))
}

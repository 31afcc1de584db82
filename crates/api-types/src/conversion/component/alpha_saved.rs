//! Storage and restoration of data about a component that only v1alpha1 can express.
//!
//! Of some lists v1alpha1 has two, one of its own and one of the main container, where v1beta1 has one. Saved data
//! holds the place of an item, and not its existence: an item that is gone from v1beta1 is gone from both lists, one
//! that was changed is changed where it is, and a new one goes into v1alpha1's own list.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Name, SIDECAR};
use crate::conversion::{
    component::main_container::{GPU, to_native},
    lens::Edit,
    value::{Object, at, is_empty, is_quantity, is_true, list, name_of, named, nanos, object, places, put, text},
};

type Path = &'static [&'static str];

/// Fields that depend on each other: they are saved and put back together.
const GROUPS: [&[Path]; 26] = [
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
fn by_item(group: &[Path]) -> Option<Place> {
    match **group.first()? {
        ["resources"] => Some(place_resources),
        ["envs"] => Some(place_env),
        ["volumeMounts"] => Some(place_mounts),
        ["livenessProbe"] => Some(place_liveness_probe),
        ["readinessProbe"] => Some(place_readiness_probe),
        _ => None,
    }
}

/// The saved value at `path`, if it says something and is of the type that the schema has there.
fn saved_at(saved: &Object, path: Path) -> Option<&Value> {
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
fn is_saved(group: &[Path], saved: &Object) -> bool {
    let needs_first = group.first() == Some(&(&["componentType"] as Path));
    let places = if needs_first { &group[..1] } else { group };
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
pub(super) fn edits<'a>(name: Name<'a>, saved: &'a Object) -> Vec<Edit<'a>> {
    let mut edits: Vec<Edit<'a>> = Vec::new();
    for group in GROUPS.into_iter().filter(|group| is_saved(group, saved)) {
        let halves: Vec<_> = group.iter().map(|path| (*path, saved_at(saved, path))).collect();
        edits.push(Box::new(move |alpha| {
            match (by_item(group), halves.as_slice()) {
                (Some(place), [(_, own), (_, main)]) => place(alpha, *own, *main),
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

/// Function that puts the items of a projected v1alpha1 component at the places that the two saved lists specify.
pub(super) type Place = fn(&mut Object, Option<&Value>, Option<&Value>);

fn items(list: Option<&Value>) -> &[Value] {
    list.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn filled(items: Vec<Value>) -> Option<Value> {
    (!items.is_empty()).then_some(Value::Array(items))
}

/// Variables, by name. One that both lists have is that of the main container.
pub(super) fn place_env(alpha: &mut Object, own: Option<&Value>, main: Option<&Value>) {
    const MAIN: [&str; 3] = ["extraPodSpec", "mainContainer", "env"];
    let live = items(alpha.get("envs")).to_vec();
    let (own, main) = (items(own), items(main));
    let (known, in_own, in_main) = (places(&live), places(own), places(main));
    if [(&known, live.len()), (&in_own, own.len()), (&in_main, main.len())].iter().any(|(map, len)| map.len() != *len) {
        put(alpha, &["envs"], filled(own.to_vec()));
        put(alpha, &MAIN, filled(main.to_vec()));
        return;
    }
    let now = |item: &Value| Some(live.get(*known.get(name_of(item)?)?)?.clone());
    let has = |list: &std::collections::HashMap<&str, usize>, item: &Value| {
        name_of(item).is_some_and(|name| list.contains_key(name))
    };
    let hidden = |item: &Value| has(&in_main, item).then(|| item.clone());
    let kept = own.iter().filter_map(|item| now(item).map(|now| hidden(item).unwrap_or(now)));
    let new = live.iter().filter(|item| !has(&in_own, item) && !has(&in_main, item)).cloned();
    let (own, main) = (kept.chain(new).collect(), main.iter().filter_map(now).collect());
    put(alpha, &["envs"], filled(own));
    put(alpha, &MAIN, filled(main));
}

/// Mounts, by name and path.
pub(super) fn place_mounts(alpha: &mut Object, own: Option<&Value>, main: Option<&Value>) {
    type Key<'a> = (Option<&'a str>, Option<&'a str>, bool);
    fn key<'a>(mount: &'a Value, path: &str) -> Key<'a> {
        let cache = mount.as_object().is_some_and(|mount| is_true(mount, "useAsCompilationCache"));
        (name_of(mount), mount.as_object().and_then(|mount| text(mount, path)), cache)
    }
    let live = items(alpha.get("volumeMounts")).to_vec();
    let there: HashSet<Key<'_>> = live.iter().map(|mount| key(mount, "mountPoint")).collect();
    // The mount of the compilation cache is one of the container, too.
    let is_there = |key: Key<'_>| there.contains(&key) || there.contains(&(key.0, key.1, true));
    let main: Vec<Value> = items(main).iter().filter(|mount| is_there(key(mount, "mountPath"))).cloned().collect();
    let own = items(own).iter().filter(|mount| there.contains(&key(mount, "mountPoint")));
    let mut own: Vec<Value> = own.cloned().collect();
    let known: HashSet<Key<'_>> = own.iter().map(|mount| key(mount, "mountPoint")).collect();
    let in_main: HashSet<Key<'_>> = main.iter().map(|mount| key(mount, "mountPath")).collect();
    let is_new = |mount: &&Value| {
        let key = key(mount, "mountPoint");
        !known.contains(&key) && !in_main.contains(&key)
    };
    let new: Vec<Value> = live.iter().filter(is_new).cloned().collect();
    drop((known, in_main));
    own.extend(new);
    put(alpha, &["volumeMounts"], filled(own));
    put(alpha, &["extraPodSpec", "mainContainer", "volumeMounts"], filled(main));
}

/// Resources, by side and name.
pub(super) fn place_resources(alpha: &mut Object, own: Option<&Value>, main: Option<&Value>) {
    let live = object(alpha, "resources").map(to_native).unwrap_or_default();
    let saved = |half: Option<&Value>| half.and_then(Value::as_object).cloned().unwrap_or_default();
    let (mut own, mut main) = (saved(own), saved(main));
    for side in ["requests", "limits"] {
        let live = object(&live, side).cloned().unwrap_or_default();
        let emptied = main.get_mut(side).and_then(Value::as_object_mut).is_some_and(|main| {
            let some = !main.is_empty();
            update(main, &live, |name| Some(name.to_owned()));
            some && main.is_empty()
        });
        if emptied {
            main.remove(side);
        }
        let in_main = object(&main, side).cloned().unwrap_or_default();
        let mut item = object(&own, side).cloned().unwrap_or_default();
        let some = !item.is_empty();
        place_side(&mut item, &live, &in_main);
        if some || !item.is_empty() {
            put(&mut own, &[side], (!item.is_empty()).then_some(Value::Object(item)));
        }
    }
    let claims = live.get("claims").cloned();
    if main.contains_key("claims") {
        put(&mut main, &["claims"], claims);
    } else {
        put(&mut own, &["claims"], claims);
    }
    let filled = |half: Object| (!half.is_empty()).then_some(Value::Object(half));
    put(alpha, &["resources"], filled(own));
    put(alpha, &["extraPodSpec", "mainContainer", "resources"], filled(main));
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
    let mut now = live.clone();
    let hidden: Object =
        in_main.keys().filter(|name| live.contains_key(*name)).map(|name| (name.clone(), Value::Null)).collect();
    let seen = |name: &str| !hidden.contains_key(name);
    let valid = |quantity: Option<&Value>| quantity.and_then(Value::as_str).is_some_and(is_quantity);
    let mut known: HashSet<String> = hidden.keys().cloned().collect();
    for key in ["cpu", "memory", "gpu"] {
        if let Some(name) = called(key).filter(|_| valid(item.get(key))) {
            known.insert(name);
        }
    }
    let own: HashSet<String> = item.iter().filter(|(_, q)| valid(Some(q))).map(|(key, _)| key.clone()).collect();
    update(item, live, |key| called(key).filter(|name| own.contains(key) && seen(name)));
    let emptied = item.get_mut("custom").and_then(Value::as_object_mut).is_some_and(|custom| {
        let some = !custom.is_empty();
        let own: HashSet<String> = custom.iter().filter(|(_, q)| valid(Some(q))).map(|(key, _)| key.clone()).collect();
        known.extend(own.iter().cloned());
        update(custom, live, |name| (own.contains(name) && seen(name)).then(|| name.to_owned()));
        some && custom.is_empty()
    });
    if emptied {
        item.remove("custom");
    }
    now.retain(|name, _| !known.contains(name));
    for (name, quantity) in now {
        match name.as_str() {
            "cpu" | "memory" => put(item, &[&name], Some(quantity)),
            GPU if gpu == GPU => put(item, &["gpu"], Some(quantity)),
            _ => put(item, &["custom", &name], Some(quantity)),
        }
    }
}

/// The liveness probe, by field.
pub(super) fn place_liveness_probe(alpha: &mut Object, own: Option<&Value>, main: Option<&Value>) {
    place_probe(alpha, "livenessProbe", own, main);
}

/// The readiness probe, by field.
pub(super) fn place_readiness_probe(alpha: &mut Object, own: Option<&Value>, main: Option<&Value>) {
    place_probe(alpha, "readinessProbe", own, main);
}

/// A field that both probes have is that of the main container; the other one is hidden by it and stays as it was.
fn place_probe(alpha: &mut Object, key: &str, own: Option<&Value>, main: Option<&Value>) {
    let live = object(alpha, key).cloned().unwrap_or_default();
    let saved = |half: Option<&Value>| half.and_then(Value::as_object).cloned().unwrap_or_default();
    let (mut own, mut main) = (saved(own), saved(main));
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
    let new = live.into_iter().filter(|(field, _)| !main.contains_key(field));
    let new: Object = new.filter(|(field, _)| !own.contains_key(field)).collect();
    own.extend(new);
    let filled = |half: Object| (!half.is_empty()).then_some(Value::Object(half));
    put(alpha, &[key], filled(own));
    put(alpha, &["extraPodSpec", "mainContainer", key], filled(main));
}

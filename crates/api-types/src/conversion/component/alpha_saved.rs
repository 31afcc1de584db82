//! What only v1alpha1 can say about a component, and how it is put back.

use serde_json::{Value, json};

use super::{
    Name, SIDECAR,
    alpha_items::{Place, place_env, place_liveness_probe, place_mounts, place_readiness_probe, place_resources},
};
use crate::conversion::{
    lens::Edit,
    value::{Object, at, is_empty, list, name_of, named, object, put, text},
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

/// How the items of a group are put back one by one; none if the group is one thing.
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

/// What `rebuilt` lacks to be `original`.
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

/// How saved data is put back.
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

//! How the pod template of v1beta1 and the many fields of v1alpha1 become each other, and how
//! `extraPodSpec.mainContainer` goes over the container that v1alpha1's own fields describe.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::{
    MAIN,
    resources::{from_native, to_native},
};
use crate::conversion::value::{Object, copy, insert_filled, is_empty, list, name_of, object, places, text};

/// The ways to ask a container; a probe has one.
const HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];

/// The container `main` of a v1alpha1 component.
pub(super) fn main_container(alpha: &Object, extra: Option<&Object>) -> Object {
    let mut main = dedicated(alpha);
    if let Some(extra) = extra {
        for (key, value) in extra {
            match key.as_str() {
                "name" => {}
                _ if value.is_null() => {}
                "env" => union_env(&mut main, value),
                "envFrom" if is_empty(value) => {}
                "resources" => merge_resources(&mut main, value),
                "volumeMounts" => union_mounts(&mut main, value),
                "livenessProbe" | "readinessProbe" => merge_probe(&mut main, key, value),
                _ => {
                    main.insert(key.clone(), value.clone());
                }
            }
        }
    }
    main.insert("name".to_owned(), json!(MAIN));
    main
}

/// What v1alpha1's own fields say about the container.
fn dedicated(alpha: &Object) -> Object {
    let mut main = Object::new();
    if let Some(resources) = object(alpha, "resources") {
        insert_filled(&mut main, "resources", to_native(resources));
    }
    let envs = list(alpha, "envs");
    if !envs.is_empty() {
        main.insert("env".to_owned(), Value::Array(envs.to_vec()));
    }
    if let Some(secret) = text(alpha, "envFromSecret") {
        main.insert("envFrom".to_owned(), json!([{ "secretRef": { "name": secret } }]));
    }
    for probe in ["livenessProbe", "readinessProbe"] {
        if object(alpha, probe).is_some() {
            copy(alpha, &mut main, &[probe]);
        }
    }
    let mounts: Vec<Value> = list(alpha, "volumeMounts").iter().filter_map(Value::as_object).map(mount).collect();
    if !mounts.is_empty() {
        main.insert("volumeMounts".to_owned(), Value::Array(mounts));
    }
    main
}

fn mount(flat: &Object) -> Value {
    let mount_path = flat.get("mountPoint").filter(|path| path.is_string()).cloned();
    json!({ "name": flat.get("name"), "mountPath": mount_path.unwrap_or_else(|| json!("")) })
}

/// Both lists as one; a variable of the later list takes the place of its namesake.
fn union_env(main: &mut Object, over: &Value) {
    let Some(over) = over.as_array() else { return };
    let mut env = match main.remove("env") {
        Some(Value::Array(env)) => env,
        _ => Vec::new(),
    };
    let mut known: HashMap<String, usize> =
        places(&env).into_iter().map(|(name, place)| (name.to_owned(), place)).collect();
    for variable in over {
        let name = name_of(variable);
        match name.and_then(|name| known.get(name)).and_then(|place| env.get_mut(*place)) {
            Some(namesake) => *namesake = variable.clone(),
            None => {
                known.extend(name.map(|name| (name.to_owned(), env.len())));
                env.push(variable.clone());
            }
        }
    }
    if !env.is_empty() {
        main.insert("env".to_owned(), Value::Array(env));
    }
}

/// Both lists as one, those of the main container first. A place has one mount: that of the main container.
fn union_mounts(main: &mut Object, first: &Value) {
    const MOUNTS: &str = "volumeMounts";
    let Some(first) = first.as_array() else { return };
    let place = |mount: &'_ Value| mount.get("mountPath").and_then(Value::as_str).map(ToOwned::to_owned);
    let taken: HashSet<String> = first.iter().filter_map(place).collect();
    let is_free = |mount: &&Value| place(mount).is_none_or(|place| !taken.contains(&place));
    let all: Vec<Value> = first.iter().chain(list(main, MOUNTS).iter().filter(is_free)).cloned().collect();
    if !all.is_empty() {
        main.insert(MOUNTS.to_owned(), Value::Array(all));
    }
}

fn merge_resources(main: &mut Object, over: &Value) {
    let Some(over) = over.as_object() else { return };
    let mut resources = object(main, "resources").cloned().unwrap_or_default();
    overlay(&mut resources, over);
    main.insert("resources".to_owned(), Value::Object(resources));
}

fn merge_probe(main: &mut Object, key: &str, over: &Value) {
    let Some(over) = over.as_object() else { return };
    let mut probe = object(main, key).cloned().unwrap_or_default();
    // A probe that asks in another way must not keep the way of the one below it.
    if HANDLERS.iter().any(|handler| over.contains_key(*handler) && !probe.contains_key(*handler)) {
        probe.retain(|key, _| !HANDLERS.contains(&key.as_str()));
    }
    overlay(&mut probe, over);
    main.insert(key.to_owned(), Value::Object(probe));
}

/// What is not empty replaces what is there; objects are overlaid field by field.
fn overlay(under: &mut Object, over: &Object) {
    for (key, value) in over {
        match (under.get_mut(key), value) {
            (Some(Value::Object(under)), Value::Object(over)) => overlay(under, over),
            (Some(_), value) if is_empty(value) => {}
            (_, Value::Null) => {}
            _ => {
                under.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Writes what the template says into a v1alpha1 component.
pub(super) fn take_apart(template: &Object, alpha: &mut Object) {
    if let Some(metadata) = object(template, "metadata") {
        let keys = ["annotations", "labels"];
        let fields = keys.iter().filter_map(|key| Some(((*key).to_owned(), metadata.get(*key)?.clone())));
        insert_filled(alpha, "extraPodMetadata", fields.filter(|(_, value)| !is_empty(value)).collect());
    }
    let Some(spec) = object(template, "spec") else { return };
    // Containers are as large as all the rest; they are copied once, to where they belong.
    let rest = spec.iter().filter(|(key, _)| *key != "containers");
    let mut extra: Object = rest.map(|(key, value)| (key.clone(), value.clone())).collect();
    let is_main = |container: &&Value| name_of(container) == Some(MAIN);
    let all = list(spec, "containers");
    let main = all.iter().find(is_main).and_then(Value::as_object);
    let first = all.iter().position(|container| is_main(&container));
    let others = all.iter().enumerate().filter(|(index, _)| Some(*index) != first);
    let others: Vec<Value> = others.map(|(_, container)| container.clone()).collect();
    if !others.is_empty() {
        extra.insert("containers".to_owned(), Value::Array(others));
    }
    if let Some(main) = main {
        let mut rest = main.clone();
        take_dedicated(&mut rest, alpha);
        rest.remove("name");
        insert_filled(&mut extra, "mainContainer", rest);
    }
    insert_filled(alpha, "extraPodSpec", extra);
}

/// Moves what v1alpha1 has own fields for out of the main container.
fn take_dedicated(main: &mut Object, alpha: &mut Object) {
    let resources = object(main, "resources").map(from_native).unwrap_or_default();
    if !resources.is_empty() {
        alpha.insert("resources".to_owned(), Value::Object(resources));
        main.remove("resources");
    }
    if let Some(Value::Array(mounts)) = main.remove("volumeMounts") {
        append_mounts(&mounts, alpha);
    }
    if let Some(env) = main.remove("env").filter(|env| !is_empty(env)) {
        alpha.insert("envs".to_owned(), env);
    }
    for probe in ["livenessProbe", "readinessProbe"] {
        if let Some(Value::Object(value)) = main.remove(probe) {
            alpha.insert(probe.to_owned(), Value::Object(value));
        }
    }
}

fn filled(path: Option<&Value>) -> Option<&Value> {
    path.filter(|path| !is_empty(path))
}

/// Adds the mounts of the container to those that are there, unless they are there already.
fn append_mounts(mounts: &[Value], alpha: &mut Object) {
    let before = list(alpha, "volumeMounts").to_vec();
    let mut flat = before.clone();
    let there = before.iter().map(|mount| (mount.get("name"), filled(mount.get("mountPoint"))));
    let mut there: HashSet<_> = there.collect();
    for mount in mounts.iter().filter_map(Value::as_object) {
        let path = filled(mount.get("mountPath"));
        if there.insert((mount.get("name"), path)) {
            // With the default that the API server fills in when v1alpha1 is written, so that writing back what was
            // read changes nothing.
            let mut entry = json!({ "name": mount.get("name"), "useAsCompilationCache": false });
            if let Some(path) = path {
                entry["mountPoint"] = path.clone();
            }
            flat.push(entry);
        }
    }
    if !flat.is_empty() {
        alpha.insert("volumeMounts".to_owned(), Value::Array(flat));
    }
}

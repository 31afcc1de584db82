//! The many fields of v1alpha1, taken from the pod template of v1beta1.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{MAIN, resources::from_native};
use crate::conversion::value::{Object, insert_filled, is_empty, list, name_of, object};

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

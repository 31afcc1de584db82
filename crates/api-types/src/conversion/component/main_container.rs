//! Conversion between the pod template of v1beta1 and the many fields of v1alpha1, and the overlay of
//! `extraPodSpec.mainContainer` on the container that v1alpha1's own fields describe.
//!
//! Two kinds of fields have another form in each version: `resources`, with fixed names in v1alpha1 and any names in
//! v1beta1, and features, which v1alpha1 switches on and v1beta1 has under `experimental` if they are on.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::{MAIN, SIDECAR};
use crate::conversion::value::{
    Object, copy, insert_filled, is_empty, is_quantity, is_true, list, name_of, named, object, places, put, text,
};

/// The handlers of a probe; each probe has one.
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
                "volumeMounts" => union_mounts(&mut main, value),
                "resources" | "livenessProbe" | "readinessProbe" => merge_fields(&mut main, key, value),
                _ => {
                    main.insert(key.clone(), value.clone());
                }
            }
        }
    }
    main.insert("name".to_owned(), json!(MAIN));
    main
}

/// Returns the container that v1alpha1's own fields describe.
fn dedicated(alpha: &Object) -> Object {
    let mut main = Object::new();
    insert_filled(&mut main, "resources", object(alpha, "resources").map(to_native));
    insert_filled(&mut main, "env", list(alpha, "envs").to_vec());
    put(&mut main, &["envFrom"], text(alpha, "envFromSecret").map(from_secret));
    for probe in ["livenessProbe", "readinessProbe"] {
        put(&mut main, &[probe], alpha.get(probe).filter(|probe| probe.is_object()).cloned());
    }
    let mounts: Vec<Value> = list(alpha, "volumeMounts").iter().filter_map(Value::as_object).map(mount).collect();
    insert_filled(&mut main, "volumeMounts", mounts);
    main
}

fn from_secret(secret: &str) -> Value {
    json!([{ "secretRef": { "name": secret } }])
}

fn mount(flat: &Object) -> Value {
    let mount_path = flat.get("mountPoint").filter(|path| path.is_string()).cloned();
    json!({ "name": flat.get("name"), "mountPath": mount_path.unwrap_or_else(|| json!("")) })
}

/// Both lists as one; a variable of the later list takes the place of its namesake.
fn union_env(main: &mut Object, over: &Value) {
    let Some(over) = over.as_array() else { return };
    let mut env = if let Some(Value::Array(env)) = main.remove("env") { env } else { Vec::new() };
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
    insert_filled(main, "env", env);
}

/// Both lists as one, those of the main container first. A place has one mount: that of the main container.
fn union_mounts(main: &mut Object, first: &Value) {
    const MOUNTS: &str = "volumeMounts";
    let Some(first) = first.as_array() else { return };
    let place = |mount: &'_ Value| mount.get("mountPath").and_then(Value::as_str).map(ToOwned::to_owned);
    let taken: HashSet<String> = first.iter().filter_map(place).collect();
    let is_free = |mount: &&Value| place(mount).is_none_or(|place| !taken.contains(&place));
    let all: Vec<Value> = first.iter().chain(list(main, MOUNTS).iter().filter(is_free)).cloned().collect();
    insert_filled(main, MOUNTS, all);
}

/// Resources or a probe, field by field.
fn merge_fields(main: &mut Object, key: &str, over: &Value) {
    let Some(over) = over.as_object() else { return };
    let mut fields = object(main, key).cloned().unwrap_or_default();
    // A probe with another handler must not keep the handler of the one below it.
    if HANDLERS.iter().any(|handler| over.contains_key(*handler) && !fields.contains_key(*handler)) {
        fields.retain(|key, _| !HANDLERS.contains(&key.as_str()));
    }
    overlay(&mut fields, over);
    main.insert(key.to_owned(), Value::Object(fields));
}

/// Replaces present values by those that are not empty; objects are overlaid field by field.
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
    insert_filled(alpha, "extraPodMetadata", object(template, "metadata").map(filled_metadata));
    let Some(spec) = object(template, "spec") else { return };
    // Containers are as large as all the rest; they are copied once, to where they belong.
    let rest = spec.iter().filter(|(key, _)| *key != "containers");
    let mut extra: Object = rest.map(|(key, value)| (key.clone(), value.clone())).collect();
    let all = list(spec, "containers");
    let first = all.iter().position(|container| name_of(container) == Some(MAIN));
    let others = all.iter().enumerate().filter(|(index, _)| Some(*index) != first);
    insert_filled(&mut extra, "containers", others.map(|(_, container)| container.clone()).collect::<Value>());
    if let Some(main) = first.and_then(|first| all[first].as_object()) {
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
    insert_filled(alpha, "envs", main.remove("env"));
    for probe in ["livenessProbe", "readinessProbe"] {
        put(alpha, &[probe], main.remove(probe).filter(Value::is_object));
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
    insert_filled(alpha, "volumeMounts", flat);
}

/// The pod template of a v1alpha1 component; none if it says nothing about its pods.
pub(super) fn template(alpha: &Object) -> Option<Object> {
    let extra = object(alpha, "extraPodSpec");
    if !has_content(alpha, extra) {
        return None;
    }
    let mut template = Object::new();
    insert_filled(&mut template, "metadata", object(alpha, "extraPodMetadata").map(filled_metadata));
    // Containers are as large as all the rest; they are copied once, to where they belong.
    let is_rest = |key: &str, value: &Value| !matches!(key, "mainContainer" | "containers") && !value.is_null();
    let rest = extra.into_iter().flatten().filter(|(key, value)| is_rest(key, value));
    let mut spec: Object = rest.map(|(key, value)| (key.clone(), value.clone())).collect();
    spec.insert("containers".to_owned(), Value::Array(containers(alpha, extra)));
    template.insert("spec".to_owned(), Value::Object(spec));
    Some(template)
}

/// The metadata of pods that both versions have.
fn filled_metadata(metadata: &Object) -> Object {
    filled_fields(metadata, &["annotations", "labels"])
}

fn filled_fields(from: &Object, keys: &[&str]) -> Object {
    let fields = keys.iter().filter_map(|key| Some(((*key).to_owned(), from.get(*key)?.clone())));
    fields.filter(|(_, value)| !is_empty(value)).collect()
}

fn has_content(alpha: &Object, extra: Option<&Object>) -> bool {
    let present = ["resources", "livenessProbe", "readinessProbe", "extraPodMetadata", "frontendSidecar"];
    let mounts = list(alpha, "volumeMounts").iter().filter_map(Value::as_object);
    present.iter().any(|key| object(alpha, key).is_some())
        || alpha.get("envFromSecret").is_some_and(Value::is_string)
        || !list(alpha, "envs").is_empty()
        || mounts.into_iter().any(|mount| !is_true(mount, "useAsCompilationCache"))
        || extra.is_some_and(has_settings)
}

/// Whether `extraPodSpec` says more than the name of its main container.
fn has_settings(extra: &Object) -> bool {
    extra.iter().any(|(key, value)| match (key.as_str(), value) {
        ("mainContainer", Value::Object(main)) => main.iter().any(|(key, value)| key != "name" && !is_empty(value)),
        ("mainContainer", _) => false,
        (_, value) => !is_empty(value),
    })
}

fn containers(alpha: &Object, extra: Option<&Object>) -> Vec<Value> {
    let others = extra.map_or(&[][..], |extra| list(extra, "containers"));
    // A container with the reserved name is the main container, if that is not given in its own field.
    let main = extra.and_then(|extra| object(extra, "mainContainer")).or_else(|| named(others, MAIN));
    let mut containers = vec![Value::Object(main_container(alpha, main))];
    containers.extend(others.iter().filter(|container| name_of(container) != Some(MAIN)).cloned());
    if let Some(sidecar) = object(alpha, "frontendSidecar").filter(|_| named(&containers, SIDECAR).is_none()) {
        containers.push(Value::Object(sidecar_container(sidecar)));
    }
    containers
}

fn sidecar_container(sidecar: &Object) -> Object {
    let mut container = filled_fields(sidecar, &["image", "args"]);
    container.insert("name".to_owned(), json!(SIDECAR));
    insert_filled(&mut container, "env", list(sidecar, "envs").to_vec());
    put(&mut container, &["envFrom"], text(sidecar, "envFromSecret").map(from_secret));
    container
}

/// Resource name of a GPU if v1alpha1 does not specify one.
pub(super) const GPU: &str = "nvidia.com/gpu";

/// Requirements of a container. What is not a quantity is left out, as no pod could have it.
pub(super) fn to_native(alpha: &Object) -> Object {
    let mut native = Object::new();
    for side in ["requests", "limits"] {
        insert_filled(&mut native, side, object(alpha, side).map(list_of));
    }
    copy(alpha, &mut native, &["claims"]);
    native
}

fn list_of(item: &Object) -> Object {
    let mut list = Object::new();
    let gpu = text(item, "gpuType").unwrap_or(GPU);
    let fixed = [("cpu", "cpu"), ("memory", "memory"), ("gpu", gpu)];
    let fixed = fixed.into_iter().filter_map(|(key, name)| Some((name, item.get(key)?)));
    let custom = object(item, "custom").into_iter().flatten().map(|(name, quantity)| (name.as_str(), quantity));
    for (name, quantity) in fixed.chain(custom) {
        if quantity.as_str().is_some_and(is_quantity) {
            list.insert(name.to_owned(), quantity.clone());
        }
    }
    list
}

/// The requirements of a container in the form of v1alpha1; none if they say nothing.
pub(super) fn from_native(native: &Object) -> Object {
    let mut alpha = Object::new();
    for side in ["requests", "limits"] {
        insert_filled(&mut alpha, side, object(native, side).map(item_of));
    }
    insert_filled(&mut alpha, "claims", list(native, "claims").to_vec());
    alpha
}

fn item_of(list: &Object) -> Object {
    let mut item = Object::new();
    let mut custom = Object::new();
    for (name, quantity) in list {
        // A number is a quantity too, but v1alpha1 only takes text.
        let quantity = match quantity {
            Value::Number(number) => json!(number.to_string()),
            other => other.clone(),
        };
        match name.as_str() {
            "cpu" | "memory" => item.insert(name.clone(), quantity),
            GPU => item.insert("gpu".to_owned(), quantity),
            _ => custom.insert(name.clone(), quantity),
        };
    }
    insert_filled(&mut item, "custom", custom);
    item
}

/// The modes of GPU memory service and failover, in v1alpha1 and v1beta1. Others are kept as they are.
const MODES: [(&str, &str); 2] = [("intraPod", "IntraPod"), ("interPod", "InterPod")];

/// GPU memory service or failover in v1beta1; none if it is off.
pub(super) fn feature_to_beta(alpha: &Object) -> Option<Object> {
    is_true(alpha, "enabled").then(|| {
        let mut beta = alpha.clone();
        beta.remove("enabled");
        if let Some((_, mode)) = MODES.iter().find(|(mode, _)| text(alpha, "mode") == Some(mode)) {
            beta.insert("mode".to_owned(), json!(mode));
        }
        beta
    })
}

/// GPU memory service or failover in v1alpha1.
pub(super) fn feature_to_alpha(beta: &Object) -> Object {
    let mut alpha = beta.clone();
    alpha.insert("enabled".to_owned(), json!(true));
    if let Some((mode, _)) = MODES.iter().find(|(_, mode)| text(beta, "mode") == Some(mode)) {
        alpha.insert("mode".to_owned(), json!(mode));
    }
    alpha
}

/// Checkpointing in v1beta1, where `enabled` has no default.
pub(super) fn checkpoint_to_beta(alpha: &Object) -> Object {
    let mut beta = alpha.clone();
    beta.entry("enabled").or_insert_with(|| json!(false));
    beta
}

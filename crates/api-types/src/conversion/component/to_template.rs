//! The pod template of v1beta1, made from the many fields of v1alpha1.

use serde_json::{Value, json};

use super::{MAIN, SIDECAR, main_container::main_container};
use crate::conversion::value::{Object, insert_filled, is_empty, is_true, list, name_of, named, object, text};

/// The pod template of a v1alpha1 component; none if it says nothing about its pods.
pub(super) fn template(alpha: &Object) -> Option<Object> {
    let extra = object(alpha, "extraPodSpec");
    if !has_content(alpha, extra) {
        return None;
    }
    let mut template = Object::new();
    if let Some(metadata) = object(alpha, "extraPodMetadata") {
        insert_filled(&mut template, "metadata", filled(metadata, &["annotations", "labels"]));
    }
    // Containers are as large as all the rest; they are copied once, to where they belong.
    let is_rest = |key: &str, value: &Value| !matches!(key, "mainContainer" | "containers") && !value.is_null();
    let rest = extra.into_iter().flatten().filter(|(key, value)| is_rest(key, value));
    let mut spec: Object = rest.map(|(key, value)| (key.clone(), value.clone())).collect();
    spec.insert("containers".to_owned(), Value::Array(containers(alpha, extra)));
    template.insert("spec".to_owned(), Value::Object(spec));
    Some(template)
}

fn filled(from: &Object, keys: &[&str]) -> Object {
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
        || extra.is_some_and(says_something)
}

/// Whether `extraPodSpec` says more than the name of its main container.
fn says_something(extra: &Object) -> bool {
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
    let mut container = filled(sidecar, &["image", "args"]);
    container.insert("name".to_owned(), json!(SIDECAR));
    let env = list(sidecar, "envs");
    if !env.is_empty() {
        container.insert("env".to_owned(), Value::Array(env.to_vec()));
    }
    if let Some(secret) = text(sidecar, "envFromSecret") {
        container.insert("envFrom".to_owned(), json!([{ "secretRef": { "name": secret } }]));
    }
    container
}

//! A user's edit of a graph.

use anyhow::{Context, anyhow, bail};
use api_types::v1beta1::MAIN_CONTAINER;
use serde_json::{Map, Value, json};

/// Annotation in which `kubectl apply` keeps what it applied last.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The merge patch that `kubectl apply` would send: it sets what `desired` has, and removes what it had when it was
/// applied before.
pub fn client_side_patch(live: &Value, desired: &Value) -> anyhow::Result<Value> {
    let annotation =
        live.pointer("/metadata/annotations").and_then(|all| all.get(LAST_APPLIED)).and_then(Value::as_str);
    let last: Value =
        annotation.map_or(Ok(Value::Null), serde_json::from_str).context("the annotation last-applied")?;
    let mut patch = changes(live, desired);
    add_removals(&mut patch, &last, desired);
    patch["metadata"]["annotations"][LAST_APPLIED] = json!(desired.to_string());
    Ok(patch)
}

/// Returns the patch to merge into `live` so that it has all fields of `desired`.
fn changes(live: &Value, desired: &Value) -> Value {
    let (Some(live), Some(desired)) = (live.as_object(), desired.as_object()) else { return desired.clone() };
    let mut patch = Map::new();
    for (name, value) in desired {
        match live.get(name) {
            Some(known) if known == value => {}
            Some(known) if known.is_object() && value.is_object() => {
                let below = changes(known, value);
                if below.as_object().is_some_and(|below| !below.is_empty()) {
                    patch.insert(name.clone(), below);
                }
            }
            _ => drop(patch.insert(name.clone(), value.clone())),
        }
    }
    Value::Object(patch)
}

/// Adds a null for each field that was applied and is no longer desired.
fn add_removals(patch: &mut Value, last: &Value, desired: &Value) {
    let (Some(last), Some(desired)) = (last.as_object(), desired.as_object()) else { return };
    for (name, value) in last {
        match desired.get(name) {
            None => patch[name] = Value::Null,
            Some(below) if value.is_object() && below.is_object() => {
                let mut part = patch.get(name).cloned().unwrap_or_else(|| json!({}));
                add_removals(&mut part, value, below);
                if part.as_object().is_some_and(|part| !part.is_empty()) {
                    patch[name] = part;
                }
            }
            Some(_) => {}
        }
    }
}

/// Sets the field of an assignment `path=value`. A path has the form of those in messages:
/// `spec.components[Decode].replicas`; `spec.` may be left out. A value is YAML.
///
/// # Errors
/// The path names nothing that can be set.
pub fn set(graph: &mut Value, assignment: &str) -> anyhow::Result<()> {
    let (path, text) = assignment.split_once('=').ok_or_else(|| anyhow!("--set {assignment}: write PATH=VALUE"))?;
    let value: Value = serde_saphyr::from_str(text).with_context(|| format!("--set {path}: the value is not YAML"))?;
    let mut steps = steps(path).with_context(|| format!("--set {path}"))?;
    if !["spec", "metadata"].contains(&steps.first().map(String::as_str).unwrap_or_default()) {
        steps.insert(0, "spec".to_owned());
    }
    let last = steps.pop().ok_or_else(|| anyhow!("--set {path}: the path is empty"))?;
    let mut place = graph;
    for step in &steps {
        place = below(place, step).ok_or_else(|| anyhow!("--set {path}: there is no {step}"))?;
    }
    match place {
        Value::Object(fields) if value.is_null() => drop(fields.remove(&last)),
        Value::Object(fields) => drop(fields.insert(last, value)),
        Value::Null => *place = json!({ last: value }),
        _ => match below(place, &last) {
            Some(element) => *element = value,
            None => bail!("--set {path}: there is no {last}"),
        },
    }
    Ok(())
}

/// Sets the image of a component, from `COMPONENT=IMAGE`.
///
/// # Errors
/// There is no such component, or it has no container to set the image of.
pub fn set_image(graph: &mut Value, assignment: &str) -> anyhow::Result<()> {
    let (name, image) =
        assignment.split_once('=').ok_or_else(|| anyhow!("--image {assignment}: write COMPONENT=IMAGE"))?;
    let components = graph.pointer_mut("/spec/components").and_then(Value::as_array_mut);
    let mut all = components.into_iter().flatten();
    let component = all.find(|component| component["name"] == name);
    let component = component.ok_or_else(|| anyhow!("--image {assignment}: the graph has no component {name}"))?;
    let containers = component.pointer_mut("/podTemplate/spec/containers").and_then(Value::as_array_mut);
    let main = containers.into_iter().flatten().find(|container| container["name"] == MAIN_CONTAINER);
    let main = main.ok_or_else(|| anyhow!("--image {assignment}: {name} has no container {MAIN_CONTAINER}"))?;
    main["image"] = json!(image);
    Ok(())
}

/// Splits a path at dots and brackets; what is in brackets may have dots.
fn steps(path: &str) -> anyhow::Result<Vec<String>> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (step, after) = inner.split_once(']').ok_or_else(|| anyhow!("a bracket is not closed"))?;
            steps.push(step.trim_matches('"').to_owned());
            rest = after.strip_prefix('.').unwrap_or(after);
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            steps.push(rest[..end].to_owned());
            rest = rest[end..].strip_prefix('.').unwrap_or(&rest[end..]);
        }
    }
    if steps.iter().any(String::is_empty) { bail!("a step is empty") } else { Ok(steps) }
}

/// A field, or an element by name or number. A field that is missing is made.
fn below<'a>(place: &'a mut Value, step: &str) -> Option<&'a mut Value> {
    match place {
        Value::Array(items) => {
            let named = items.iter().position(|item| item["name"] == step);
            items.get_mut(named.or_else(|| step.parse().ok())?)
        }
        Value::Object(fields) => Some(fields.entry(step.to_owned()).or_insert_with(|| json!({}))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph() -> Value {
        json!({ "metadata": { "name": "g" }, "spec": { "components": [{ "name": "A", "replicas": 1, "podTemplate": {
            "spec": { "containers": [{ "name": "main", "image": "x:1" }] } } }] } })
    }

    #[test]
    fn fields_are_set_by_path() {
        for (assignment, pointer, value) in [
            ("spec.components[A].replicas=3", "/spec/components/0/replicas", json!(3)),
            ("components.A.replicas=3", "/spec/components/0/replicas", json!(3)),
            ("components[0].type=worker", "/spec/components/0/type", json!("worker")),
            ("metadata.labels[a.b/c]=\"1\"", "/metadata/labels/a.b~1c", json!("1")),
            ("spec.restart.id=r1", "/spec/restart/id", json!("r1")),
        ] {
            let mut graph = graph();
            set(&mut graph, assignment).unwrap();
            assert_eq!(graph.pointer(pointer), Some(&value), "{assignment}: {graph}");
        }
        let mut graph = graph();
        set(&mut graph, "components[A].replicas=null").unwrap();
        assert_eq!(graph["spec"]["components"][0].get("replicas"), None);
        for wrong in ["replicas", "components[B].replicas=1", "components[A.replicas=1", "spec..x=1"] {
            assert!(set(&mut graph, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_image_is_that_of_the_main_container() {
        let mut graph = graph();
        set_image(&mut graph, "A=x:2").unwrap();
        assert_eq!(graph["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0]["image"], "x:2");
        assert!(set_image(&mut graph, "B=x:2").is_err());
    }

    #[test]
    fn what_was_applied_before_and_is_gone_is_removed() {
        let applied = |expected: &Value, live: &mut Value| {
            let patch = client_side_patch(live, expected).unwrap();
            json_patch::merge(live, &patch);
        };
        let mut live = json!({ "metadata": {}, "spec": { "defaulted": 1 } });
        applied(&json!({ "spec": { "a": { "b": 1, "c": 2 }, "d": [1] } }), &mut live);
        live["spec"]["a"]["theirs"] = json!(5);
        applied(&json!({ "spec": { "a": { "c": 3 }, "d": [2] } }), &mut live);
        assert_eq!(live["spec"], json!({ "defaulted": 1, "a": { "c": 3, "theirs": 5 }, "d": [2] }));
        applied(&json!({ "spec": {} }), &mut live);
        assert_eq!(live["spec"], json!({ "defaulted": 1 }));
    }
}

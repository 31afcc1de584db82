//! The user's part before it is merged: forbidden fields are refused, fields without effect are reported, and what is
//! to be appended is written out.

use api_types::{annotations::GRAPH_SAVED, conversion::ApiVersion};
use serde_json::{Map, Value, json};

use super::OverrideError;

/// Services of v1alpha1 whose arguments are replaced and not appended to.
const REPLACED: [&str; 2] = ["Frontend", "Planner"];

/// Prepares a part of `whole`; both are in `version`. Gives what has no effect beside it.
pub(super) fn prepare(part: &Value, whole: &Value, version: ApiVersion) -> Result<(Value, Vec<String>), OverrideError> {
    let mut part = part.clone();
    let mut warnings = Vec::new();
    if part.get("status").is_some() {
        return Err(at("override.status", "cannot be set; remove it"));
    }
    metadata(&mut part, &mut warnings)?;
    no_nulls(&part, "override")?;
    match version {
        ApiVersion::V1Alpha1 => services(&mut part, whole, &mut warnings)?,
        ApiVersion::V1Beta1 => components(&mut part, whole, &mut warnings)?,
    }
    Ok((part, warnings))
}

fn at(path: &str, problem: &str) -> OverrideError {
    OverrideError::At { path: path.to_owned(), problem: problem.to_owned() }
}

/// Labels and annotations are the user's; the rest says which graph it is.
fn metadata(part: &mut Value, warnings: &mut Vec<String>) -> Result<(), OverrideError> {
    let Some(metadata) = part.get_mut("metadata") else { return Ok(()) };
    let Some(metadata) = metadata.as_object_mut() else {
        return Err(at("override.metadata", "must be an object"));
    };
    let ignored: Vec<String> = metadata.keys().filter(|key| !is_given(key)).cloned().collect();
    if !ignored.is_empty() {
        warnings.push(format!("metadata: has no effect: {}", ignored.join(", ")));
    }
    metadata.retain(|key, _| is_given(key));
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        let reserved: Vec<&str> = GRAPH_SAVED.into_iter().filter(|key| annotations.remove(*key).is_some()).collect();
        if !reserved.is_empty() {
            warnings.push(format!("metadata.annotations: are the operator's: {}", reserved.join(", ")));
        }
    }
    Ok(())
}

fn is_given(key: &str) -> bool {
    ["annotations", "labels"].contains(&key)
}

fn no_nulls(value: &Value, path: &str) -> Result<(), OverrideError> {
    match value {
        Value::Null => Err(at(path, "must not be null; fields cannot be deleted")),
        Value::Object(fields) => fields.iter().try_for_each(|(key, value)| no_nulls(value, &format!("{path}.{key}"))),
        Value::Array(items) => {
            items.iter().enumerate().try_for_each(|(index, item)| no_nulls(item, &format!("{path}[{index}]")))
        }
        _ => Ok(()),
    }
}

/// v1alpha1: arguments of workers are appended.
fn services(part: &mut Value, whole: &Value, warnings: &mut Vec<String>) -> Result<(), OverrideError> {
    let Some(services) = part.pointer_mut("/spec/services") else { return Ok(()) };
    let Some(services) = services.as_object_mut() else {
        return Err(at("override.spec.services", "must be an object"));
    };
    let known = whole.pointer("/spec/services").and_then(Value::as_object).cloned().unwrap_or_default();
    services.retain(|name, _| {
        let is_known = known.contains_key(name);
        if !is_known {
            warnings.push(format!("spec.services.{name}: has no effect, the generated graph has no such service"));
        }
        is_known
    });
    for (name, service) in services.iter_mut().filter(|(name, _)| !REPLACED.contains(&name.as_str())) {
        const ARGS: &str = "/extraPodSpec/mainContainer/args";
        let path = format!("override.spec.services.{name}.extraPodSpec.mainContainer.args");
        let Some(args) = service.pointer_mut(ARGS) else { continue };
        let more = texts(args, &path)?;
        let before = known.get(name).and_then(|known| known.pointer(ARGS));
        let mut all = before.map(|before| texts(before, &path)).transpose()?.unwrap_or_default();
        all.extend(more);
        *args = json!(all);
    }
    Ok(())
}

fn texts(list: &Value, path: &str) -> Result<Vec<String>, OverrideError> {
    let texts = list.as_array().and_then(|list| list.iter().map(|item| item.as_str().map(str::to_owned)).collect());
    texts.ok_or_else(|| at(path, "must be a list of strings"))
}

/// v1beta1: lists are as the definitions say; a container may have its arguments appended.
fn components(part: &mut Value, whole: &Value, warnings: &mut Vec<String>) -> Result<(), OverrideError> {
    let Some(components) = part.pointer_mut("/spec/components") else { return Ok(()) };
    let Some(components) = components.as_array_mut() else {
        return Err(at("override.spec.components", "must be a list"));
    };
    let known = whole.pointer("/spec/components").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut kept = Vec::new();
    for (index, mut component) in std::mem::take(components).into_iter().enumerate() {
        let path = format!("override.spec.components[{index}]");
        let name = component.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()).map(str::to_owned);
        let name = name.ok_or_else(|| at(&format!("{path}.name"), "must be given"))?;
        match known.iter().find(|known| known["name"] == name) {
            None => warnings.push(format!(
                "spec.components[name={name}]: has no effect, the generated graph has no such component"
            )),
            Some(known) => {
                append(&mut component, known, &path)?;
                kept.push(component);
            }
        }
    }
    *components = kept;
    Ok(())
}

const CONTAINERS: &str = "/podTemplate/spec/containers";

/// Writes out the arguments of containers that carry `$patch: {args: append}`.
fn append(component: &mut Value, known: &Value, path: &str) -> Result<(), OverrideError> {
    let Some(containers) = component.pointer_mut(CONTAINERS).and_then(Value::as_array_mut) else { return Ok(()) };
    for (index, container) in containers.iter_mut().enumerate() {
        let path = format!("{path}.podTemplate.spec.containers[{index}]");
        let Some(fields) = container.as_object_mut() else { return Err(at(&path, "must be an object")) };
        let Some(patch) = fields.remove("$patch") else { continue };
        if patch != json!({ "args": "append" }) {
            return Err(at(&format!("{path}.$patch"), "can only be {args: append}"));
        }
        let all = appended(fields, known, &path)?;
        fields.insert("args".to_owned(), json!(all));
    }
    Ok(())
}

fn appended(fields: &Map<String, Value>, known: &Value, path: &str) -> Result<Vec<String>, OverrideError> {
    let args = format!("{path}.args");
    let more = fields.get("args").map(|list| texts(list, &args)).transpose()?.unwrap_or_default();
    if more.is_empty() || more.iter().any(String::is_empty) {
        return Err(at(&args, "must hold what is to be appended, and nothing empty"));
    }
    let name = fields.get("name").and_then(Value::as_str).unwrap_or_default();
    let containers = known.pointer(CONTAINERS).and_then(Value::as_array);
    let container = containers.and_then(|all| all.iter().find(|container| container["name"] == name));
    let before = container.and_then(|container| container.get("args"));
    let before = before.ok_or_else(|| {
        at(&args, "has nothing to be appended to: the generated graph has no container of this name with arguments")
    })?;
    let mut all = texts(before, &args)?;
    all.extend(more);
    Ok(all)
}

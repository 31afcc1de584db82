//! Server-side apply of objects that are held in memory, with the defaults that the API server sets.
//!
//! The API server sets a default where an apply has removed a field. Other defaults stay, because no manager owns them.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Fields that identify the elements of a list; other lists are replaced whole.
const LIST_KEYS: &[(&str, &[&str])] = &[
    ("cliques", &["name"]),
    ("containers", &["name"]),
    ("initContainers", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("env", &["name"]),
    ("volumes", &["name"]),
    ("imagePullSecrets", &["name"]),
    ("resourceClaims", &["name"]),
    ("claims", &["name"]),
    ("schedulingGates", &["name"]),
    ("secrets", &["name"]),
    ("volumeMounts", &["mountPath"]),
    ("volumeDevices", &["devicePath"]),
    ("hostAliases", &["ip"]),
    ("ownerReferences", &["uid"]),
    ("topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
];
/// Lists of plain values to which several managers add.
const SETS: &[&str] = &["finalizers"];
/// Fields that the API server sets, and that no manager owns.
const UNOWNED: &[&str] = &[
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "deletionTimestamp",
];

/// An object after a forced apply by `manager`. Fields that it applied before, that are not in `body`, and that no
/// other manager owns, are removed.
pub fn apply(live: &Value, body: &Value, manager: &str) -> Value {
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array).cloned().unwrap_or_default();
    let (own, others): (Vec<Value>, Vec<Value>) = entries.into_iter().partition(|entry| is_apply_of(entry, manager));
    let before = own.first().map_or(Value::Null, |entry| entry["fieldsV1"].clone());
    let fields: Vec<&Value> = others.iter().map(|entry| &entry["fieldsV1"]).collect();
    let mut merged = merge("", live, body, &before, &fields);
    set(&mut merged);
    let entry = json!({
        "manager": manager, "operation": "Apply", "apiVersion": body["apiVersion"], "fieldsType": "FieldsV1",
        "fieldsV1": fields_of("", body),
    });
    for field in ["uid", "resourceVersion"] {
        if let Some(value) = live.pointer(&format!("/metadata/{field}")) {
            merged["metadata"][field] = value.clone();
        }
    }
    merged["metadata"]["managedFields"] = others.into_iter().chain([entry]).collect();
    merged
}

fn is_apply_of(entry: &Value, manager: &str) -> bool {
    let has_subresource = entry["subresource"].as_str().is_some_and(|name| !name.is_empty());
    entry["manager"] == manager && entry["operation"] == "Apply" && !has_subresource
}

fn merge(field: &str, live: &Value, body: &Value, own: &Value, others: &[&Value]) -> Value {
    if own.as_object().is_some_and(Map::is_empty) {
        // A leaf: a plain value, or a list or map that has one owner.
        return body.clone();
    }
    match (live, body) {
        (Value::Object(live), Value::Object(body)) => {
            let mut merged = Map::new();
            for (name, value) in live {
                let step = format!("f:{name}");
                if !body.contains_key(name)
                    && let Some(kept) = without(name, value, &own[&step], &below(others, &step))
                {
                    merged.insert(name.clone(), kept);
                }
            }
            for (name, value) in body {
                let step = format!("f:{name}");
                let value = match live.get(name) {
                    Some(known) => merge(name, known, value, &own[&step], &below(others, &step)),
                    None => value.clone(),
                };
                merged.insert(name.clone(), value);
            }
            Value::Object(merged)
        }
        (Value::Array(live), Value::Array(body)) => merge_list(field, live, body, own, others),
        _ => body.clone(),
    }
}

fn merge_list(field: &str, live: &[Value], body: &[Value], own: &Value, others: &[&Value]) -> Value {
    let steps = |items: &[Value]| items.iter().map(|item| element(field, item)).collect::<Option<Vec<String>>>();
    let (Some(live_steps), Some(steps)) = (steps(live), steps(body)) else { return body.to_vec().into() };
    let known: BTreeMap<&String, &Value> = live_steps.iter().zip(live).collect();
    let merge_one = |(step, item): (&String, &Value)| match known.get(step) {
        Some(known) => merge("", known, item, &own[step], &below(others, step)),
        None => item.clone(),
    };
    let mut merged: Vec<Value> = steps.iter().zip(body).map(merge_one).collect();
    for (step, item) in live_steps.iter().zip(live).filter(|(step, _)| !steps.contains(step)) {
        merged.extend(without("", item, &own[step], &below(others, step)));
    }
    merged.into()
}

/// Returns the rest of a value that is no longer applied.
fn without(field: &str, value: &Value, own: &Value, others: &[&Value]) -> Option<Value> {
    if own.is_null() {
        return Some(value.clone());
    }
    if others.is_empty() {
        return None;
    }
    match value {
        Value::Object(fields) if own.as_object().is_some_and(|own| !own.is_empty()) => {
            let keep = |(name, value): (&String, &Value)| {
                let step = format!("f:{name}");
                Some((name.clone(), without(name, value, &own[&step], &below(others, &step))?))
            };
            Some(Value::Object(fields.iter().filter_map(keep).collect()))
        }
        Value::Array(items) => {
            let keep = |item: &Value| match element(field, item) {
                Some(step) => without("", item, &own[&step], &below(others, &step)),
                None => Some(item.clone()),
            };
            Some(items.iter().filter_map(keep).collect())
        }
        other => Some(other.clone()),
    }
}

/// The sets of fields below a step, of the managers that own any.
fn below<'a>(sets: &[&'a Value], step: &str) -> Vec<&'a Value> {
    sets.iter().filter_map(|set| set.get(step)).collect()
}

/// The fields that an applied value owns.
fn fields_of(field: &str, value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let owned = fields.iter().filter(|(name, _)| match field {
                "" => !["apiVersion", "kind"].contains(&name.as_str()),
                "metadata" => !UNOWNED.contains(&name.as_str()),
                _ => true,
            });
            owned.map(|(name, value)| (format!("f:{name}"), fields_of(name, value))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => {
            let mut set = Map::new();
            for item in items {
                let Some(step) = element(field, item) else { return json!({}) };
                // Whatever the name of a field in an element, it is not one of the object's own.
                let mut below = fields_of("[]", item);
                if let Some(below) = below.as_object_mut().filter(|_| item.is_object()) {
                    below.insert(".".to_owned(), json!({}));
                }
                set.insert(step, below);
            }
            Value::Object(set)
        }
        _ => json!({}),
    }
}

/// The step to an element of a list whose elements have an identity, as in `fieldsV1`.
fn element(field: &str, item: &Value) -> Option<String> {
    if SETS.contains(&field) {
        return item.is_string().then(|| format!("v:{item}"));
    }
    let fields = item.as_object()?;
    let ports: &[&str] = if fields.contains_key("containerPort") { &["containerPort"] } else { &["port"] };
    let (keys, has_protocol) = match LIST_KEYS.iter().find(|(name, _)| *name == field) {
        Some((_, keys)) => (*keys, false),
        None if field == "ports" => (ports, true),
        None => return None,
    };
    let mut step: BTreeMap<&str, Value> = BTreeMap::new();
    for key in keys {
        step.insert(key, fields.get(*key)?.clone());
    }
    if has_protocol {
        step.insert("protocol", fields.get("protocol").cloned().unwrap_or_else(|| json!("TCP")));
    }
    serde_json::to_string(&step).ok().map(|step| format!("k:{step}"))
}

/// Parts of objects that are replaced whole: the part, its field, and the default.
const PARTS: [(&str, &str, &str); 2] = [("fieldRef", "apiVersion", "v1"), ("resourceFieldRef", "divisor", "0")];
/// Volumes that are made of files.
const FILES: [&str; 4] = ["configMap", "downwardAPI", "projected", "secret"];
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// Sets the defaults of an object after an apply.
pub fn set(object: &mut Value) {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    // The definitions of these kinds have no defaults for pod templates.
    if ["grove.io/", "leaderworkerset.x-k8s.io/"].iter().any(|group| version.starts_with(group)) {
        return;
    }
    let is_workload = version.starts_with("apps/");
    of_parts(object);
    if let Some(pod) = object.pointer_mut("/spec/template/spec").filter(|_| is_workload) {
        of_pod(pod);
    }
}

fn of_parts(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (part, field, default) in PARTS {
                if let Some(part) = fields.get_mut(part) {
                    fill(part, json!({ field: default }));
                }
            }
            fields.values_mut().for_each(of_parts);
        }
        Value::Array(items) => items.iter_mut().for_each(of_parts),
        _ => {}
    }
}

fn of_pod(pod: &mut Value) {
    fill(
        pod,
        json!({ "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
            "securityContext": {}, "terminationGracePeriodSeconds": 30 }),
    );
    for list in ["containers", "initContainers"] {
        pod.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().for_each(of_container);
    }
    for volume in pod.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        for kind in FILES {
            if let Some(source) = volume.get_mut(kind) {
                fill(source, json!({ "defaultMode": 0o644 }));
            }
        }
    }
}

fn of_container(container: &mut Value) {
    fill(
        container,
        json!({ "resources": {}, "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File" }),
    );
    for probe in PROBES {
        let Some(probe) = container.get_mut(probe) else { continue };
        fill(probe, json!({ "failureThreshold": 3, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1 }));
        if let Some(get) = probe.get_mut("httpGet") {
            fill(get, json!({ "path": "/", "scheme": "HTTP" }));
        }
    }
}

/// Sets the fields that are absent.
fn fill(object: &mut Value, defaults: Value) {
    let (Value::Object(fields), Value::Object(defaults)) = (object, defaults) else { return };
    for (field, default) in defaults {
        fields.entry(field).or_insert(default);
    }
}

//! Removal of the differences that an implementation may have, before a record is compared.

use std::sync::LazyLock;

use api_types::{annotations, env, labels};
use regex::{Captures, Regex};
use serde_json::{Map, Value, json};

/// Annotations and labels that do not count: bookkeeping of the reference, payloads of conversion, and what Kubernetes
/// adds.
const UNCOUNTED: [&str; 12] = [
    "nvidia.com/last-applied-hash",
    "nvidia.com/last-applied-generation",
    "nvidia.com/dgd-spec",
    "nvidia.com/dgd-status",
    "nvidia.com/dcd-spec",
    "nvidia.com/dcd-status",
    "nvidia.com/dgdr-spec",
    "nvidia.com/dgdr-status",
    "nvidia.com/current-worker-hash",
    "nvidia.com/current-worker-hash-v2",
    "deployment.kubernetes.io/revision",
    "nvidia.com/dynamo-operator-origin-version",
];
/// Annotations and labels that only our operator has.
const OUR_PREFIX: &str = "operator.dynamo/";
const SERVER_METADATA: [&str; 6] =
    ["finalizers", "managedFields", "generation", "resourceVersion", "uid", "creationTimestamp"];
/// Part of the line that starts MPI on all nodes.
const MPI_KEYS: &str = "/ssh-pk/";

/// Module of the server of shared GPU memory.
const GMS_SERVER: &str = "gpu_memory_service.cli.server";

/// A UID, or what our records have in its place.
static UUID: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|<uid:[^>]*>").ok());

/// Replaces every UID, and the suffix of each worker revision and the identifier of its checkpoint, which is made of
/// the graph's UID and the suffix, by their ordinals in the case.
pub(super) fn revisions(case: &Value) -> Value {
    let objects = case.get("objects").unwrap_or(&Value::Null);
    let (mut found, mut checkpoints) = (Vec::new(), Vec::new());
    find_labels(objects, labels::WORKER_HASH, 8, &mut found);
    find_labels(objects, labels::CHECKPOINT_ID, 32, &mut checkpoints);
    let mut text = case.to_string();
    if let Some(uuid) = &*UUID {
        text = uuid.replace_all(&text, |_: &Captures| "UID").into_owned();
    }
    for (index, id) in checkpoints.iter().enumerate() {
        text = text.replace(id, &format!("CHECKPOINT{index}"));
    }
    for (index, revision) in found.iter().enumerate() {
        text = text.replace(revision, &format!("REVISION{index}"));
    }
    // Replacing digits inside strings leaves JSON what it was.
    serde_json::from_str(&text).unwrap_or_else(|_| case.clone())
}

/// Finds the values of a label that are so many hexadecimal digits.
fn find_labels(value: &Value, label: &str, digits: usize, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let value = fields.get(label).and_then(Value::as_str).filter(|text| is_hex(text, digits));
            if let Some(value) = value
                && !found.iter().any(|known| known == value)
            {
                found.push(value.to_owned());
            }
            fields.values().for_each(|field| find_labels(field, label, digits, found));
        }
        Value::Array(items) => items.iter().for_each(|item| find_labels(item, label, digits, found)),
        _ => {}
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// An object without what does not count.
pub(super) fn clean(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        SERVER_METADATA.iter().for_each(|field| drop(metadata.remove(*field)));
    }
    walk(&mut object, &drop_mesh_switch);
    walk(&mut object, &strip_notes);
    walk(&mut object, &mask_programs);
    walk(&mut object, &allow_no_token);
    match object.get("kind").and_then(Value::as_str) {
        Some("ConfigMap") => mask_scripts(&mut object),
        Some("Job") => allow_disruptions(&mut object),
        Some("Service") => select_pods_without_type(&mut object),
        _ => {}
    }
    if let Some(Value::Array(owners)) = object.pointer_mut("/metadata/ownerReferences") {
        owners.iter_mut().filter_map(Value::as_object_mut).for_each(keep_group_of_owner);
    }
    object
}

fn walk(value: &mut Value, change: &impl Fn(&mut Map<String, Value>)) {
    match value {
        Value::Object(fields) => {
            change(fields);
            fields.values_mut().for_each(|field| walk(field, change));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, change)),
        _ => {}
    }
}

/// Without it a service mesh breaks the endpoint picker. The reference leaves it out on Grove, where it is the template
/// of a clique that carries it.
fn drop_mesh_switch(clique: &mut Map<String, Value>) {
    let label =
        |clique: &Map<String, Value>| Some(clique.get("labels")?.get(labels::COMPONENT_TYPE)?.as_str()? == "epp");
    let is_clique = clique.get("spec").is_some_and(|spec| spec.get("podSpec").is_some());
    if is_clique
        && label(clique) == Some(true)
        && let Some(Value::Object(notes)) = clique.get_mut("annotations")
    {
        notes.remove(annotations::ISTIO_INJECT);
    }
}

fn strip_notes(fields: &mut Map<String, Value>) {
    for name in ["annotations", "labels"] {
        if let Some(Value::Object(notes)) = fields.get_mut(name) {
            notes.retain(|key, _| !UNCOUNTED.contains(&key.as_str()) && !key.starts_with(OUR_PREFIX));
            if notes.is_empty() {
                fields.remove(name);
            }
        }
    }
}

/// That an operator's program is in a pod counts; its text is the operator's own.
fn mask_programs(fields: &mut Map<String, Value>) {
    if fields.get("name").and_then(Value::as_str) == Some("output-copier") {
        ["args", "command", "image", "imagePullPolicy"].iter().for_each(|field| drop(fields.remove(*field)));
    }
    for name in ["args", "command"] {
        if let Some(Value::Array(words)) = fields.get_mut(name) {
            let launches = words.iter_mut().filter(|word| word.as_str().is_some_and(|word| word.contains(MPI_KEYS)));
            launches.for_each(|word| *word = json!("<mpi-launch>"));
            let servers = words.iter_mut().filter(|word| word.as_str().is_some_and(is_server_script));
            servers.for_each(|word| *word = json!("<gpu-memory-server>"));
        }
    }
}

/// The reference's profilers wait for ever for a token that public models do not need. Ours do without.
fn allow_no_token(variable: &mut Map<String, Value>) {
    if variable.get("name").and_then(Value::as_str) == Some(env::HUGGING_FACE_HUB_TOKEN)
        && let Some(Value::Object(secret)) = variable.get_mut("valueFrom").and_then(|from| from.get_mut("secretKeyRef"))
    {
        secret.remove("optional");
    }
}

/// A profiler of the reference is given up when its node is drained. A rule that only passes over disruptions is
/// allowed; with one, the API server has another default for when a pod is replaced.
fn allow_disruptions(job: &mut Value) {
    let Some(spec) = job.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let rules = spec.get("podFailurePolicy").and_then(|policy| policy.get("rules")).and_then(Value::as_array);
    let passes_over = |rule: &Value| rule.get("action").and_then(Value::as_str) == Some("Ignore");
    let default = match rules {
        None => "TerminatingOrFailed",
        Some(rules) if rules.iter().all(passes_over) => "Failed",
        Some(_) => return,
    };
    spec.remove("podFailurePolicy");
    if spec.get("podReplacementPolicy").and_then(Value::as_str) == Some(default) {
        spec.remove("podReplacementPolicy");
    }
}

/// The reference's Services of components without a type select pods whose type is an empty text, of which there are
/// none. Ours select no type.
fn select_pods_without_type(service: &mut Value) {
    if let Some(Value::Object(selector)) = service.pointer_mut("/spec/selector") {
        selector.retain(|key, value| key != labels::COMPONENT_TYPE || value.as_str() != Some(""));
    }
}

/// A script that runs the server of shared GPU memory, as opposed to a command line that is the server.
fn is_server_script(word: &str) -> bool {
    word.contains(GMS_SERVER) && word.contains('\n')
}

fn mask_scripts(config_map: &mut Value) {
    let Some(fields) = config_map.as_object_mut() else { return };
    let data = fields.entry("data").or_insert_with(|| json!({}));
    if data.is_null() {
        *data = json!({});
    }
    let Some(data) = data.as_object_mut() else { return };
    let scripts = data.iter_mut().filter(|(file, _)| file.ends_with(".py"));
    scripts.for_each(|(_, text)| *text = json!("<program>"));
}

fn keep_group_of_owner(owner: &mut Map<String, Value>) {
    owner.remove("uid");
    let version = owner.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let group = version.split('/').next().unwrap_or_default().to_owned();
    owner.insert("apiVersion".to_owned(), json!(group));
}

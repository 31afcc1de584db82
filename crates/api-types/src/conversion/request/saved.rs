//! Storage and restoration of data about a request that only one version can express.

use serde_json::{Value, json};

use super::spec::PROFILER;
use crate::conversion::{
    lens::RestoreEdit,
    value::{Object, at, is_empty, is_true, name_of, object, put, put_in_part, text},
};

type SavedPath = &'static [&'static str];

/// Places that v1beta1 cannot say at all.
const ALPHA_ONLY: [SavedPath; 6] = [
    &["spec", "enableGpuDiscovery"],
    &["spec", "deploymentOverrides"],
    &["spec", "profilingConfig", "configMapRef"],
    &["spec", "profilingConfig", "outputPVC"],
    &["status", "backend"],
    &["status", "profilingResults"],
];
const CONFIG: SavedPath = &["spec", "profilingConfig", "config"];

/// Places that v1alpha1 cannot say at all.
const BETA_ONLY: [SavedPath; 11] = [
    &["spec", "hardware"],
    &["spec", "searchStrategy"],
    &["spec", "workload", "concurrency"],
    &["spec", "workload", "requestRate"],
    &["spec", "sla", "e2eLatency"],
    &["spec", "overrides", "dgd"],
    &["status", "profilingResults", "pareto"],
    &["status", "hardware"],
    &["status", "gpuMinutes"],
    &["status", "profilerRuns"],
    &["status", "trialGraphs"],
];
const JOB: SavedPath = &["spec", "overrides", "profilingJob"];
const MOCKER: SavedPath = &["spec", "features", "mocker"];

fn keep(original: &Object, saved: &mut Object, path: SavedPath) {
    put(saved, path, at(original, path).filter(|value| !value.is_null()).cloned());
}

/// Saves what v1alpha1's `rebuilt` lacks to be `original`.
pub(super) fn save_alpha(original: &Object, rebuilt: &Object) -> Object {
    let mut saved = Object::new();
    for path in ALPHA_ONLY.into_iter().filter(|path| at(original, path) != at(rebuilt, path)) {
        keep(original, &mut saved, path);
    }
    if let Some(Value::Object(config)) = at(original, CONFIG) {
        let known = at(rebuilt, CONFIG).and_then(Value::as_object);
        let rest = known.map_or_else(|| config.clone(), |known| without(config, known));
        if !rest.is_empty() || known.is_none() {
            put(&mut saved, CONFIG, Some(Value::Object(rest)));
        }
    }
    let (before, after) = (object(original, "status"), object(rebuilt, "status"));
    if let (Some(before), Some(after)) = (before, after) {
        if before.get("deployment") != after.get("deployment") || before.get("state") != after.get("state") {
            keep(original, &mut saved, &["status", "state"]);
        }
        if before.get("deployment") != after.get("deployment") {
            keep(original, &mut saved, &["status", "deployment"]);
        }
    }
    saved
}

/// The fields of `all` that are not the same in `known`.
fn without(all: &Object, known: &Object) -> Object {
    let mut rest = Object::new();
    for (key, value) in all {
        match (value, known.get(key)) {
            (Value::Object(value), Some(Value::Object(known))) => {
                let inner = without(value, known);
                if !inner.is_empty() {
                    rest.insert(key.clone(), Value::Object(inner));
                }
            }
            (value, Some(known)) if value == known => {}
            _ => {
                rest.insert(key.clone(), value.clone());
            }
        }
    }
    rest
}

/// Adds the fields that are missing, at every depth.
fn fill(into: &mut Object, from: &Object) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Object(into)), Value::Object(from)) => fill(into, from),
            (Some(_), _) => {}
            (None, _) => drop(into.insert(key.clone(), value.clone())),
        }
    }
}

/// Adds the fields that are missing in the object at `path`.
fn fill_in_part(body: &mut Object, path: SavedPath, fields: &Object) {
    let mut whole = at(body, path).and_then(Value::as_object).cloned().unwrap_or_default();
    fill(&mut whole, fields);
    put_in_part(body, path, &Value::Object(whole));
}

/// Returns the edits that restore v1alpha1's saved data.
pub(super) fn alpha_edits(saved: &Object) -> Vec<RestoreEdit<'_>> {
    let mut edits: Vec<RestoreEdit<'_>> = Vec::new();
    for path in ALPHA_ONLY {
        if let Some(value) = at(saved, path).filter(|value| !value.is_null() && *value != "") {
            edits.push(Box::new(move |body| put_in_part(body, path, value)));
        }
    }
    if let Some(Value::Object(config)) = at(saved, CONFIG) {
        edits.push(Box::new(move |body| fill_in_part(body, CONFIG, config)));
    }
    let status = object(saved, "status");
    let state = status.and_then(|status| text(status, "state"));
    let deployment = status.and_then(|status| object(status, "deployment"));
    if state.is_some() || deployment.is_some() {
        edits.push(Box::new(move |body| put_state(body, state, deployment)));
    }
    edits
}

/// State and deployment are those of one graph; they say nothing about another.
fn put_state(body: &mut Object, state: Option<&str>, deployment: Option<&Object>) {
    let name = |deployment: &Object| text(deployment, "name").map(ToOwned::to_owned);
    let live = at(body, &["status", "deployment"]).and_then(Value::as_object).and_then(name);
    if live != deployment.and_then(name) && (deployment.is_some() || state == Some("DeploymentDeleted")) {
        return;
    }
    if let Some(state) = state {
        put_in_part(body, &["status", "state"], &json!(state));
    }
    if let Some(deployment) = deployment {
        put_in_part(body, &["status", "deployment"], &json!(deployment));
    }
}

/// Saves what v1beta1's `rebuilt` lacks to be `original`.
pub(super) fn save_beta(original: &Object, rebuilt: &Object) -> Object {
    let mut saved = Object::new();
    for path in BETA_ONLY {
        keep(original, &mut saved, path);
    }
    if at(original, JOB) != at(rebuilt, JOB)
        && let Some(Value::Object(job)) = at(original, JOB)
    {
        put(&mut saved, JOB, Some(Value::Object(job_without_known(job))));
    }
    if at(original, MOCKER) != at(rebuilt, MOCKER) {
        keep(original, &mut saved, MOCKER);
    }
    save_beta_status(original, rebuilt, &mut saved);
    saved
}

fn save_beta_status(original: &Object, rebuilt: &Object, saved: &mut Object) {
    let Some(status) = object(original, "status") else { return };
    let phase_lost = status.get("phase") != at(rebuilt, &["status", "phase"]);
    for path in
        [&["status", "profilingPhase"] as SavedPath, &["status", "profilingJobName"], &["status", "deploymentInfo"]]
    {
        keep(original, saved, path);
    }
    if phase_lost || status.contains_key("profilingPhase") || status.contains_key("profilingJobName") {
        keep(original, saved, &["status", "phase"]);
    }
    if phase_lost || status.contains_key("deploymentInfo") {
        keep(original, saved, &["status", "dgdName"]);
    }
}

/// The job without what v1alpha1 can say of it.
fn job_without_known(job: &Object) -> Object {
    let mut job = job.clone();
    let pod = job.get_mut("template").and_then(|template| template.get_mut("spec"));
    if let Some(Value::Object(pod)) = pod {
        pod.remove("tolerations");
        pod.remove("nodeSelector");
        if let Some(Value::Array(containers)) = pod.get_mut("containers") {
            for container in containers.iter_mut().filter(|container| name_of(container) == Some(PROFILER)) {
                container.as_object_mut().map(|fields| fields.remove("resources"));
            }
        }
    }
    job
}

/// Returns the edits that restore v1beta1's saved data.
pub(super) fn beta_edits(saved: &Object) -> Vec<RestoreEdit<'_>> {
    let mut edits: Vec<RestoreEdit<'_>> = Vec::new();
    for path in BETA_ONLY {
        if let Some(value) = at(saved, path).filter(|value| !is_empty(value)) {
            edits.push(Box::new(move |body| put_in_part(body, path, value)));
        }
    }
    if let Some(Value::Object(job)) = at(saved, JOB) {
        edits.push(Box::new(move |body| put_job(body, job)));
    }
    if let Some(Value::Object(mocker)) = at(saved, MOCKER)
        && !is_true(mocker, "enabled")
    {
        edits.push(Box::new(move |body| fill_in_part(body, MOCKER, mocker)));
    }
    if let Some(status) = object(saved, "status") {
        edits.extend(status_edits(status));
    }
    edits
}

/// The saved job, with what the live one says over it.
fn put_job(body: &mut Object, saved: &Object) {
    let mut whole = at(body, JOB).and_then(Value::as_object).cloned().unwrap_or_default();
    let containers: SavedPath = &["template", "spec", "containers"];
    let live = at(&whole, containers).and_then(Value::as_array).cloned().unwrap_or_default();
    fill(&mut whole, saved);
    if let Some(Value::Array(listed)) = at(saved, containers).cloned() {
        put(&mut whole, containers, Some(Value::Array(join_containers(listed, &live))));
    }
    put_in_part(body, JOB, &Value::Object(whole));
}

fn join_containers(mut saved: Vec<Value>, live: &[Value]) -> Vec<Value> {
    for container in live.iter().filter_map(Value::as_object) {
        let name = text(container, "name");
        let unnamed = saved.iter().position(|saved| name_of(saved).is_none_or(str::is_empty));
        let known = saved.iter().position(|saved| name_of(saved) == name).or(unnamed);
        match known.and_then(|index| saved.get_mut(index)) {
            Some(Value::Object(into)) => into.extend(container.clone()),
            _ => saved.push(Value::Object(container.clone())),
        }
    }
    saved
}

fn status_edits(saved: &Object) -> Vec<RestoreEdit<'_>> {
    let mut edits: Vec<RestoreEdit<'_>> = Vec::new();
    let phase = text(saved, "phase");
    let dgd = text(saved, "dgdName");
    let of_same_graph = move |body: &Object| at(body, &["status", "dgdName"]).and_then(Value::as_str) == dgd;
    // The upstream operator saves how far profiling is only while it goes on, and then not the phase.
    let profiled_in = phase.unwrap_or("Profiling");
    if phase == Some("Deployed") {
        edits.push(Box::new(move |body| {
            if of_same_graph(body) {
                put_in_part(body, &["status", "phase"], &json!("Deployed"));
            }
        }));
    }
    for key in ["profilingPhase", "profilingJobName"] {
        if let Some(value) = text(saved, key).map(|value| json!(value)) {
            edits.push(Box::new(move |body| {
                if at(body, &["status", "phase"]).and_then(Value::as_str) == Some(profiled_in) {
                    put_in_part(body, &["status", key], &value);
                }
            }));
        }
    }
    if let Some(info) = saved.get("deploymentInfo").filter(|info| !is_empty(info)) {
        edits.push(Box::new(move |body| {
            if of_same_graph(body) {
                put_in_part(body, &["status", "deploymentInfo"], info);
            }
        }));
    }
    edits
}

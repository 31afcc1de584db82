//! The graph that a profiler proposes, with what goes with it, and the steps from the proposal to a graph that serves.

use std::collections::BTreeMap;

use api_types::{
    annotations, conditions,
    conditions::request as reason,
    conversion::{ApiVersion, convert},
    labels, names,
    typed::typed,
    v1beta1::{ComponentType, DynamoGraphDeployment, GraphState, RequestPhase},
};
use controller_kit::{conditions::find, store::controller_owner};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::at;
use crate::request::{
    model::{PlannedPhase, RequestObserved, RequestPlan},
    phase::{graph_name, graph_was_there, is_graph_of, taken},
};

/// Proposal of a profiler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generated {
    /// The graph in v1beta1, under the name that it will have.
    pub graph: Value,
    /// ConfigMaps that the graph reads, as proposed.
    pub config_maps: Vec<ConfigMap>,
    /// Kinds of other objects, which are not made.
    pub skipped: Vec<String>,
}

/// Reads a proposal; the last graph in it counts.
///
/// # Errors
/// The fault, with its path.
pub fn read(text: &str, name: &str) -> Result<Generated, String> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| format!("the profiler's output is not YAML: {error}"))?;
    let mut generated = Generated::default();
    for (index, document) in documents.into_iter().enumerate() {
        if document.is_null() {
            continue;
        }
        let at = |problem: &str| format!("document {} of the profiler's output {problem}", index + 1);
        let kind = document.get("kind").and_then(Value::as_str).ok_or_else(|| at("has no kind"))?.to_owned();
        match kind.as_str() {
            "DynamoGraphDeployment" => generated.graph = graph(document, name).map_err(|error| at(&error))?,
            "ConfigMap" => {
                let parsed = typed::<ConfigMap>(document);
                let map = parsed.map_err(|error| at(&format!("is no ConfigMap: {error}")))?;
                if map.name_any().is_empty() {
                    return Err(at("is a ConfigMap without a name"));
                }
                generated.config_maps.push(map);
            }
            _ => generated.skipped.push(kind),
        }
    }
    match generated.graph {
        Value::Null => Err("the profiler's output holds no DynamoGraphDeployment".to_owned()),
        _ => Ok(generated),
    }
}

fn graph(document: Value, name: &str) -> Result<Value, String> {
    let mut graph = convert(document, ApiVersion::V1Beta1).map_err(|error| format!("cannot be read: {error}"))?;
    if !graph.get("spec").is_some_and(Value::is_object) {
        return Err("is a DynamoGraphDeployment without spec".to_owned());
    }
    if let Some(fields) = graph.as_object_mut() {
        fields.remove("status");
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.retain(|key, _| ["labels", "annotations"].contains(&key.as_str()));
            metadata.insert("name".to_owned(), json!(name));
        }
    }
    if let Some(components) = graph.pointer_mut("/spec/components").and_then(Value::as_array_mut) {
        give_adapters(components);
    }
    Ok(graph)
}

/// A planner scales workers through their scaling adapters. Where it has proposed none, its graph gets them; graphs of
/// users are theirs.
fn give_adapters(components: &mut [Value]) {
    let type_of = |component: &Value| ComponentType::named(component.get("type")?.as_str()?);
    if !components.iter().any(|component| type_of(component) == Some(ComponentType::Planner)) {
        return;
    }
    let workers = components.iter_mut().filter(|component| type_of(component).is_some_and(ComponentType::is_worker));
    for worker in workers.filter_map(Value::as_object_mut) {
        let adapter = worker.entry("scalingAdapter").or_insert(Value::Null);
        if adapter.is_null() {
            *adapter = json!({});
        }
    }
}

/// Labels by which what is made for a request is found again.
pub fn tracking_labels(request: &str, namespace: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (labels::REQUEST_NAME.to_owned(), names::label_value(request)),
        (labels::REQUEST_NAMESPACE.to_owned(), namespace.to_owned()),
        (labels::MODEL_MANAGED_BY.to_owned(), labels::OPERATOR.to_owned()),
    ])
}

/// Gives every component the request's version of the runtime that has none of its own.
pub fn with_runtime(mut graph: Value, version: Option<&str>) -> Value {
    let Some(version) = version.filter(|version| !version.is_empty()) else { return graph };
    let components = graph.pointer_mut("/spec/components").and_then(Value::as_array_mut);
    for component in components.into_iter().flatten().filter_map(Value::as_object_mut) {
        let own = component.get("runtimeVersionOverride").and_then(Value::as_str).unwrap_or_default();
        if own.is_empty() {
            component.insert("runtimeVersionOverride".to_owned(), json!(version));
        }
    }
    graph
}

/// Makes the graph that was selected, or follows it.
pub(super) fn follow(observed: &RequestObserved) -> RequestPlan {
    let deployed = observed.status().phase == Some(RequestPhase::Deployed);
    if !observed.request.spec.auto_apply && !deployed {
        return at(PlannedPhase::Ready);
    }
    let name = graph_name(&observed.request);
    match &observed.graph {
        Some(graph) if is_graph_of(graph, &observed.request) => serving(observed, graph),
        Some(_) => {
            at(PlannedPhase::Deploying { reason: reason::NAME_TAKEN, message: taken(observed, &name), stuck: true })
        }
        None if graph_was_there(&observed.request) => at(PlannedPhase::Deleted(format!(
            "DynamoGraphDeployment {name} was deleted and is not made again; change the spec, or make a new request, to have it back"
        ))),
        None => make(observed, &name),
    }
}

fn make(observed: &RequestObserved, name: &str) -> RequestPlan {
    let message = format!("DynamoGraphDeployment {name} is being made");
    let mut plan = at(PlannedPhase::Deploying { reason: reason::DEPLOYMENT_IN_PROGRESS, message, stuck: false });
    let version = observed.request.spec.runtime_version_override.as_deref();
    let mut graph = with_runtime(observed.selected().cloned().unwrap_or_default(), version);
    if let Some(fields) = graph.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = graph.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("name".to_owned(), json!(name));
        metadata.insert("namespace".to_owned(), json!(observed.namespace));
        for (key, value) in tracking_labels(&observed.name, &observed.namespace) {
            add(metadata, "labels", &key, value);
        }
        add(metadata, "annotations", annotations::REQUEST_UID, observed.uid.clone());
    }
    plan.graph = Some(graph);
    plan
}

fn add(metadata: &mut serde_json::Map<String, Value>, what: &str, key: &str, value: String) {
    let all = metadata.entry(what).or_insert_with(|| json!({}));
    if all.is_null() {
        *all = json!({});
    }
    if let Some(all) = all.as_object_mut() {
        all.insert(key.to_owned(), Value::String(value));
    }
}

fn serving(observed: &RequestObserved, graph: &DynamoGraphDeployment) -> RequestPlan {
    let status = graph.status.as_ref();
    let successful = status.is_some_and(|status| status.state == GraphState::Successful);
    let before = observed.status();
    let known = find(&before.conditions, reason::DEPLOYMENT_READY).map(|found| found.reason.as_str());
    let degraded = before.phase == Some(RequestPhase::Deployed) || known == Some(reason::DEPLOYMENT_DEGRADED);
    let phase = if successful {
        PlannedPhase::Deployed
    } else {
        let reason = if degraded { reason::DEPLOYMENT_DEGRADED } else { reason::DEPLOYMENT_IN_PROGRESS };
        let words = status.and_then(|status| find(&status.conditions, conditions::READY));
        let words = words.map(|found| format!(": {}", found.message)).unwrap_or_default();
        let message = format!("DynamoGraphDeployment {} does not serve{words}", graph.name_any());
        PlannedPhase::Deploying { reason, message, stuck: false }
    };
    let mut plan = at(phase);
    if graph.metadata.deletion_timestamp.is_none() {
        let orphans = observed.config_maps.iter().filter(|map| is_to_be_handed_over(map, observed));
        plan.hand_over = orphans.cloned().collect();
    }
    plan
}

/// ConfigMaps of the proposal that have no owner, except the one to which the profiler's output is copied.
fn is_to_be_handed_over(map: &ConfigMap, observed: &RequestObserved) -> bool {
    map.name_any() != names::profiling_output(&observed.name)
        && controller_owner(map).is_none()
        && map.metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAPH: &str = "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata: {name: theirs, uid: x}\n\
                         spec: {components: [{name: A}, {name: B, runtimeVersionOverride: 1.2.3}]}\nstatus: {}\n";
    const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: data}\ndata: {a: b}\n";

    #[test]
    fn a_proposal_is_a_graph_and_its_config_maps() {
        let text = format!("{MAP}---\n{GRAPH}---\napiVersion: v1\nkind: Secret\n---\n");
        let generated = read(&text, "chat-dgd").unwrap();
        assert_eq!(generated.graph["metadata"], json!({ "name": "chat-dgd" }));
        assert!(generated.graph.get("status").is_none());
        assert_eq!(generated.config_maps[0].name_any(), "data");
        assert_eq!(generated.skipped, ["Secret"]);
    }

    #[test]
    fn a_graph_of_the_older_version_is_converted() {
        let text = "apiVersion: nvidia.com/v1alpha1\nkind: DynamoGraphDeployment\n\
                    spec: {services: {Frontend: {componentType: frontend}}}\n";
        let graph = read(text, "g").unwrap().graph;
        assert_eq!(graph["apiVersion"], "nvidia.com/v1beta1");
        assert_eq!(graph["spec"]["components"][0]["name"], "Frontend");
    }

    /// Field report 30: the graph of a request had a planner, and nothing through which it could scale.
    #[test]
    fn a_proposal_with_a_planner_has_scaling_adapters() {
        let adapters = |types: &[&str]| -> Vec<Value> {
            let component = |type_: &&str| json!({ "name": format!("a-{type_}"), "type": type_ });
            let components: Vec<_> = types.iter().map(component).collect();
            let graph = json!({ "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
                "spec": { "components": components } });
            let graph = read(&graph.to_string(), "g").unwrap().graph;
            let components = graph["spec"]["components"].as_array().unwrap();
            components.iter().map(|component| component["scalingAdapter"].clone()).collect()
        };
        let (none, one) = (Value::Null, json!({}));
        let planned = adapters(&["frontend", "prefill", "decode", "worker", "planner"]);
        assert_eq!(planned, [none.clone(), one.clone(), one.clone(), one, none.clone()]);
        assert_eq!(adapters(&["frontend", "worker"]), [none.clone(), none]);
    }

    /// The upstream operator skips documents that it cannot read, and may read them for ever.
    #[test]
    fn a_broken_document_is_reported_and_not_skipped() {
        let broken = |text: &str| read(text, "g").unwrap_err();
        assert!(broken(&format!("{GRAPH}---\n{{\n")).contains("not YAML"));
        assert!(
            broken(&format!("{GRAPH}---\nmetadata: {{}}\n"))
                .contains("document 2 of the profiler's output has no kind")
        );
        assert!(broken(MAP).contains("no DynamoGraphDeployment"));
        assert!(broken("").contains("no DynamoGraphDeployment"));
        let future = GRAPH.replace("v1beta1", "v2");
        assert!(broken(&future).contains("document 1 of the profiler's output cannot be read"), "{}", broken(&future));
        assert!(broken("kind: ConfigMap\ndata: 5\n").contains("is no ConfigMap"));
    }

    #[test]
    fn a_components_own_runtime_wins() {
        let graph = with_runtime(read(GRAPH, "g").unwrap().graph, Some("9.9.9"));
        assert_eq!(graph["spec"]["components"][0]["runtimeVersionOverride"], "9.9.9");
        assert_eq!(graph["spec"]["components"][1]["runtimeVersionOverride"], "1.2.3");
    }
}

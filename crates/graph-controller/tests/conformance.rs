//! The components that we make of real graphs, compared with what the upstream operator made of them.
//!
//! Needs the conformance kit: `DYNAMO_CONFORMANCE_DIR`, or `../shared/conformance` beside the repository.

#![allow(clippy::unwrap_used, reason = "a panic is how helpers of tests fail")]

mod conformance_kit;

use std::collections::BTreeMap;

use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use conformance_kit::{Case, differ};
use graph_controller::graph::{model::GraphObserved, plan::plan, settings::GraphSettings, validate::validate};
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};
use test_cluster::conformance_kit;

fn components_of(case: &Case) -> impl Iterator<Item = &Value> {
    case.objects("DynamoComponentDeployment").filter(|o| owner(o)["kind"] == "DynamoGraphDeployment")
}

fn owner(object: &Value) -> &Value {
    &object["metadata"]["ownerReferences"][0]
}

/// Returns the object without the parts that the comparison ignores: revision suffixes, bookkeeping, defaults that the
/// API server fills in.
fn comparable(object: &Value) -> Value {
    let mut text = object.to_string();
    if let Some(suffix) = object.pointer("/metadata/labels/nvidia.com~1dynamo-worker-hash").and_then(Value::as_str) {
        text = text.replace(suffix, "<revision>");
    }
    let mut value: Value = serde_json::from_str(&text).unwrap();
    if let Some(metadata) = value.as_object_mut().unwrap().remove("metadata") {
        value["labels"] = metadata["labels"].clone();
        value["name"] = metadata["name"].clone();
    }
    clean(&mut value);
    value
}

fn clean(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, v| {
                // The upstream operator writes out what is left out of an endpoint picker's configuration.
                let spelt_out = key == "eppConfig";
                let bookkeeping = key == "nvidia.com/dynamo-operator-origin-version" || key == "status";
                let default = key == "protocol" && *v == "TCP";
                !(bookkeeping || default || spelt_out)
            });
            map.values_mut().for_each(clean);
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        _ => {}
    }
}

fn observed(graph: &DynamoGraphDeployment, components: Vec<DynamoComponentDeployment>) -> GraphObserved {
    GraphObserved { components, ..GraphObserved::new(graph.clone()) }
}

#[test]
fn real_graphs_give_the_references_components() {
    let Some(kit) = conformance_kit() else { return };
    let (settings, mut wrong) = (GraphSettings::default(), BTreeMap::new());
    let mut equal = 0;
    for case in conformance_kit::cases(&kit, "base") {
        if components_of(&case).next().is_none() {
            continue;
        }
        let mut got = BTreeMap::new();
        for (graph, _) in case.graphs(&kit) {
            let seen = observed(&graph, vec![]);
            match validate(&seen, &settings) {
                Err(obstacle) => {
                    wrong.insert(case.name.clone(), format!("refused: {}", obstacle.message));
                }
                Ok(valid) => {
                    got.extend(plan(&valid, &seen, Timestamp::UNIX_EPOCH).components.iter().map(named));
                }
            }
        }
        if got.is_empty() {
            continue;
        }
        let expected: BTreeMap<String, Value> = components_of(&case).map(|o| (name_of(o), comparable(o))).collect();
        equal += expected.iter().filter(|(key, expected)| got.get(*key) == Some(*expected)).count();
        let keys = expected.keys().chain(got.keys());
        for key in keys {
            let of = |all: &BTreeMap<String, Value>| all.get(key).cloned().unwrap_or_default();
            let mut lines = Vec::new();
            differ(&of(&expected), &of(&got), "", &mut lines);
            if !lines.is_empty() {
                wrong.insert(format!("{} {key}", case.name), lines.join("\n  "));
            }
        }
    }
    println!("{equal} components equal");
    assert!(equal > 400, "only {equal} components were equal");
    let shown: String = wrong.iter().take(12).map(|(k, v)| format!("{k}:\n  {v}\n")).collect();
    assert!(wrong.is_empty(), "{} differences:\n{shown}", wrong.len());
}

fn named(d: &DynamoComponentDeployment) -> (String, Value) {
    let mut value = json!(d);
    value["apiVersion"] = json!("nvidia.com/v1beta1");
    value["kind"] = json!("DynamoComponentDeployment");
    (name_of(&value), comparable(&value))
}

fn name_of(o: &Value) -> String {
    let name = o["metadata"]["name"].as_str().unwrap();
    match o.pointer("/metadata/labels/nvidia.com~1dynamo-worker-hash").and_then(Value::as_str) {
        Some(revision) => name.replace(revision, "<revision>"),
        None => name.to_owned(),
    }
}

/// The way back. The upstream operator looks for the live revision in the graph's annotation, in the names of workers,
/// and in their labels and those of their pods, and computes its own digest if it finds none.
#[test]
fn what_is_left_is_what_the_reference_reads() {
    let Some(kit) = conformance_kit() else { return };
    let (settings, mut graphs, mut workers) = (GraphSettings::default(), 0, 0);
    for case in conformance_kit::cases(&kit, "base") {
        for (mut graph, _) in case.graphs(&kit) {
            // What another revision has left.
            graph.annotations_mut().insert("nvidia.com/current-worker-hash-v2".to_owned(), "0ther000".to_owned());
            let seen = observed(&graph, vec![]);
            let Ok(valid) = validate(&seen, &settings) else { continue };
            let mut made = plan(&valid, &seen, Timestamp::UNIX_EPOCH).components;
            for d in &mut made {
                d.metadata.uid = Some(d.name_any());
                d.metadata.owner_references = Some(vec![graph.controller_owner_ref(&()).unwrap()]);
            }
            let plan = plan(&valid, &observed(&graph, made.clone()), Timestamp::UNIX_EPOCH);
            let Some(suffix) = plan.rollout.target.as_ref().map(ToString::to_string) else { continue };
            let noted = |note: Option<&str>, digest: Option<&str>| {
                let mut metadata = graph.metadata.clone();
                let notes = metadata.annotations.get_or_insert_default();
                notes.entry("nvidia.com/workload-provider".to_owned()).or_insert("component".to_owned());
                for (key, value) in [("current-worker-hash", note), ("current-worker-hash-v2", digest)] {
                    let key = format!("nvidia.com/{key}");
                    notes.remove(&key);
                    notes.extend(value.map(|value| (key, value.to_owned())));
                }
                plan.bookkeeping.holds_in(&metadata)
            };
            assert!(noted(Some(&suffix), None), "{}", case.name);
            assert!(!noted(None, None) && !noted(Some(&suffix), Some("0ther000")), "{}", case.name);
            for worker in made.iter().filter(|d| d.spec.component.is_worker()) {
                let template = worker.spec.component.pod_template.as_ref().and_then(|t| t.metadata.as_ref());
                let of_pods = template.and_then(|metadata| metadata.labels.as_ref()).unwrap();
                for labels in [worker.labels(), of_pods] {
                    assert_eq!(labels["nvidia.com/dynamo-worker-hash"], suffix, "{}", case.name);
                }
                let name = format!("{}-{}-{suffix}", graph.name_any(), worker.spec.component.name.to_lowercase());
                assert_eq!(worker.name_any(), name, "{}", case.name);
                workers += 1;
            }
            graphs += 1;
        }
    }
    println!("{workers} workers of {graphs} graphs");
    assert!(graphs > 150 && workers > graphs, "only {workers} workers of {graphs} graphs");
}

//! The components that we make of real graphs, compared with what the reference made of them.
//!
//! Needs the conformance kit: `DYNAMO_CONFORMANCE_DIR`, or `../shared/conformance` beside the repository.

#![allow(clippy::unwrap_used, reason = "a panic is how helpers of tests fail")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use graph_controller::graph::decide::decide;
use graph_controller::graph::observe::Observed;
use graph_controller::graph::validate::{DiscoveryBackend, validate};
use serde_json::{Value, json};

fn kit() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance");
    let kit = std::env::var_os("DYNAMO_CONFORMANCE_DIR").map_or(beside, PathBuf::from);
    kit.join("tier1.txt").exists().then_some(kit)
}

fn graphs_of(kit: &Path, case: &Value) -> Vec<DynamoGraphDeployment> {
    let file = kit.join("input").join(case["example"].as_str().unwrap());
    let text = std::fs::read_to_string(file).unwrap();
    let text = text.replace(":my-tag", ":1.5.0").replace(":<IMAGE_TAG>", ":1.5.0");
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let graphs = documents.into_iter().filter(|d| d["kind"] == "DynamoGraphDeployment");
    graphs
        .map(|mut d| {
            d["metadata"]["namespace"] = case["namespace"].clone();
            d["metadata"]["uid"] = json!("uid");
            serde_json::from_value(d).unwrap()
        })
        .collect()
}

/// What the comparison leaves open: generation suffixes, bookkeeping, defaults that the API server fills in.
fn comparable(object: &Value) -> Value {
    let mut text = object.to_string();
    if let Some(suffix) = object.pointer("/metadata/labels/nvidia.com~1dynamo-worker-hash").and_then(Value::as_str) {
        text = text.replace(suffix, "<generation>");
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
                let bookkeeping = key == "nvidia.com/dynamo-operator-origin-version" || key == "status";
                let default = key == "protocol" && *v == "TCP";
                !(bookkeeping || default)
            });
            map.values_mut().for_each(clean);
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        _ => {}
    }
}

#[test]
fn real_graphs_give_the_references_components() {
    let Some(kit) = kit() else {
        println!("skipped: no conformance kit");
        return;
    };
    let tier1 = std::fs::read_to_string(kit.join("tier1.txt")).unwrap();
    let mut wrong = BTreeMap::new();
    for name in tier1.split_whitespace() {
        let text = std::fs::read_to_string(kit.join("expected/base").join(name)).unwrap();
        let case: Value = serde_json::from_str(&text).unwrap();
        let mut got = BTreeMap::new();
        for graph in graphs_of(&kit, &case) {
            match validate(&graph, DiscoveryBackend::Kubernetes) {
                Err(refusal) => {
                    wrong.insert(name.to_owned(), format!("refused: {}", refusal.message));
                }
                Ok(valid) => {
                    let observed = Observed { graph: graph.clone(), components: vec![], running_pods: BTreeMap::new() };
                    got.extend(decide(&valid, &observed).components.iter().map(named));
                }
            }
        }
        let objects = case["objects"].as_array().unwrap().iter();
        let expected: BTreeMap<String, Value> = objects
            .filter(|o| o["kind"] == "DynamoComponentDeployment")
            .map(|o| (component_name(o), comparable(o)))
            .collect();
        let keys = expected.keys().chain(got.keys());
        for key in keys.filter(|key| expected.get(*key) != got.get(*key)) {
            wrong.insert(
                format!("{name} {key}"),
                format!(
                    "\n  expected {:?}\n  got      {:?}",
                    expected.get(key).map(ToString::to_string),
                    got.get(key).map(ToString::to_string)
                ),
            );
        }
    }
    let shown: String = wrong.iter().take(5).map(|(k, v)| format!("{k}: {v}\n")).collect();
    assert!(wrong.is_empty(), "{} differences:\n{shown}", wrong.len());
}

fn named(d: &DynamoComponentDeployment) -> (String, Value) {
    let mut value = json!(d);
    value["apiVersion"] = json!("nvidia.com/v1beta1");
    value["kind"] = json!("DynamoComponentDeployment");
    (component_name(&value), comparable(&value))
}

fn component_name(o: &Value) -> String {
    o["spec"]["name"].as_str().unwrap_or_default().to_owned()
}

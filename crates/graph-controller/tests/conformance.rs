//! The components that we make of real graphs, compared with what the reference made of them.
//!
//! Needs the conformance kit: `DYNAMO_CONFORMANCE_DIR`, or `../shared/conformance` beside the repository.

#![allow(clippy::unwrap_used, reason = "a panic is how helpers of tests fail")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use api_types::conversion::{ApiVersion, convert};
use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use graph_controller::graph::decide::decide;
use graph_controller::graph::observe::grove::LiveGrove;
use graph_controller::graph::observe::{Observed, Served};
use graph_controller::graph::program::Program;
use graph_controller::graph::settings::Settings;
use graph_controller::graph::validate::{Facts, validate};
use serde_json::{Value, json};

fn kit() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance");
    let kit = std::env::var_os("DYNAMO_CONFORMANCE_DIR").map_or(beside, PathBuf::from);
    kit.join("tier1.txt").exists().then_some(kit)
}

fn graphs_of(kit: &Path, case: &Value) -> Vec<DynamoGraphDeployment> {
    let file = kit.join("input").join(case["example"].as_str().unwrap());
    let text = std::fs::read_to_string(file).unwrap();
    let text = [":my-tag", ":<IMAGE_TAG>"].iter().fold(text, |text, tag| text.replace(tag, ":1.5.0"));
    let images = ["${DYNAMO_IMAGE}", "${DYNAMO_VLLM_IMAGE}", "${IMAGE}"];
    let text =
        images.iter().fold(text, |text, image| text.replace(image, "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.0"));
    let options = serde_saphyr::options! { emit_comments: false };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(&text, options).unwrap();
    let graphs = documents.into_iter().filter(|d| d["kind"] == "DynamoGraphDeployment" && was_served(case, d));
    graphs
        .map(|d| convert(d, ApiVersion::V1Beta1).unwrap())
        .map(|mut d| {
            d["metadata"]["namespace"] = case["namespace"].clone();
            d["metadata"]["uid"] = json!("uid");
            serde_json::from_value(d).unwrap()
        })
        .collect()
}

/// Whether the reference took a graph and made all its components.
fn was_served(case: &Value, graph: &Value) -> bool {
    let name = &graph["metadata"]["name"];
    let served = |o: &Value| o["name"] == *name && o["v1beta1"]["status"]["state"] != "failed";
    let kind = "DynamoGraphDeployment";
    case["crs"].as_array().unwrap().iter().any(|o| o["kind"] == kind && served(o))
}

fn components_of(case: &Value) -> impl Iterator<Item = &Value> {
    let objects = case["objects"].as_array().unwrap().iter();
    objects.filter(|o| o["kind"] == "DynamoComponentDeployment" && owner(o)["kind"] == "DynamoGraphDeployment")
}

fn owner(object: &Value) -> &Value {
    &object["metadata"]["ownerReferences"][0]
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
                // The reference writes out what is left out of an endpoint picker's configuration.
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

#[test]
fn real_graphs_give_the_references_components() {
    let Some(kit) = kit() else {
        println!("skipped: no conformance kit");
        return;
    };
    let (settings, mut wrong) = (Settings::default(), BTreeMap::new());
    let mut equal = 0;
    for entry in std::fs::read_dir(kit.join("expected/base")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let case: Value = serde_json::from_str(&text).unwrap();
        if components_of(&case).next().is_none() {
            continue;
        }
        let mut got = BTreeMap::new();
        for graph in graphs_of(&kit, &case) {
            match validate(&graph, &settings, Facts::default()) {
                Err(refusal) => {
                    wrong.insert(name.to_owned(), format!("refused: {}", refusal.message));
                }
                Ok(valid) => {
                    let observed = Observed {
                        graph: graph.clone(),
                        components: vec![],
                        adapters: vec![],
                        running_pods: BTreeMap::new(),
                        served: Served::default(),
                        grove: LiveGrove::default(),
                        program: Program::Component,
                    };
                    got.extend(decide(&valid, &observed).components.iter().map(named));
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
                wrong.insert(format!("{name} {key}"), lines.join("\n  "));
            }
        }
    }
    println!("{equal} components equal");
    assert!(equal > 400, "only {equal} components were equal");
    let shown: String = wrong.iter().take(12).map(|(k, v)| format!("{k}:\n  {v}\n")).collect();
    assert!(wrong.is_empty(), "{} differences:\n{shown}", wrong.len());
}

/// One line for each field that differs.
fn differ(expected: &Value, got: &Value, path: &str, lines: &mut Vec<String>) {
    match (expected, got) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
            for key in keys {
                differ(&expected[key], &got[key], &format!("{path}.{key}"), lines);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (expected, got)) in one.iter().zip(other).enumerate() {
                differ(expected, got, &format!("{path}[{index}]"), lines);
            }
        }
        _ if expected != got => lines.push(format!("{path}: expected {expected}, got {got}")),
        _ => {}
    }
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
        Some(generation) => name.replace(generation, "<generation>"),
        None => name.to_owned(),
    }
}

//! Objects that the reference stored.

use serde_json::{Value, json};

use crate::{
    law::{KINDS, there},
    support,
};

/// Returns the results of the reference for the kit's files on a plain cluster; none if the kit does not exist.
fn expected() -> Vec<support::Input> {
    let Some(kit) = test_cluster::conformance_kit() else { return Vec::new() };
    let mut files: Vec<_> =
        std::fs::read_dir(kit.join("expected/base")).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let read = |file: std::path::PathBuf| support::Input {
        object: serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap(),
        origin: file.display().to_string(),
    };
    files.into_iter().map(read).collect()
}

/// Whether nothing is given at the place, or something that Go leaves out.
fn says_nothing(place: &support::Difference) -> bool {
    let empty = [json!(""), json!({}), json!([])];
    place.given.as_ref().is_none_or(|given| empty.contains(given))
}

/// Whether a place is in the variables of the main container. The reference's graph controller puts those of the graph
/// in front of them after conversion.
fn is_variable(place: &support::Difference) -> bool {
    place.path.starts_with(".envs") || place.path.ends_with(".env") || place.path.contains(".env[")
}

/// The components that the reference stored for a graph, with the payloads that it wrote.
fn stored_components(case: &Value) -> Vec<Value> {
    let objects = case["objects"].as_array().into_iter().flatten();
    let stored = objects.filter(|object| object["kind"] == KINDS[1] && object["apiVersion"] == "nvidia.com/v1beta1");
    stored.cloned().collect()
}

#[test]
fn components_stored_by_the_reference_come_back() {
    for input in expected() {
        for stored in stored_components(&input.object) {
            let alpha = there(&stored);
            assert_eq!(there(&alpha)["spec"], stored["spec"], "{}", input.origin);
            let Some(payload) = stored["metadata"]["annotations"]["nvidia.com/dcd-spec"].as_str() else { continue };
            let payload: Value = serde_json::from_str(payload).unwrap();
            let mut missing = support::differences(&payload["spec"], &alpha["spec"]);
            missing.retain(|place| !says_nothing(place) && !is_variable(place));
            assert_eq!(missing, [], "{}: {:#}", input.origin, alpha["spec"]);
        }
    }
}

/// A pod as the reference stores it: quantities in their shortest form, and images with the version filled in.
fn comparable(mut pod: Value) -> Value {
    for container in pod["containers"].as_array_mut().into_iter().flatten() {
        container["image"] = Value::Null;
    }
    pod
}

#[test]
fn services_become_what_the_reference_stored() {
    let mut compared = 0;
    let graphs = support::inputs("v1alpha1", KINDS[0]);
    for case in expected() {
        let Some(example) = case.object["example"].as_str() else { continue };
        for graph in graphs.iter().filter(|graph| graph.origin.contains(&format!("/{example} ["))) {
            let converted = there(&graph.object);
            for component in converted["spec"]["components"].as_array().into_iter().flatten() {
                let stored = stored_components(&case.object).into_iter().find(|stored| {
                    let labels = &stored["metadata"]["labels"];
                    labels["nvidia.com/dynamo-component"] == component["name"]
                        && labels["nvidia.com/dynamo-graph-deployment-name"] == graph.object["metadata"]["name"]
                });
                let Some(stored) = stored else { continue };
                let pod = |component: &Value| comparable(component["podTemplate"]["spec"].clone());
                let mut differences = support::differences(&pod(component), &pod(&stored["spec"]));
                // Defaults of the API server and what the operator adds; and the reference drops what is empty.
                differences.retain(|place| !says_nothing(place) && !is_variable(place));
                assert_eq!(differences, [], "{example}: {}", component["name"]);
                for key in
                    ["name", "type", "replicas", "sharedMemorySize", "multinode", "compilationCache", "frontendSidecar"]
                {
                    assert_eq!(component.get(key), stored["spec"].get(key), "{example}: {}.{key}", component["name"]);
                }
                compared += 1;
            }
        }
    }
    assert!(compared > 50 || graphs.is_empty(), "only {compared} services compared");
}

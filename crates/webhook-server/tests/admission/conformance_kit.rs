//! The inputs of the conformance kit: what the reference refuses is refused at the same fields, what it admits is
//! admitted.

use std::{collections::BTreeMap, path::PathBuf, sync::LazyLock};

use api_types::{
    conversion::{ApiVersion, convert},
    violations::Violation,
};
use serde_json::Value;
use test_cluster::conformance_kit;
use webhook_server::admission::{AdmissionPath, Answer, Facts, review};

use crate::support::{change, conformance_kit::documents, creation, facts, facts_with, patched, validates};

/// Kinds with a path for defaults.
fn defaults(kind: &str) -> Option<AdmissionPath> {
    match kind {
        "DynamoGraphDeployment" => Some(AdmissionPath::DefaultGraph),
        "DynamoComponentDeployment" => Some(AdmissionPath::DefaultComponent),
        "DynamoGraphDeploymentRequest" => Some(AdmissionPath::DefaultRequest),
        _ => None,
    }
}

/// Result of the reference for one input.
struct Case {
    expected: Value,
    documents: Vec<Value>,
}

static BASE: LazyLock<Vec<Case>> = LazyLock::new(|| read("base"));
static GROVE: LazyLock<Vec<Case>> = LazyLock::new(|| read("grove"));

fn read(mode: &str) -> Vec<Case> {
    let Some(kit) = conformance_kit() else { return Vec::new() };
    let mut files: Vec<_> =
        std::fs::read_dir(kit.join("expected").join(mode)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let case = |file: &PathBuf| {
        let expected: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let text = std::fs::read_to_string(kit.join("input").join(expected["example"].as_str().unwrap())).unwrap();
        let documents = documents(&text, expected["namespace"].as_str().unwrap());
        Case { expected, documents }
    };
    files.iter().map(case).collect()
}

/// All inputs; none without the kit.
pub fn inputs() -> Vec<Value> {
    BASE.iter().flat_map(|case| case.documents.clone()).collect()
}

/// The object as it reaches validation.
fn with_defaults(document: &Value, facts: &Facts) -> Value {
    let path = defaults(document["kind"].as_str().unwrap());
    path.map_or_else(|| document.clone(), |path| patched(path, &creation(document.clone()), facts))
}

/// Fields at which the reference refuses, where ours says more precisely which it is.
fn same_field(expected: &str, errors: &[String]) -> bool {
    let decoder_path = "spec.services.extraPodSpec.PodSpec.nodeSelector";
    let named = |field: &str| errors.iter().any(|error| error.contains(field));
    if expected == decoder_path { named("extraPodSpec.nodeSelector: Invalid") } else { named(expected) }
}

fn check(cases: &[Case], facts: &Facts) {
    let (mut wrong, mut seen) = (Vec::new(), BTreeMap::<bool, u32>::new());
    for Case { expected, documents } in cases {
        for document in documents {
            let kind = document["kind"].as_str().unwrap();
            let Some(path) = validates(kind) else { continue };
            let applied = expected["applied"].as_array().unwrap();
            let same = |a: &&Value| a["kind"] == document["kind"] && a["name"] == document["metadata"]["name"];
            let outcome = applied.iter().rfind(same).unwrap();
            let answer = review(path, &creation(with_defaults(document, facts)), facts);
            let errors: Vec<String> = match &answer {
                Answer::Allow { .. } => Vec::new(),
                Answer::Deny { violations, .. } => violations.iter().map(Violation::in_status).collect(),
            };
            let admitted = outcome["ok"].as_bool().unwrap();
            *seen.entry(admitted).or_default() += 1;
            let fields: Vec<_> =
                outcome["fields"].as_array().into_iter().flatten().map(|f| f.as_str().unwrap()).collect();
            if admitted != errors.is_empty() || !fields.iter().all(|field| same_field(field, &errors)) {
                wrong
                    .push(format!("{} {}: expected {outcome}, got {errors:#?}", expected["example"], document["kind"]));
            } else if !admitted
                && errors.len() != fields.len().max(1)
                && !fields.contains(&"spec.services.extraPodSpec.PodSpec.nodeSelector")
            {
                wrong.push(format!("{}: more than {fields:?}: {errors:#?}", expected["example"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong of {seen:?}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_plain_cluster_admits_and_refuses_the_same() {
    check(&BASE, &facts());
}

#[test]
fn a_cluster_with_grove_admits_and_refuses_the_same() {
    check(&GROVE, &facts_with(|features| features.grove = true));
}

#[test]
fn a_cluster_with_leader_worker_sets_admits_the_same() {
    check(&read("lws"), &facts_with(|features| features.lws = true));
}

#[test]
fn a_cluster_with_checkpoints_admits_the_same() {
    check(&read("ckpt"), &facts_with(|features| features.checkpoint = true));
}

/// Objects that users send today are treated alike in both versions.
#[test]
fn both_versions_of_a_graph_get_the_same_answer() {
    for facts in [facts(), facts_with(|features| features.grove = true)] {
        for case in BASE.iter() {
            for document in case.documents.iter().filter(|d| d["kind"] == "DynamoGraphDeployment") {
                let there = match document["apiVersion"].as_str().unwrap() {
                    "nvidia.com/v1beta1" => ApiVersion::V1Alpha1,
                    _ => ApiVersion::V1Beta1,
                };
                let other = convert(document.clone(), there).unwrap();
                let admits = |object: &Value| {
                    let request = creation(with_defaults(object, &facts));
                    matches!(review(AdmissionPath::ValidateGraph, &request, &facts), Answer::Allow { .. })
                };
                assert_eq!(admits(document), admits(&other), "{}", case.expected["example"]);
            }
        }
    }
}

/// Defaults are given once: what has been admitted is not changed again, and may be sent again.
#[test]
fn admitted_objects_stay_as_they_are() {
    for facts in [facts(), facts_with(|features| features.grove = true)] {
        for document in BASE.iter().flat_map(|case| &case.documents) {
            let kind = document["kind"].as_str().unwrap();
            let (Some(default), Some(validate)) = (defaults(kind), validates(kind)) else { continue };
            let object = with_defaults(document, &facts);
            let again = change(object.clone(), object.clone());
            assert_eq!(patched(default, &again, &facts), object);
            let answer = review(validate, &again, &facts);
            assert!(matches!(answer, Answer::Allow { .. }), "{}: {answer:?}", document["metadata"]["name"]);
        }
    }
}

/// Graphs that the reference made by itself were given their defaults by its webhook.
#[test]
fn graphs_get_the_defaults_that_the_reference_gave_them() {
    let mut compared = 0;
    for (cases, facts) in [(&BASE, facts()), (&GROVE, facts_with(|features| features.grove = true))] {
        for case in cases.iter() {
            let objects = case.expected["objects"].as_array().unwrap().iter();
            for recorded in objects.filter(|object| object["kind"] == "DynamoGraphDeployment") {
                let mut bare = recorded.clone();
                let annotations = bare["metadata"]["annotations"].as_object_mut().unwrap();
                annotations.retain(|key, _| {
                    key != "nvidia.com/workload-provider" && key != "nvidia.com/dynamo-operator-origin-version"
                });
                let version = &recorded["metadata"]["annotations"]["nvidia.com/dynamo-operator-origin-version"];
                let facts = Facts { operator_version: version.as_str().unwrap().to_owned(), ..facts.clone() };
                for component in bare["spec"]["components"].as_array_mut().unwrap() {
                    let fields = component.as_object_mut().unwrap();
                    fields.retain(|key, value| !(["replicas", "minAvailable"].contains(&key.as_str()) && *value == 1));
                }
                assert_eq!(&patched(AdmissionPath::DefaultGraph, &creation(bare), &facts), recorded);
                compared += 1;
            }
        }
    }
    assert!(conformance_kit().is_none() || compared > 0);
}

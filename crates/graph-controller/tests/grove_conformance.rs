//! The PodCliqueSets and Services that we make of real graphs, compared with what the upstream operator made of them.
//!
//! Needs the conformance kit: `DYNAMO_CONFORMANCE_DIR`, or `../shared/conformance` beside the repository.

#![allow(clippy::unwrap_used, reason = "a panic is how helpers of tests fail")]

mod conformance_kit;

use std::collections::BTreeMap;

use api_types::{
    grove::PodCliqueSet,
    v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentStatus},
};
use conformance_kit::{Case, differ};
use graph_controller::graph::{
    model::{ClusterApis, GraphObserved, GraphPlan, LiveGrove},
    observe::grove::unknown_types,
    plan::plan,
    settings::{GraphSettings, Grove},
    validate::validate,
};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use rendering::{WorkloadProvider, is_operators_program};
use serde_json::{Value, json};
use test_cluster::conformance_kit;

/// The configuration of the upstream operator's chart, under which the cases were recorded.
fn settings() -> GraphSettings {
    let grove = Grove { enabled: true, termination_delay: Some("4h0m0s".to_owned()), ..Grove::default() };
    GraphSettings { grove, ..GraphSettings::default() }
}

fn planned(graph: &DynamoGraphDeployment, stored: &Value, live: Option<PodCliqueSet>) -> Result<GraphPlan, String> {
    let (sets, unknown_types) = (live.into_iter().collect(), unknown_types(stored, graph.annotations()));
    let observed = GraphObserved {
        served: ClusterApis { grove: true, ..ClusterApis::default() },
        grove: LiveGrove { sets, unknown_types, ..LiveGrove::default() },
        provider: WorkloadProvider::Grove,
        ..GraphObserved::new(graph.clone())
    };
    let settings = settings();
    let valid = validate(&observed, &settings).map_err(|obstacle| obstacle.message)?;
    Ok(plan(&valid, &observed, Timestamp::UNIX_EPOCH))
}

/// Annotations and labels in which an implementation is free.
fn is_free(key: &str) -> bool {
    let bookkeeping = ["nvidia.com/last-applied-", "nvidia.com/current-worker-hash", "operator.dynamo/"];
    bookkeeping.iter().any(|prefix| key.starts_with(prefix)) || key == "nvidia.com/dynamo-operator-origin-version"
}

/// Returns the object without the parts that the comparison ignores, and without those that the API server fills in.
fn comparable(object: &Value, revision: Option<&str>) -> Value {
    let text = object.to_string();
    let text = revision.map_or(text.clone(), |suffix| text.replace(suffix, "<revision>"));
    let mut value: Value = serde_json::from_str(&text).unwrap();
    let fields = value.as_object_mut().unwrap();
    for server in ["status", "apiVersion", "kind"] {
        fields.remove(server);
    }
    let metadata = fields["metadata"].as_object_mut().unwrap();
    metadata.retain(|key, _| ["name", "namespace", "labels", "annotations"].contains(&key.as_str()));
    clean(&mut value);
    value
}

fn clean(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for kind in ["labels", "annotations"] {
                if let Some(Value::Object(texts)) = map.get_mut(kind) {
                    texts.retain(|key, _| !is_free(key));
                }
            }
            map.values_mut().for_each(clean);
            map.retain(|key, v| {
                let nothing = v.is_null() || (["labels", "annotations"].contains(&key.as_str()) && *v == json!({}));
                !(nothing || (key == "name" && *v == ""))
            });
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        _ => {}
    }
}

/// The program text of pods is an implementation's own.
fn mask_programs(value: &mut Value) {
    match value {
        Value::String(text) if text == "<mpi-launch>" || is_operators_program(text) => *text = "<program>".to_owned(),
        Value::Array(items) => items.iter_mut().for_each(mask_programs),
        Value::Object(map) => map.values_mut().for_each(mask_programs),
        _ => {}
    }
}

/// The kit holds no program of the upstream operator, but something of that kind must be there to be kept.
fn unmask_programs(value: &mut Value) {
    match value {
        Value::String(text) if text == "<mpi-launch>" => *text = "theirs\ncp /ssh-pk/private.key x\n".to_owned(),
        Value::Array(items) => items.iter_mut().for_each(unmask_programs),
        Value::Object(map) => map.values_mut().for_each(unmask_programs),
        _ => {}
    }
}

/// The one thing that our pods have and the upstream operator's lack: without it, a service mesh breaks the endpoint
/// picker.
fn without_mesh_switch(set: &mut Value) {
    for clique in set["spec"]["template"]["cliques"].as_array_mut().unwrap() {
        let picker = clique["labels"]["nvidia.com/dynamo-component-type"] == "epp";
        if let Some(annotations) = clique["annotations"].as_object_mut().filter(|_| picker) {
            assert_eq!(annotations.remove("sidecar.istio.io/inject"), Some(json!("false")));
        }
    }
}

fn revision_of(set: &Value) -> Option<&str> {
    let cliques = set["spec"]["template"]["cliques"].as_array().unwrap().iter();
    cliques.filter_map(|clique| clique["labels"]["nvidia.com/dynamo-worker-hash"].as_str()).next()
}

fn as_served(service: &Value) -> Value {
    let spec = &service["spec"];
    let mut kept = json!({ "metadata": service["metadata"] });
    for field in ["ports", "selector", "publishNotReadyAddresses"] {
        kept["spec"][field] = spec[field].clone();
    }
    // The upstream operator's Services of components without a type select an empty one, which no pod has. Ours select
    // no type.
    let selector = kept["spec"]["selector"].as_object_mut();
    selector.unwrap().retain(|key, value| key != "nvidia.com/dynamo-component-type" || value != "");
    kept["spec"]["headless"] = json!(spec["clusterIP"] == "None");
    kept
}

#[test]
fn real_graphs_give_the_references_pod_clique_sets() {
    let Some(kit) = conformance_kit() else { return };
    let (mut equal, mut wrong) = (0, BTreeMap::new());
    for case in conformance_kit::cases(&kit, "grove") {
        for (graph, stored) in case.graphs(&kit) {
            let name = graph.metadata.name.clone().unwrap_or_default();
            let Some(expected) = set_of(&case, &name) else { continue };
            let lines = match planned(&graph, &stored, None) {
                Err(obstacle) => vec![format!("refused: {obstacle}")],
                Ok(plan) => differences(&case, expected, &plan),
            };
            if lines.is_empty() {
                equal += 1;
            } else {
                wrong.insert(format!("{} {name}", case.name), lines.join("\n  "));
            }
        }
    }
    println!("{equal} graphs equal");
    let shown: String = wrong.iter().take(12).map(|(k, v)| format!("{k}:\n  {v}\n")).collect();
    assert!(wrong.is_empty(), "{} of {} differ:\n{shown}", wrong.len(), wrong.len() + equal);
    assert!(equal > 200, "only {equal} graphs were compared");
}

fn set_of<'a>(case: &'a Case, graph: &str) -> Option<&'a Value> {
    let mut sets = case.objects("PodCliqueSet");
    sets.find(|set| set["metadata"]["ownerReferences"][0]["name"] == graph)
}

fn differences(case: &Case, expected: &Value, plan: &GraphPlan) -> Vec<String> {
    let mut lines = Vec::new();
    let mut got = json!(plan.grove.as_ref().unwrap().set);
    without_mesh_switch(&mut got);
    let (theirs, ours) = (revision_of(expected), revision_of(&got));
    let (mut expected_set, mut set) = (comparable(expected, theirs), comparable(&got, ours));
    mask_programs(&mut expected_set);
    mask_programs(&mut set);
    differ(&expected_set, &set, "set", &mut lines);
    let owner = &expected["metadata"]["ownerReferences"][0]["name"];
    let services = case.objects("Service").filter(|service| {
        let owned = &service["metadata"]["ownerReferences"][0];
        owned["kind"] == "DynamoGraphDeployment" && owned["name"] == *owner
    });
    let of_model = |service: &&Value| service["metadata"]["name"].as_str().unwrap().starts_with("dynamo-model-");
    let expected: BTreeMap<String, Value> = services
        .filter(|service| !of_model(service))
        .map(|service| (service["metadata"]["name"].to_string(), comparable(&as_served(service), theirs)))
        .collect();
    let ours_by_name: BTreeMap<String, Value> = plan
        .objects
        .services
        .iter()
        .map(|service| json!(service))
        .filter(|service| !of_model(&service))
        .map(|service| (service["metadata"]["name"].to_string(), comparable(&as_served(&service), ours)))
        .collect();
    differ(&json!(expected), &json!(ours_by_name), "services", &mut lines);
    lines
}

/// Taking over what the upstream operator made of real graphs changes no pod, nor the revision.
#[test]
fn taking_over_the_references_sets_replaces_no_pod() {
    let Some(kit) = conformance_kit() else { return };
    let (mut kept, mut wrong) = (0, BTreeMap::new());
    for case in conformance_kit::cases(&kit, "grove") {
        for (graph, stored) in case.graphs(&kit) {
            let name = graph.metadata.name.clone().unwrap_or_default();
            let Some(expected) = set_of(&case, &name) else { continue };
            let mut expected = expected.clone();
            unmask_programs(&mut expected);
            let live: PodCliqueSet = serde_json::from_value(expected.clone()).unwrap();
            let mut graph = graph.clone();
            graph.metadata.generation = Some(3);
            graph.status = Some(DynamoGraphDeploymentStatus { observed_generation: Some(3), ..Default::default() });
            let mut lines = Vec::new();
            match planned(&graph, &stored, Some(live)) {
                Err(obstacle) => lines.push(format!("refused: {obstacle}")),
                Ok(plan) => {
                    let have = json!(plan.grove.unwrap().set.spec);
                    differ(&expected["spec"], &have, "spec", &mut lines);
                }
            }
            if lines.is_empty() {
                kept += 1;
            } else {
                wrong.insert(format!("{} {name}", case.name), lines.join("\n  "));
            }
        }
    }
    println!("{kept} graphs taken over");
    let shown: String = wrong.iter().take(12).map(|(k, v)| format!("{k}:\n  {v}\n")).collect();
    assert!(wrong.is_empty(), "{} of {} differ:\n{shown}", wrong.len(), wrong.len() + kept);
    assert!(kept > 200, "only {kept} graphs were taken over");
}

//! Answers to many objects, each with one change, as they were recorded. A rule that moves or is written anew must give
//! the same answers; an answer that changes is a change for users.
//!
//! Types are kept: the schema refuses others before admission.

use std::fmt::Write as _;

use expect_test::expect_file;
use serde_json::{Value, json};
use webhook_server::admission::{Facts, Lookup};

use crate::support::*;

/// One step to a value.
#[derive(Clone)]
enum Step {
    Key(String),
    Index(usize),
}

type Place = Vec<Step>;

/// All places of an object except those that say which object it is.
fn places(value: &Value, at: &Place, all: &mut Vec<Place>) {
    let mut below: Vec<(Step, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| (Step::Key(key.clone()), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(index, value)| (Step::Index(index), value)).collect(),
        _ => Vec::new(),
    };
    // The order of fields depends on what else is compiled.
    below.sort_by_key(|(step, _)| shown(std::slice::from_ref(step)));
    for (step, value) in below {
        if at.is_empty() && matches!(&step, Step::Key(key) if ["apiVersion", "kind"].contains(&key.as_str())) {
            continue;
        }
        let place = [at.as_slice(), &[step]].concat();
        places(value, &place, all);
        all.push(place);
    }
}

fn find<'v>(object: &'v mut Value, place: &[Step]) -> &'v mut Value {
    place.iter().fold(object, |value, step| match step {
        Step::Key(key) => &mut value[key.as_str()],
        Step::Index(index) => &mut value[*index],
    })
}

fn without(object: &Value, place: &[Step]) -> Value {
    let mut object = object.clone();
    let (last, parent) = place.split_last().unwrap();
    match (find(&mut object, parent), last) {
        (Value::Object(fields), Step::Key(key)) => drop(fields.remove(key)),
        (Value::Array(items), Step::Index(index)) => drop(items.remove(*index)),
        _ => unreachable!("the place is one of the object"),
    }
    object
}

/// Other values of the same type.
fn others(value: &Value) -> Vec<Value> {
    match value {
        Value::String(_) => vec![json!(""), json!("x"), json!("y".repeat(70))],
        Value::Number(_) => vec![json!(0), json!(1), json!(-1)],
        Value::Bool(given) => vec![json!(!given)],
        Value::Array(_) => vec![json!([])],
        Value::Null | Value::Object(_) => Vec::new(),
    }
}

fn shown(place: &[Step]) -> String {
    let step = |step: &Step| match step {
        Step::Key(key) => format!("/{key}"),
        Step::Index(index) => format!("/{index}"),
    };
    place.iter().map(step).collect()
}

/// The object with each of its changes.
fn changed(object: &Value) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    places(object, &Vec::new(), &mut all);
    let mut changed = Vec::new();
    for place in all {
        changed.push((format!("without {}", shown(&place)), without(object, &place)));
        let given = find(&mut object.clone(), &place).clone();
        for other in others(&given).into_iter().filter(|other| *other != given) {
            let mut object = object.clone();
            find(&mut object, &place).clone_from(&other);
            changed.push((format!("{} = {}", shown(&place), short(&other)), object));
        }
    }
    changed
}

fn short(value: &Value) -> String {
    value.to_string().replace(&"y".repeat(70), "y*70")
}

/// The lines of an answer.
fn lines(answer: &str) -> Vec<String> {
    answer.lines().map(|line| line.replace(&"y".repeat(70), "y*70")).collect()
}

/// The lines that an answer has more, and fewer, than that to the object itself.
fn difference(before: &[String], after: &[String]) -> String {
    let more = after.iter().filter(|line| !before.contains(line)).map(|line| format!("    + {line}\n"));
    let fewer = before.iter().filter(|line| !after.contains(line)).map(|line| format!("    - {line}\n"));
    more.chain(fewer).collect()
}

/// Records the answers of creation and update to each change.
fn record(what: &str, object: &Value, facts: &Facts) -> String {
    let answers = |new: &Value| [create(new, facts), update(object, new, facts)].map(|answer| lines(&words(&answer)));
    let [created, updated] = answers(object);
    let indented = |lines: &[String]| lines.iter().map(|line| format!("    {line}\n")).collect::<String>();
    let mut text = format!("# {what}\ncreation\n{}update\n{}", indented(&created), indented(&updated));
    for (change, other) in changed(object) {
        let [creation, update] = answers(&other);
        let [creation, update] = [difference(&created, &creation), difference(&updated, &update)];
        let parts = match creation == update {
            true => vec![("creation, update", creation)],
            false => vec![("creation", creation), ("update", update)],
        };
        for (operation, difference) in parts.into_iter().filter(|(_, difference)| !difference.is_empty()) {
            write!(text, "{operation}: {change}\n{difference}").unwrap();
        }
    }
    text
}

fn fragment(target: &str, value: Value) -> Value {
    json!({ "apiVersion": "grove.io/v1alpha1", "target": target, "value": value })
}

/// A graph on Grove with nearly everything.
fn full() -> Value {
    edited(&grove_graph(), |g| {
        let annotations = g["metadata"]["annotations"].as_object_mut().unwrap();
        for (key, value) in [
            ("nvidia.com/dynamo-operator-origin-version", "1.4.0"),
            ("nvidia.com/vllm-distributed-executor-backend", "mp"),
            ("nvidia.com/grove-update-strategy", "OnDelete"),
            ("nvidia.com/dynamo-discovery-backend", "etcd"),
            ("nvidia.com/dynamo-kube-discovery-mode", "container"),
        ] {
            annotations.insert(key.to_owned(), json!(value));
        }
        let rack = json!({ "topologyConstraint": { "topologyName": "t", "pack": { "required": "rack" } } });
        let spec = &mut g["spec"];
        spec["priorityClassName"] = json!("high");
        spec["restart"] = json!({ "id": "1", "strategy": { "type": "Sequential", "order": ["Frontend", "decode"] } });
        spec["experimental"] = json!({ "kvTransferPolicy": { "clusterTopologyName": "fabric", "domain": "rack" } });
        spec["providerOverride"] = fragment("PodCliqueSet", json!({ "spec": { "template": rack } }));
        let frontend = &mut spec["components"][0];
        frontend["providerOverride"] = fragment("PodCliqueTemplateSpec", rack.clone());
        frontend["frontendSidecar"] = json!("side");
        frontend["podTemplate"]["spec"]["containers"].as_array_mut().unwrap().push(json!({ "name": "side" }));
        let worker = &mut spec["components"][1];
        worker["multinode"] = json!({
            "nodeCount": 2,
            "leader": { "providerOverride": fragment("PodCliqueTemplateSpec", rack.clone()) },
        });
        worker["providerOverride"] = fragment("PodCliqueScalingGroupConfig", rack);
        worker["scalingAdapter"] = json!({});
        worker["sharedMemorySize"] = json!("8Gi");
        worker["runtimeVersionOverride"] = json!("1.5.0");
        worker["experimental"] = json!({
            "grove": { "forceScalingGroup": true },
            "checkpoint": { "enabled": true, "mode": "Auto", "job": { "podTemplate": {} } },
        });
        worker["podTemplate"]["metadata"] = json!({ "annotations": {
            "dynamo.nvidia.com/gpu-power-limit": "400", "nvidia.com/deployment-rolling-update-max-surge": "1",
        } });
        worker["podTemplate"]["spec"]["containers"][1]["args"] = json!(["--enable-elastic-ep", "-dpb", "mp"]);
    })
}

/// The graph with GPU memory that is shared, placed by typed constraints.
fn shared(mode: &str) -> Value {
    edited(&grove_graph(), |g| {
        g["metadata"]["annotations"]["nvidia.com/dynamo-kube-discovery-mode"] = json!("container");
        g["spec"]["topologyConstraint"] = json!({ "clusterTopologyName": "fabric", "packDomain": "block" });
        g["spec"]["components"][1]["topologyConstraint"] = json!({ "packDomain": "rack" });
        g["spec"]["components"][1]["experimental"] = json!({
            "gpuMemoryService": { "mode": mode, "extraClientContainers": ["side"] },
            "failover": { "mode": mode, "numShadows": 1 },
        });
    })
}

fn everything_on() -> Facts {
    let mut facts = facts_with(|features| (features.grove, features.lws, features.checkpoint) = (true, true, true));
    let levels: Vec<Value> = ["zone", "block", "rack"].map(|domain| json!({ "domain": domain })).into();
    let lookup = Lookup::TopologyBinding { name: "fabric".to_owned() };
    facts.found.insert(lookup, Ok(Some(json!({ "spec": { "levels": levels } }))));
    facts
}

#[test]
fn graphs_on_grove_are_answered_as_recorded() {
    let text = record("everything", &full(), &everything_on());
    expect_file!["recorded/grove.txt"].assert_eq(&text);
}

#[test]
fn graphs_with_shared_memory_are_answered_as_recorded() {
    let text = ["IntraPod", "InterPod"].map(|mode| record(mode, &shared(mode), &everything_on())).concat();
    expect_file!["recorded/shared_memory.txt"].assert_eq(&text);
}

#[test]
fn graphs_without_grove_are_answered_as_recorded() {
    let plain = edited(&graph(), |g| {
        g["spec"]["components"][1]["multinode"] = json!({ "nodeCount": 2 });
        g["spec"]["components"][1]["experimental"] = json!({ "checkpoint": { "enabled": false } });
    });
    let on_grove = edited(&full(), |g| g["metadata"]["annotations"]["nvidia.com/enable-grove"] = json!("true"));
    let text = record("plain", &plain, &facts()) + &record("everything", &on_grove, &facts());
    expect_file!["recorded/no_grove.txt"].assert_eq(&text);
}

#[test]
fn components_are_answered_as_recorded() {
    let picker = edited(&component(), |c| {
        c["spec"]["type"] = json!("epp");
        c["spec"]["replicas"] = json!(1);
        c["spec"]["eppConfig"] = json!({ "configMapRef": { "name": "config", "key": "k" } });
    });
    let shared = edited(&component(), |c| {
        c["spec"]["sharedMemorySize"] = json!("8Gi");
        c["spec"]["frontendSidecar"] = json!("side");
        c["spec"]["minAvailable"] = json!(1);
        c["spec"]["experimental"] = json!({
            "gpuMemoryService": { "mode": "IntraPod", "extraClientContainers": ["side"] },
            "checkpoint": { "enabled": true, "mode": "Auto" }, "grove": { "forceScalingGroup": true },
        });
        c["spec"]["multinode"] =
            json!({ "nodeCount": 2, "worker": { "providerOverride": fragment("PodCliqueTemplateSpec", json!({})) } });
        let main = &mut c["spec"]["podTemplate"]["spec"]["containers"][1];
        main["args"] = json!(["--enable-elastic-ep", "-dpb", "ray"]);
        main["volumeMounts"] = json!([{ "name": "models", "mountPath": "/models" }]);
    });
    let text = record("picker", &picker, &facts()) + &record("shared memory", &shared, &facts());
    expect_file!["recorded/components.txt"].assert_eq(&text);
}

//! The protocol, and the rules of merging.

use serde_json::{Value, json};

use super::{
    apply,
    merge::{List, below, is_atomic, list},
    run,
};

fn graph(version: &str, spec: Value) -> Value {
    json!({ "apiVersion": format!("nvidia.com/{version}"), "kind": "DynamoGraphDeployment", "metadata": { "name": "g" },
        "spec": spec })
}

fn beta(containers: Value) -> Value {
    graph(
        "v1beta1",
        json!({ "components": [
        { "name": "Worker", "type": "worker", "replicas": 2, "podTemplate": { "spec": { "containers": containers } } },
        { "name": "Frontend", "type": "frontend" },
    ] }),
    )
}

fn part(spec: Value) -> Value {
    json!({ "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "spec": spec })
}

fn with_container(container: Value) -> Value {
    part(json!({ "components": [{ "name": "Worker", "podTemplate": { "spec": { "containers": [container] } } }] }))
}

fn main_container(merged: &Value) -> &Value {
    &merged["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0]
}

#[test]
fn keyed_lists_are_merged_and_others_replaced() {
    let whole = beta(json!([{ "name": "main", "image": "i", "args": ["a"],
        "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }] }]));
    let over =
        json!({ "name": "main", "args": ["b"], "env": [{ "name": "B", "value": "3" }, { "name": "C", "value": "4" }] });
    let merged = apply(whole, &with_container(over)).unwrap();
    let container = main_container(&merged.graph);
    assert_eq!((&container["image"], &container["args"]), (&json!("i"), &json!(["b"])));
    let env = json!([{ "name": "A", "value": "1" }, { "name": "B", "value": "3" }, { "name": "C", "value": "4" }]);
    assert_eq!(container["env"], env);
    assert_eq!(merged.graph["spec"]["components"].as_array().unwrap().len(), 2);
    assert!(merged.warnings.is_empty());
}

#[test]
fn arguments_are_appended_where_that_is_requested() {
    let whole = || beta(json!([{ "name": "main", "args": ["a"] }, { "name": "bare" }]));
    let patched = |name: &str, args: Value, patch: Value| {
        apply(whole(), &with_container(json!({ "name": name, "args": args, "$patch": patch })))
    };
    let append = json!({ "args": "append" });
    let merged = patched("main", json!(["b"]), append.clone()).unwrap().graph;
    assert_eq!(main_container(&merged)["args"], json!(["a", "b"]));
    assert!(main_container(&merged).get("$patch").is_none());
    for (name, args, patch) in [
        ("main", json!(["b"]), json!({ "args": "replace" })),
        ("main", json!([]), append.clone()),
        ("main", json!([""]), append.clone()),
        ("bare", json!(["b"]), append.clone()),
        ("none", json!(["b"]), append.clone()),
    ] {
        assert!(patched(name, args.clone(), patch.clone()).is_err(), "{name} {args} {patch}");
    }
}

#[test]
fn an_older_part_is_merged_in_its_own_version_and_the_blueprints_comes_out() {
    let whole = beta(json!([{ "name": "main", "image": "i", "args": ["a"] }]));
    let part = json!({ "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "spec": { "services": {
        "Worker": { "extraPodSpec": { "mainContainer": { "args": ["b"] } } }, "Other": {} } } });
    let merged = apply(whole, &part).unwrap();
    assert_eq!(merged.graph["apiVersion"], "nvidia.com/v1beta1");
    assert_eq!(main_container(&merged.graph)["args"], json!(["a", "b"]));
    assert_eq!(merged.warnings.len(), 1, "{:?}", merged.warnings);
}

#[test]
fn what_has_no_effect_is_reported() {
    let mut part = part(json!({ "components": [{ "name": "Other" }] }));
    part["metadata"] = json!({ "name": "x", "labels": { "a": "b" }, "annotations": { "nvidia.com/dgd-spec": "{}" } });
    let merged = apply(beta(json!([{ "name": "main" }])), &part).unwrap();
    assert_eq!(merged.warnings.len(), 3, "{:?}", merged.warnings);
    assert_eq!(merged.graph["metadata"]["name"], "g");
    assert_eq!(merged.graph["metadata"]["labels"], json!({ "a": "b" }));
}

#[test]
fn what_cannot_be_said_is_refused_with_its_place() {
    let message = |part: &Value| apply(beta(json!([{ "name": "main" }])), part).unwrap_err().to_string();
    let mut status = part(json!({}));
    status["status"] = json!({});
    assert!(message(&status).contains("override.status"));
    assert!(message(&part(json!({ "components": [{ "name": "Worker", "replicas": null }] }))).contains("[0].replicas"));
    assert!(message(&part(json!({ "components": [{}] }))).contains("[0].name"));
    assert!(message(&json!({ "kind": "Pod" })).contains("override"));
    assert!(
        message(&part(json!({ "components": [{ "name": "Worker", "replicas": "two" }] }))).contains("merged graph")
    );
}

#[test]
fn the_protocol() {
    let run_with = |args: &[&str], input: &str| {
        let mut output = Vec::new();
        let args = args.iter().map(Into::into);
        run(args, &mut input.as_bytes(), &mut output).map(|_| String::from_utf8(output).unwrap())
    };
    assert_eq!(run_with(&["--protocol-version"], "").unwrap(), "1\n");
    let question = json!({ "blueprint": beta(json!([{ "name": "main" }])), "override": part(json!({})) });
    let merged: Value = serde_json::from_str(&run_with(&[], &question.to_string()).unwrap()).unwrap();
    assert_eq!(merged["kind"], "DynamoGraphDeployment");
    for (args, input) in [
        (vec!["more"], String::new()),
        (vec!["--protocol-version", "--install-to", "x"], String::new()),
        (vec![], String::new()),
        (vec![], format!("{question} {question}")),
        (vec![], json!({ "blueprint": {}, "override": {}, "more": 1 }).to_string()),
        (vec![], json!({ "blueprint": question["blueprint"], "override": null }).to_string()),
    ] {
        assert!(run_with(&args, &input).is_err(), "{args:?} {input}");
    }
}

/// The table of lists is what the definitions say.
#[test]
fn lists_are_merged_as_the_definitions_say() {
    let text = include_str!("../../../../deploy/crds/nvidia.com_dynamographdeployments.yaml");
    let definition: Value = serde_saphyr::from_str(text).unwrap();
    let mut seen = 0;
    for version in definition["spec"]["versions"].as_array().unwrap() {
        walk(&version["schema"]["openAPIV3Schema"]["properties"]["spec"], ".spec", &mut seen);
    }
    assert!(seen > 100, "{seen}");
}

fn walk(schema: &Value, path: &str, seen: &mut usize) {
    // Selectors are replaced as a whole, so nothing in them is merged.
    if is_atomic(path) {
        return;
    }
    if schema["type"] == "array" {
        let keys = || schema["x-kubernetes-list-map-keys"].as_array().unwrap().iter().map(|key| key.as_str().unwrap());
        match (schema["x-kubernetes-list-type"].as_str(), list(path)) {
            (Some("map"), List::Keyed(known)) => assert!(keys().eq(known.iter().copied()), "{path}"),
            (Some("set"), List::Set) | (Some("atomic") | None, List::Atomic) => {}
            (Some("set"), List::Atomic) if path.ends_with(".values") => {}
            (said, known) => panic!("{path}: {said:?}, but {known:?}"),
        }
        *seen += 1;
        walk(&schema["items"], &format!("{path}[]"), seen);
    }
    for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
        walk(schema, &below(path, field), seen);
    }
    if schema["additionalProperties"].is_object() {
        walk(&schema["additionalProperties"], &format!("{path}.*"), seen);
    }
}

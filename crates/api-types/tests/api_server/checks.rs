//! Rules of ours that the API server holds by itself: what the webhook server would refuse is refused where no API
//! server calls it.

use std::time::Duration;

use api_types::schema::checks::{self, SchemaCheck};
use http::Method;
use serde_json::{Value, json};
use test_cluster::{Cluster, Controllers, Options, wait};

use crate::{
    rejected::{COMPONENT, Example, GRAPH, examples, merged},
    server::{Answer, Server, definitions, plural},
};

/// Generous, because a whole test run may share two cores.
const LIMIT: Duration = Duration::from_secs(90);

/// A path as schemas have it: of an item of any position, of an entry of any key.
fn in_schema(path: &str) -> String {
    let parts = path.split(['[', ']']).enumerate().map(|(index, part)| match (index % 2, part.parse::<usize>()) {
        (0, _) => part.to_owned(),
        (_, Ok(_)) => "[]".to_owned(),
        _ => "{}".to_owned(),
    });
    parts.collect()
}

/// Whether it is this rule that the example breaks.
fn breaks(example: &Example, check: &SchemaCheck) -> bool {
    let place = format!("{}{}", check.at, check.field);
    check.kind == example.kind
        && example.new["apiVersion"] == check.version.api_version()
        && check.text == example.text
        && in_schema(&example.path) == place.trim_start_matches('.')
}

fn rule_of(example: &Example) -> SchemaCheck {
    let known = checks::all().into_iter().find(|check| breaks(example, check));
    known.unwrap_or_else(|| {
        panic!("no rule of {} in {}: {} {}", example.kind, example.version, example.path, example.text)
    })
}

#[test]
fn every_rule_has_an_example() {
    let examples = examples();
    for check in checks::all() {
        assert!(examples.iter().any(|example| breaks(example, &check)), "{check:#?}");
    }
}

/// The object without its identity, under a name of its own.
fn named(object: &Value, index: usize) -> Value {
    merged(object.clone(), &json!({ "metadata": { "name": format!("e{index}"), "namespace": null } }))
}

/// Makes the old object of an example, and has the API server judge the new one.
async fn judge(server: &Server, example: &Example, index: usize) -> Answer {
    const JSON: &str = "application/json";
    let collection = server.collection_in(example.version, &plural(example.kind));
    let new = named(&example.new, index);
    let Some(old) = &example.old else {
        let path = format!("{collection}?fieldValidation=Strict&dryRun=All");
        return server.send(Method::POST, &path, JSON, &new).await;
    };
    let mut live = server.send(Method::POST, &collection, JSON, &named(old, index)).await.granted();
    let path = format!("{collection}/e{index}");
    if let Some(status) = old.get("status") {
        live = server.patch_status(&path, status).await.granted();
    }
    let new = merged(new, &json!({ "metadata": { "resourceVersion": live["metadata"]["resourceVersion"] } }));
    server.send(Method::PUT, &format!("{path}?fieldValidation=Strict&dryRun=All"), JSON, &new).await
}

fn is_refused(answer: &Answer, example: &Example) -> bool {
    let reason = rule_of(example).reason.as_str();
    let causes = answer.body["details"]["causes"].as_array().cloned().unwrap_or_default();
    let said = |cause: &Value| cause["message"].as_str().is_some_and(|message| message.contains(&example.text));
    answer.code == 422
        && causes
            .iter()
            .any(|cause| cause["field"] == example.path.as_str() && cause["reason"] == reason && said(cause))
}

#[tokio::test]
async fn every_rule_of_ours_is_held_without_a_webhook() {
    let server = Server::new().await;
    for (index, example) in examples().iter().enumerate() {
        let answer = judge(&server, example, index).await;
        let what = format!("{} {} {}", example.kind, example.version, example.path);
        assert!(is_refused(&answer, example), "{what}: {}\n{answer:#?}", example.text);
        assert!(!answer.body.to_string().contains("secret"), "{what}: credentials are not repeated");
    }
}

/// A change elsewhere in an object that breaks a rule: as close as possible to what is wrong.
fn elsewhere(example: &Example) -> Value {
    let component = json!({ "globalDynamoNamespace": true });
    let spec = match (example.kind, example.version) {
        (GRAPH, "v1beta1") => {
            json!({ "components": [merged(example.new["spec"]["components"][0].clone(), &component)] })
        }
        (GRAPH, _) => json!({ "services": { "decode": component } }),
        (COMPONENT, _) => component,
        ("DynamoModel", _) if example.path == "spec.modelName" => json!({ "source": { "uri": "hf://other" } }),
        ("DynamoModel", _) => json!({ "modelName": "other" }),
        ("DynamoCheckpoint", _) => json!({ "job": { "activeDeadlineSeconds": 10 } }),
        _ => json!({ "runtimeVersionOverride": "1.5.0" }),
    };
    json!({ "metadata": { "labels": { "edited": "yes" } }, "spec": spec })
}

/// The definitions as they were before there were rules of ours.
fn without_checks(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::Array(rules)) = fields.get_mut("x-kubernetes-validations") {
                // Those of the reference give no reasons.
                rules.retain(|rule| rule.get("reason").is_none());
            }
            fields.values_mut().for_each(without_checks);
        }
        Value::Array(items) => items.iter_mut().for_each(without_checks),
        _ => {}
    }
}

#[tokio::test]
async fn what_was_stored_before_a_rule_is_read_and_can_be_changed_elsewhere() {
    let mut before = definitions();
    before.iter_mut().for_each(without_checks);
    let options = Options { controllers: Controllers::Off, crds: before, ..Options::default() };
    let cluster = Cluster::start(options).await.unwrap();
    let server = Server::on(&cluster).await;
    let examples: Vec<_> = examples().into_iter().filter(|example| example.old.is_none()).collect();
    for (index, example) in examples.iter().enumerate() {
        let collection = server.collection_in(example.version, &plural(example.kind));
        server.send(Method::POST, &collection, "application/json", &named(&example.new, index)).await.granted();
    }
    cluster.install_crds(&definitions()).await.unwrap();
    for (index, example) in examples.iter().enumerate() {
        let what = format!("{} {} {}", example.kind, example.version, example.path);
        let held = wait::until(format!("{what} to be refused"), LIMIT, async || {
            let answer = judge(&server, example, examples.len()).await;
            if is_refused(&answer, example) { Ok(()) } else { Err(format!("{answer:?}")) }
        });
        held.await.unwrap();
        let path = format!("{}/e{index}", server.collection_in(example.version, &plural(example.kind)));
        let live = server.get(&path).await.granted();
        let edited = merged(live.clone(), &elsewhere(example));
        let answer = server.send(Method::PUT, &path, "application/json", &edited).await;
        assert!(answer.code < 300, "{what}: {:?}", answer.causes());
        assert_eq!(answer.body["metadata"]["labels"]["edited"], "yes", "{what}");
        assert_ne!(answer.body["metadata"]["generation"], live["metadata"]["generation"], "{what}");
        let status = match example.kind {
            GRAPH => json!({ "state": "pending" }),
            COMPONENT => json!({ "conditions": [] }),
            _ => continue,
        };
        server.patch_status(&path, &status).await.granted();
    }
    cluster.stop().await.unwrap();
}

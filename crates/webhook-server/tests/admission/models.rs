//! DynamoModels.

use serde_json::{Value, json};

use crate::support::*;

fn model() -> Value {
    json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoModel",
        "metadata": { "name": "adapter", "namespace": "team" },
        "spec": {
            "modelName": "sql", "baseModelName": "llama", "modelType": "lora", "source": { "uri": "s3://bucket/sql" },
        },
    })
}

#[test]
fn models_as_they_are() {
    creates(
        &model(),
        &facts(),
        &[
            (
                "names",
                |m| {
                    m["spec"]["modelName"] = json!("");
                    m["spec"]["baseModelName"] = json!(null);
                },
                &["Required spec.modelName", "Required spec.baseModelName"],
            ),
            ("no source", |m| m["spec"]["source"] = json!(null), &["Required spec.source"]),
            ("no address", |m| m["spec"]["source"] = json!({ "uri": "" }), &["Required spec.source.uri"]),
            ("address", |m| m["spec"]["source"] = json!({ "uri": "http://x" }), &["Invalid spec.source.uri"]),
            ("relative file", |m| m["spec"]["source"] = json!({ "uri": "file://x" }), &["Invalid spec.source.uri"]),
            ("file", |m| m["spec"]["source"] = json!({ "uri": "file:///x" }), &[]),
            ("hub", |m| m["spec"]["source"] = json!({ "uri": "hf://org/x" }), &[]),
            (
                "base",
                |m| {
                    m["spec"]["modelType"] = json!("base");
                    m["spec"]["source"] = json!(null);
                },
                &[],
            ),
        ],
    );
}

/// Addresses may hold credentials.
#[test]
fn addresses_are_not_repeated() {
    let model = edited(&model(), |m| m["spec"]["source"]["uri"] = json!("https://ann:hunter2@host/x"));
    let text = words(&create(&model, &facts()));
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn what_stays_in_a_model() {
    updates(
        &model(),
        &facts(),
        &[
            ("name", |m| m["spec"]["modelName"] = json!("python"), &[]),
            ("source", |m| m["spec"]["source"]["uri"] = json!("s3://bucket/python"), &[]),
            ("base", |m| m["spec"]["baseModelName"] = json!("qwen"), &["Invalid spec.baseModelName"]),
            ("type", |m| m["spec"]["modelType"] = json!("base"), &["Invalid spec.modelType"]),
        ],
    );
}

#[test]
fn what_a_change_would_break_is_told_beside_the_refusal() {
    for (field, other) in [("baseModelName", "qwen"), ("modelType", "base")] {
        let answer = update(&model(), &edited(&model(), |m| m["spec"][field] = json!(other)), &facts());
        let told = warnings(&answer);
        assert!(told.len() == 1 && told[0].starts_with(&format!("spec.{field}: ")), "{told:?}");
    }
}

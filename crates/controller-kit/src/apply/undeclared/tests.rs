//! Answers are read, and what they teach is forgotten on evidence only.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Refused, TRY_AGAIN_AFTER, Undeclared, undeclared};
use crate::request::ObjectId;

const ONE: &str = "failed to create typed patch object (team-a/m; nvidia.com/v1alpha1, Kind=DynamoModel): \
                   .status.adapter: field not declared in schema";

fn id(kind: &str) -> ObjectId {
    ObjectId { group: "nvidia.com".into(), kind: kind.into(), namespace: "n".into(), name: "x".into() }
}

#[test]
fn the_answer_names_the_fields() {
    let several = "failed to create typed patch object (n/p; /v1, Kind=Pod): errors:\n  \
                   .status.conditions[type=\"a]\\\"b\"].more: field not declared in schema\n  \
                   .status.endpoints[0].covered: field not declared in schema\n  \
                   .status.components.chat.seen: field not declared in schema\n  \
                   .status.state: expected string, got &value.valueUnstructured{Value:1}";
    for (answer, expected) in [
        (ONE, vec!["status.adapter"]),
        (several, vec!["status.conditions[].more", "status.endpoints[].covered", "status.components.chat.seen"]),
        ("failed to create typed patch object (n/d; g/v, Kind=K): .spec.x: field not declared in schema", vec![]),
        (".status.list[0]: field not declared in schema", vec![]),
        (".status: field not declared in schema", vec![]),
        (".status.list[\"open: field not declared in schema", vec![]),
        ("Internal error occurred: field not declared in schema", vec![]),
        ("etcdserver: request timed out", vec![]),
        ("", vec![]),
    ] {
        let named: Vec<String> = undeclared(answer).iter().map(|path| format!("status{path}")).collect();
        assert_eq!(named, expected, "{answer}");
    }
}

#[test]
fn what_was_refused_is_left_out_for_this_kind_only() {
    let (mut known, now) = (Undeclared::default(), Instant::now());
    let whole = json!({ "adapter": { "modelName": "a" }, "ready": 1 });
    let mut status = whole.clone();
    let refused = known.refused(&id("DynamoModel"), ONE, &mut status, now);
    assert_eq!(refused, Refused { taken: true, news: vec!["status.adapter".to_owned()] });
    assert_eq!(status, json!({ "ready": 1 }));
    let again = known.refused(&id("DynamoModel"), ONE, &mut status, now);
    assert_eq!(again, Refused::default(), "it was not there, so something else is wrong");
    let mut next = whole.clone();
    known.strip(&id("DynamoModel"), &mut next);
    assert_eq!(next, status);
    assert!(known.lacks(&id("DynamoModel"), "adapter") && !known.lacks(&id("DynamoModel"), "ready"));
    let mut other = whole.clone();
    known.strip(&id("Other"), &mut other);
    assert_eq!(other, whole);
    assert!(!known.lacks(&id("Other"), "adapter"));
}

#[test]
fn items_of_lists_have_one_schema() {
    let mut known = Undeclared::default();
    let mut status = json!({ "endpoints": [{ "a": 1, "b": 1 }, { "b": 2 }] });
    let answer = ".status.endpoints[1].b: field not declared in schema";
    assert!(known.refused(&id("K"), answer, &mut status, Instant::now()).taken);
    assert_eq!(status, json!({ "endpoints": [{ "a": 1 }, {}] }));
}

#[test]
fn a_field_counts_as_declared_once_a_status_with_it_was_taken() {
    let (mut known, now) = (Undeclared::default(), Instant::now());
    let whole = json!({ "adapter": {}, "generation": 1 });
    let both = format!("{ONE}\n.status.generation: field not declared in schema");
    known.refused(&id("DynamoModel"), &both, &mut whole.clone(), now);
    let soon = now + TRY_AGAIN_AFTER - Duration::from_secs(1);
    assert!(!known.try_again(&id("DynamoModel"), soon));
    let later = now + TRY_AGAIN_AFTER;
    assert!(known.try_again(&id("DynamoModel"), later));
    assert!(!known.try_again(&id("DynamoModel"), later), "one object tries for all");
    assert_eq!(
        known.refused(&id("DynamoModel"), &both, &mut whole.clone(), later).news,
        [""; 0],
        "nothing new to report"
    );
    assert_eq!(known.accepted(&id("DynamoModel"), &json!({ "ready": 1 })), [""; 0]);
    assert_eq!(known.accepted(&id("DynamoModel"), &json!({ "adapter": {} })), ["status.adapter"]);
    assert!(known.lacks(&id("DynamoModel"), "generation") && !known.lacks(&id("DynamoModel"), "adapter"));
    assert_eq!(known.accepted(&id("DynamoModel"), &whole), ["status.generation"]);
    assert!(!known.try_again(&id("DynamoModel"), later + TRY_AGAIN_AFTER), "nothing is missing any more");
}

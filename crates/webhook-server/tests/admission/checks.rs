//! Rules that the API server holds by itself as well: both refuse the same objects at the same fields, in the same
//! words.

use api_types::{schema::checks, violations::Violation};
use serde_json::{Value, json};
use webhook_server::admission::{Answer, Facts, Request};

use crate::{
    refused::{Example, examples, merged},
    support::*,
};

/// A cluster with all that the examples need.
fn cluster() -> Facts {
    facts_with(|features| (features.grove, features.checkpoint) = (true, true))
}

fn request(example: &Example, old: Option<&Value>, new: &Value) -> Request {
    let has_two = example.kind != "DynamoModel" && example.kind != "DynamoCheckpoint";
    match old {
        Some(old) if has_two => converted_change(old, new),
        Some(old) => change(old.clone(), new.clone()),
        None if has_two => converted(new),
        None => creation(new.clone()),
    }
}

/// The violations that an example is about, as the webhook server tells them.
fn told(example: &Example, old: Option<&Value>, new: &Value) -> Vec<Violation> {
    let Answer::Deny { violations, .. } = validate(&request(example, old, new), &cluster()) else { return Vec::new() };
    let told = |error: &Violation| error.path == example.path && error.cause().contains(&example.text);
    violations.into_iter().filter(told).collect()
}

#[test]
fn the_webhook_server_says_what_the_api_server_says() {
    for example in examples() {
        let what = format!("{} {} {}: {}", example.kind, example.version, example.path, example.text);
        let errors = told(&example, example.old.as_ref(), &example.new);
        let [error] = errors.as_slice() else {
            let answer = validate(&request(&example, example.old.as_ref(), &example.new), &cluster());
            panic!("{what}\n{}", words(&answer))
        };
        let of_example = |check: &checks::Check| check.kind == example.kind && check.text == example.text;
        let reasons: Vec<_> = checks::all().into_iter().filter(of_example).map(|check| check.reason.as_str()).collect();
        // CEL has no word for a value that is none of a list.
        let reason = error.reason.as_str().replace("NotSupported", "Invalid");
        assert!(reasons.contains(&reason.as_str()), "{what}: {reason} {reasons:?}");
    }
}

#[test]
fn neither_looks_at_what_was_there_before() {
    for example in examples().iter().filter(|example| example.old.is_none()) {
        let edited = merged(example.new.clone(), &json!({ "metadata": { "labels": { "edited": "yes" } } }));
        let edited = merged(edited, &json!({ "spec": { "runtimeVersionOverride": "1.5.0", "labels": { "a": "b" } } }));
        let told = told(example, Some(&example.new), &edited);
        assert!(told.is_empty(), "{} {}: {told:?}", example.kind, example.path);
    }
}

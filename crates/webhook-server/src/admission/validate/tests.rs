//! Tests of `validate`.

use serde_json::json;

use super::*;
use crate::admission::field::{FieldFindings, FieldNode};

fn of(bytes: usize) -> Value {
    json!({ "spec": { "a": "x".repeat(bytes - r#"{"a":""}"#.len()) } })
}

#[test]
fn a_spec_above_the_limit_is_refused_unless_it_does_not_grow() {
    let refused = |new: usize, old: Option<usize>| check(&of(new), old.map(of).as_ref()).is_some();
    let table = [
        (SPEC_BYTES, None, false),
        (SPEC_BYTES + 1, None, true),
        (SPEC_BYTES + 1, Some(SPEC_BYTES), true),
        (SPEC_BYTES + 9, Some(SPEC_BYTES + 8), true),
        (SPEC_BYTES + 8, Some(SPEC_BYTES + 8), false),
        (SPEC_BYTES + 7, Some(SPEC_BYTES + 8), false),
    ];
    for (new, old, expected) in table {
        assert_eq!(refused(new, old), expected, "{new} {old:?}");
    }
    assert!(check(&json!({}), None).is_none());
    let text = check(&of(300_000), None).unwrap().in_status();
    assert!(text.starts_with("spec: ") && text.len() < 200, "the value is not repeated: {text}");
}

#[test]
fn null_says_nothing() {
    for (one, other, same) in [
        (json!({ "a": null }), json!({}), true),
        (json!({ "a": [{ "b": null }] }), json!({ "a": [{}] }), true),
        (json!({ "a": [] }), json!({}), false),
        (json!({}), json!({ "a": null }), true),
        (json!({}), json!({ "a": 1 }), false),
        (json!({ "a": null }), json!({ "a": 1 }), false),
        (json!({ "a": 1 }), json!({ "a": null }), false),
        (json!({ "a": 1 }), json!({ "a": 2 }), false),
        (json!([1]), json!([1, 2]), false),
    ] {
        assert_eq!(is_same(Some(&one), Some(&other)), same, "{one} {other}");
    }
}

#[test]
fn only_what_the_change_made_counts() {
    let find = |object: &Value| {
        let mut out = FieldFindings::default();
        for item in FieldNode::root(object).field("list").items() {
            out.forbidden(&item.field("x"), "leave it");
        }
        out.violations
    };
    let old = json!({ "list": [{ "name": "a", "x": 1 }, { "name": "b", "x": 1 }] });
    let new = json!({ "list": [{ "name": "b", "x": 2 }, { "name": "a", "x": 1 }] });
    let left = made_by_change(find(&new), &new, &find(&old), &old);
    assert_eq!(left.iter().map(|m| m.path.to_string()).collect::<Vec<_>>(), ["list[0].x"]);
}

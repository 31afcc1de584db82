//! Rules may become stricter while objects live. What an object was admitted with does not stand in the way of other
//! changes: a violation counts on an update only if the update made it.

use api_types::violations::{Reason, Violation};
use serde_json::Value;

use super::field::FieldPath;

/// The violations in `new` that the change from `old` to `new` made. What was missing already is missing still, whatever
/// else has changed in the place where it belongs.
pub(super) fn made_by_change(
    violations: Vec<Violation<FieldPath>>,
    new: &Value,
    before: &[Violation<FieldPath>],
    old: &Value,
) -> Vec<Violation<FieldPath>> {
    let was_there = |violation: &Violation<FieldPath>| {
        before.iter().any(|earlier| {
            earlier.path.is_same_place(&violation.path)
                && (earlier.reason, &earlier.value) == (violation.reason, &violation.value)
                && (&earlier.message, &earlier.remedy) == (&violation.message, &violation.remedy)
                && (violation.reason == Reason::Required || is_same(earlier.path.find(old), violation.path.find(new)))
        })
    };
    violations.into_iter().filter(|violation| !was_there(violation)).collect()
}

/// Whether two values say the same. Null says nothing.
pub(super) fn is_same(one: Option<&Value>, other: Option<&Value>) -> bool {
    let set = |value: Option<&Value>| value.is_some_and(|value| !value.is_null());
    match (one, other) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            one.iter().all(|(key, value)| is_same(Some(value), other.get(key)))
                && other.iter().all(|(key, value)| value.is_null() || one.contains_key(key))
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(Some(one), Some(other)))
        }
        (one, other) => {
            if set(one) && set(other) {
                one == other
            } else {
                set(one) == set(other)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        super::field::{Findings, Node},
        *,
    };

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
            let mut out = Findings::default();
            for item in Node::root(object).field("list").items() {
                out.forbidden(&item.field("x"), "leave it");
            }
            out.violations
        };
        let old = json!({ "list": [{ "name": "a", "x": 1 }, { "name": "b", "x": 1 }] });
        let new = json!({ "list": [{ "name": "b", "x": 2 }, { "name": "a", "x": 1 }] });
        let left = made_by_change(find(&new), &new, &find(&old), &old);
        assert_eq!(left.iter().map(|m| m.path.to_string()).collect::<Vec<_>>(), ["list[0].x"]);
    }
}

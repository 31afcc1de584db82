//! Status blocks: when are two the same, and which transition times stay.

use serde_json::Value;

use super::diff::is_empty;
use crate::conditions::{PROGRESSING, RECONCILING};

/// True if writing `desired` over `live` would change nothing but transition times. Both may be null.
///
/// Unlike spec fields, status fields are all ours: one that is only live is a difference.
#[must_use]
pub fn same_status(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            keys.filter(|key| *key != "lastTransitionTime")
                .all(|key| same_status(a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null)))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_status(a, b)),
        // A count of zero and an absent count read the same, and the API server drops empty blocks.
        (a, b) => a == b || (is_empty(a) && is_empty(b)),
    }
}

/// Gives every condition of `desired` whose `status` is the live one's the live `lastTransitionTime`.
pub fn carry_transition_times(desired: &mut Value, live: &Value) {
    let Some(conditions) = desired.get_mut("conditions").and_then(Value::as_array_mut) else { return };
    let Some(found) = live.get("conditions").and_then(Value::as_array) else { return };
    for condition in conditions {
        let same = |field: &str, other: &Value| condition.get(field) == other.get(field);
        let known = found.iter().find(|other| same("type", other) && same("status", other));
        let time = known.and_then(|known| known.get("lastTransitionTime")).cloned();
        if let (Some(time), Some(fields)) = (time, condition.as_object_mut()) {
            fields.insert("lastTransitionTime".to_owned(), time);
        }
    }
}

/// Fields that hold counts, which pass through many values on the way from one state to the next.
const COUNTS: &[&str] =
    &["component", "components", "endpoints", "readyEndpoints", "totalEndpoints", "loraFallbackCoveredEndpoints"];

/// Counts that say how much of a workload can be used. What they lose is bad news.
const USABLE: &[&str] = &["readyReplicas", "availableReplicas"];

/// True if `desired` says something new that a user may wait for: a condition that turns, another state, a newer
/// generation, fewer usable replicas. Other counts, growth, and wording alone are not urgent.
#[must_use]
pub fn is_urgent(live: &Value, desired: &Value) -> bool {
    let lost = COUNTS.iter().any(|field| live.get(*field).is_some_and(|counts| has_lost(counts, desired.get(*field))));
    lost || !same_status(&without_details(live), &without_details(desired))
}

/// True if `desired` is the first status of an object and says only that work has begun, which its user knows.
#[must_use]
pub fn only_begins(live: &Value, desired: &Value) -> bool {
    let says = |condition: &Value, field: &str, text: &str| condition[field] == text;
    let conditions = desired["conditions"].as_array();
    let mut working = conditions.into_iter().flatten().filter(|condition| says(condition, "type", RECONCILING));
    is_empty(&live["conditions"]) && working.any(|c| says(c, "status", "True") && says(c, "reason", PROGRESSING))
}

/// True if a count of usable replicas is lower than it was, or absent. An absent count is zero.
fn has_lost(live: &Value, desired: Option<&Value>) -> bool {
    let Some(fields) = live.as_object() else { return false };
    fields.iter().any(|(field, live)| {
        let desired = desired.and_then(|desired| desired.get(field));
        if USABLE.contains(&field.as_str()) {
            live.as_i64() > desired.and_then(Value::as_i64).or(Some(0))
        } else {
            has_lost(live, desired)
        }
    })
}

fn without_details(status: &Value) -> Value {
    let mut status = status.clone();
    let Some(fields) = status.as_object_mut() else { return status };
    fields.retain(|field, _| !COUNTS.contains(&field.as_str()));
    let conditions = fields.get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        condition.remove("message");
    }
    status
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{carry_transition_times, is_urgent, only_begins, same_status};

    #[test]
    fn counts_and_wording_can_wait_and_nothing_else() {
        let live = json!({ "state": "pending", "observedGeneration": 1, "components": { "a": { "replicas": 1 } },
            "conditions": [{ "type": "Ready", "status": "False", "reason": "r", "message": "0 of 1" }] });
        let with = |edit: fn(&mut Value)| {
            let mut other = live.clone();
            edit(&mut other);
            is_urgent(&live, &other)
        };
        assert!(!with(|s| s["components"]["a"]["replicas"] = json!(2)));
        assert!(!with(|s| s["conditions"][0]["message"] = json!("1 of 1")));
        assert!(!with(|s| s["endpoints"] = json!([{ "podName": "p", "ready": true }])));
        assert!(!with(|s| s["readyEndpoints"] = json!(1)));
        assert!(with(|s| s["conditions"][0]["status"] = json!("True")));
        assert!(with(|s| s["conditions"][0]["reason"] = json!("other")));
        assert!(with(|s| s["state"] = json!("successful")));
        assert!(with(|s| s["observedGeneration"] = json!(2)));
        assert!(is_urgent(&Value::Null, &live), "the first status is never delayed");
    }

    #[test]
    fn a_first_word_can_wait_if_it_says_nothing_but_that_work_has_begun() {
        let working = |status: &str, reason: &str| {
            let ready = json!({ "type": "Ready", "status": "False", "reason": "r" });
            json!({ "conditions": [ready, { "type": "Reconciling", "status": status, "reason": reason }] })
        };
        let begun = working("True", "Progressing");
        assert!(only_begins(&Value::Null, &begun));
        assert!(only_begins(&json!({ "state": "initializing" }), &begun), "a default is no status");
        assert!(!only_begins(&Value::Null, &working("False", "Residual")), "it serves, or is stuck");
        assert!(!only_begins(&Value::Null, &working("True", "ImagePullFailed")), "a user has to act");
        assert!(!only_begins(&begun, &begun), "it is not the first");
        assert!(!only_begins(&Value::Null, &json!({})));
    }

    #[test]
    fn lost_replicas_are_urgent_and_gained_ones_are_not() {
        let counts = |counts: Value| json!({ "state": "successful", "components": { "a": counts } });
        let two = json!({ "replicas": 2, "readyReplicas": 2, "availableReplicas": 2 });
        for (case, counted, urgent) in [
            ("ready fell", json!({ "replicas": 2, "readyReplicas": 1, "availableReplicas": 2 }), true),
            ("available fell", json!({ "replicas": 2, "readyReplicas": 2, "availableReplicas": 0 }), true),
            ("ready vanished", json!({ "replicas": 2, "availableReplicas": 2 }), true),
            ("both grew", json!({ "replicas": 2, "readyReplicas": 3, "availableReplicas": 3 }), false),
            ("pods are fewer", json!({ "replicas": 1, "readyReplicas": 2, "availableReplicas": 2 }), false),
        ] {
            assert_eq!(is_urgent(&counts(two.clone()), &counts(counted)), urgent, "{case}");
        }
        assert!(is_urgent(&counts(two.clone()), &json!({ "state": "successful" })), "all of them vanished");
        assert!(!is_urgent(&counts(json!({ "readyReplicas": 0 })), &counts(json!({}))), "none is none");
        let one = |ready: Value| json!({ "component": { "readyReplicas": ready } });
        assert!(is_urgent(&one(json!(2)), &one(json!(1))), "a component on its own");
        assert!(!is_urgent(&one(json!(1)), &one(json!(2))));
    }

    fn status(ready: &str, message: &str, time: &str) -> Value {
        let condition = json!({ "type": "Ready", "status": ready, "message": message, "lastTransitionTime": time });
        json!({ "state": "pending", "conditions": [condition] })
    }

    #[test]
    fn only_transition_times_may_differ() {
        let live = status("True", "ok", "t1");
        assert!(same_status(&live, &status("True", "ok", "t2")));
        assert!(!same_status(&live, &status("False", "ok", "t1")));
        assert!(!same_status(&live, &status("True", "other", "t1")));
    }

    #[test]
    fn a_field_that_is_gone_is_a_difference() {
        assert!(!same_status(&json!({ "a": 1, "b": "x" }), &json!({ "a": 1 })));
        assert!(!same_status(&json!({ "list": [1, 2] }), &json!({ "list": [1] })));
    }

    #[test]
    fn empty_and_absent_are_one() {
        assert!(same_status(&json!({ "a": 1 }), &json!({ "a": 1, "b": "", "c": null, "d": {}, "e": 0 })));
        assert!(same_status(&Value::Null, &json!({})));
        assert!(!same_status(&Value::Null, &json!({ "a": 1 })));
    }

    #[test]
    fn a_transition_time_changes_with_the_status_only() {
        let live = status("True", "ok", "t1");
        let mut same = status("True", "new words", "t2");
        carry_transition_times(&mut same, &live);
        assert_eq!(same["conditions"][0]["lastTransitionTime"], "t1");
        let mut flipped = status("False", "ok", "t2");
        carry_transition_times(&mut flipped, &live);
        assert_eq!(flipped["conditions"][0]["lastTransitionTime"], "t2");
    }
}

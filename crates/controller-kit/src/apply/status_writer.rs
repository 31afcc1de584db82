//! Writes the status of the reconciled object, and determines when two statuses are the same and which transition times
//! stay.

use std::time::{Duration, Instant};

use kube::{
    api::{Patch, PatchParams},
    core::ApiResource,
};
use serde_json::{Value, json};
use tracing::{info, warn};

use super::{
    Applier, Difference,
    applier::{address, uid_of},
    diff::is_empty,
    plan::fingerprint,
};
use crate::{
    conditions::{PROGRESSING, RECONCILING},
    metrics::WriteVerb,
    request::{ObjectId, RequestError},
    store::{Packed, StaticKind},
    sync::locked,
};

/// Result of [`Applier::write_status`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusWrite {
    /// The status was written.
    Written,
    /// It has no new content.
    Unchanged,
    /// It can wait this long; more may have changed by then.
    Delayed(Duration),
}

impl Applier {
    /// As [`Applier::patch_status`], but spares most of the intermediate counts that a workload passes through while
    /// its pods come up: what no user waits for is written 500 ms after it came up, or as [`Applier::with_count_delay`]
    /// says, with all that has changed by then. A first status that says only that work has begun waits for as long as
    /// [`Applier::with_initial_status_delay`] says: what is ready by then needs one status and not two.
    ///
    /// # Errors
    /// As [`Applier::patch_status`].
    pub async fn write_status<K: StaticKind>(
        &self,
        object: &Packed<K>,
        status: &Value,
    ) -> Result<StatusWrite, RequestError> {
        let id = ObjectId::of(object);
        let uid = uid_of(&id, &object.metadata)?;
        let (live, desired) = (object.status(), self.storable(&id, status));
        let delay = match urgency(&live, &desired) {
            Urgency::Begins => self.initial_status_delay,
            Urgency::Counts => self.count_delay,
            Urgency::Immediate => Duration::ZERO,
            Urgency::Same => {
                locked(&self.memory).status_is_current(uid);
                Duration::ZERO
            }
        };
        if !delay.is_zero() {
            let held = locked(&self.memory).held_back(uid, Instant::now());
            if let Some(rest) = delay.checked_sub(held).filter(|rest| !rest.is_zero()) {
                return Ok(StatusWrite::Delayed(rest));
            }
        }
        Ok(if self.patch_status(object, status).await? { StatusWrite::Written } else { StatusWrite::Unchanged })
    }

    /// Writes the whole status of the reconciled object, if it says anything new. Transition times stay where the
    /// status of a condition stays. Returns whether something was written.
    ///
    /// Fields that the served CustomResourceDefinition does not declare, because it is another operator's or an older
    /// one, are left out: they do not keep the rest from being written. [`Applier::cannot_store`] says which.
    ///
    /// # Errors
    /// The API server rejects the request, or does not answer. An object that is gone, or replaced by another of its
    /// name, is no error: there is nothing left to report.
    pub async fn patch_status<K: StaticKind>(&self, object: &Packed<K>, status: &Value) -> Result<bool, RequestError> {
        let (resource, id) = address(object);
        let uid = uid_of(&id, &object.metadata)?;
        let live = object.status();
        let mut desired = self.storable(&id, status);
        carry_transition_times(&mut desired, &live);
        let left = status_difference(&live, &desired);
        if left.is_empty() || locked(&self.memory).is_residual(uid, &id, &fingerprint(&desired), &left) {
            self.metrics.write_skipped(&id.kind);
            return Ok(false);
        }
        // A write is due anyway: the moment to see whether what is missing has come.
        if locked(&self.undeclared).try_again(&id, Instant::now()) {
            desired = status.clone();
            carry_transition_times(&mut desired, &live);
        }
        let params = PatchParams::apply(&self.status_manager()).force();
        // Each turn takes at least one field away.
        let answer = loop {
            let body = json!({
                "apiVersion": resource.api_version, "kind": resource.kind,
                "metadata": { "name": id.name, "namespace": id.namespace, "uid": uid },
                "status": desired,
            });
            let patch = Patch::Apply(&body);
            match self.patch("write the status of", (&resource, &id), WriteVerb::Status, &params, &patch).await {
                Ok(answer) => break answer,
                Err(error) if self.goes_without(&id, &error, &mut desired) => {
                    if same_status(&live, &desired) {
                        return Ok(false);
                    }
                }
                Err(error) if error.is_not_found() || matches!(error, RequestError::Changed { .. }) => {
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        };
        let declared = locked(&self.undeclared).accepted(&id, &desired);
        if !declared.is_empty() {
            info!(
                kind = id.kind,
                fields = declared.join(" "),
                "the CustomResourceDefinition has status fields it lacked"
            );
        }
        self.wrote_status(uid, &id, &answer);
        let answer = match self.remove_old_status(&resource, &id, uid, &desired, answer).await {
            // What changed the object makes the cache show it, and the next reconcile tries again.
            Err(RequestError::Changed { .. }) => return Ok(true),
            answer => answer?,
        };
        self.wrote_status(uid, &id, &answer);
        let left = status_difference(&answer["status"], &desired);
        locked(&self.memory).record_residual(uid, &id, &fingerprint(&desired), &left);
        Ok(true)
    }

    fn wrote_status(&self, uid: &str, id: &ObjectId, answer: &Value) {
        locked(&self.memory).status_is_current(uid);
        self.wrote(uid, id, answer);
    }

    /// True if the API server has refused this field of the status of this kind as not declared, so that statuses go
    /// without it. What such a field is to remember needs another place.
    pub fn cannot_store<K: StaticKind>(&self, field: &str) -> bool {
        let resource = ApiResource::erase::<K>(&K::DynamicType::default());
        locked(&self.undeclared).lacks(&ObjectId::new(&resource, "", ""), field)
    }

    /// The status without the fields that are known to be refused.
    fn storable(&self, id: &ObjectId, status: &Value) -> Value {
        let mut desired = status.clone();
        locked(&self.undeclared).strip(id, &mut desired);
        desired
    }

    /// Takes the fields off a status that the API server has just refused as not declared. False if it refused it for
    /// anything else.
    fn goes_without(&self, id: &ObjectId, error: &RequestError, desired: &mut Value) -> bool {
        let refused = locked(&self.undeclared).refused(id, error.answer(), desired, Instant::now());
        if !refused.news.is_empty() {
            let fields = refused.news.join(" ");
            warn!(
                kind = id.kind,
                fields, "the CustomResourceDefinition lacks status fields; apply those of this operator"
            );
        }
        refused.taken
    }
}

/// A status is compared as a whole: one difference or none.
fn status_difference(live: &Value, desired: &Value) -> Vec<Difference> {
    if same_status(live, desired) {
        return Vec::new();
    }
    vec![Difference { path: "status".to_owned(), live: Some(live.clone()) }]
}

/// True if writing `desired` over `live` would change nothing but transition times. Both may be null.
///
/// Unlike spec fields, status fields are all ours: one that is only live is a difference.
pub(super) fn same_status(live: &Value, desired: &Value) -> bool {
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
fn carry_transition_times(desired: &mut Value, live: &Value) {
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

/// What a status has to say that the live one does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Urgency {
    /// Nothing.
    Same,
    /// Only that work has begun.
    Begins,
    /// Other counts or other wording.
    Counts,
    /// What a user may wait for.
    Immediate,
}

fn urgency(live: &Value, desired: &Value) -> Urgency {
    if only_begins(live, desired) {
        Urgency::Begins
    } else if same_status(live, desired) {
        Urgency::Same
    } else if is_urgent(live, desired) {
        Urgency::Immediate
    } else {
        Urgency::Counts
    }
}

/// True if `desired` says something new that a user may wait for: a condition that turns, another state, a newer
/// generation, fewer usable replicas. Other counts, growth, and wording alone are not urgent.
fn is_urgent(live: &Value, desired: &Value) -> bool {
    let lost = COUNTS.iter().any(|field| live.get(*field).is_some_and(|counts| has_lost(counts, desired.get(*field))));
    lost || !same_status(&without_details(live), &without_details(desired))
}

/// Whether `desired` is the first status of an object and contains only that work has begun.
fn only_begins(live: &Value, desired: &Value) -> bool {
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

    use super::{Urgency, carry_transition_times, is_urgent, only_begins, same_status, urgency};

    #[test]
    fn the_urgency_of_a_status_is_that_of_what_is_new() {
        let state = |ready: &str, reason: &str, replicas: u8| {
            let ready = json!({ "type": "Ready", "status": ready, "reason": "r" });
            let working = json!({ "type": "Reconciling", "status": "True", "reason": reason });
            json!({ "conditions": [ready, working], "components": { "a": { "replicas": replicas } } })
        };
        let live = state("False", "Progressing", 1);
        assert_eq!(urgency(&Value::Null, &live), Urgency::Begins);
        assert_eq!(urgency(&live, &live), Urgency::Same);
        assert_eq!(urgency(&live, &state("False", "Progressing", 2)), Urgency::Counts);
        assert_eq!(urgency(&live, &state("True", "Progressing", 2)), Urgency::Immediate);
        assert_eq!(urgency(&Value::Null, &state("False", "ImagePullFailed", 1)), Urgency::Immediate);
    }

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

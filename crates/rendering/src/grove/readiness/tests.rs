//! Tests of the meaning of Grove's status.

use serde_json::{Value, json};

use super::*;

fn clique(status: Value) -> GroveReadiness {
    let live = json!({ "metadata": { "name": "g-0-w", "generation": 2 }, "spec": { "replicas": 3 }, "status": status });
    clique_readiness("g-0-w", Some(&serde_json::from_value(live).unwrap()))
}

fn group(status: Value) -> GroveReadiness {
    let live = json!({ "metadata": { "name": "g-0-w", "generation": 2 }, "spec": { "replicas": 3 }, "status": status });
    group_readiness("g-0-w", Some(&serde_json::from_value(live).unwrap()))
}

fn class(readiness: GroveReadiness) -> Option<Classification> {
    readiness.not_ready.map(|(classification, _)| classification)
}

fn with(mut status: Value, more: Value) -> Value {
    status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    status
}

fn condition(type_: &str, status: &str, reason: &str) -> Value {
    json!({ "conditions": [{ "type": type_, "status": status, "reason": reason, "message": "no room",
        "lastTransitionTime": "2026-01-01T00:00:00Z" }] })
}

#[test]
fn the_first_obstacle_names_the_state() {
    use Classification::{Capacity, Gated, NotLookedAt, Pods, Updating};
    let full = json!({ "observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3,
        "availableReplicas": 3 });
    let waiting = json!({ "observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "scheduledReplicas": 3 });
    let unscheduled = condition(POD_CLIQUE_SCHEDULED, "False", INSUFFICIENT_SCHEDULED_PODS);
    let table = [
        (json!({}), Some(NotLookedAt), Some(NotLookedAt)),
        (json!({ "observedGeneration": 1 }), Some(NotLookedAt), Some(NotLookedAt)),
        (full.clone(), None, None),
        (with(full.clone(), unscheduled.clone()), None, None),
        (with(waiting.clone(), json!({ "scheduleGatedReplicas": 1 })), Some(Gated), Some(Pods)),
        (with(waiting.clone(), unscheduled), Some(Capacity), Some(Pods)),
        (
            with(waiting.clone(), condition(MIN_AVAILABLE_BREACHED, "False", INSUFFICIENT_SCHEDULED_GROUP_REPLICAS)),
            Some(Pods),
            Some(Capacity),
        ),
        (with(waiting.clone(), json!({ "scheduledReplicas": 2 })), Some(Capacity), Some(Capacity)),
        (with(waiting.clone(), json!({ "updatedReplicas": 1 })), Some(Updating), Some(Updating)),
        (with(waiting.clone(), json!({ "replicas": 4 })), Some(Updating), Some(Updating)),
        (waiting, Some(Pods), Some(Pods)),
    ];
    for (status, of_clique, of_group) in table {
        assert_eq!(class(clique(status.clone())), of_clique, "{status}");
        assert_eq!(class(group(status.clone())), of_group, "{status}");
    }
}

#[test]
fn nothing_expected_is_ready_and_nothing_made_is_not() {
    let live =
        json!({ "metadata": { "generation": 1 }, "spec": { "replicas": 0 }, "status": { "observedGeneration": 1 } });
    assert_eq!(clique_readiness("c", Some(&serde_json::from_value(live).unwrap())).not_ready, None);
    let missing = clique_readiness("c", None);
    assert_eq!(missing.replicas.component_names, ["c"]);
    assert_eq!(missing.not_ready.unwrap().1, "Grove has not made PodClique c yet");
}

/// Grove writes the observed generation last, after a rolling update has ended. Defect: during every rollout, and for
/// ever in one that could not end, the message was that Grove had not observed the latest spec.
#[test]
fn an_update_in_progress_is_reported_although_the_observed_generation_lags() {
    let rolling = json!({ "observedGeneration": 1, "replicas": 3, "updatedReplicas": 1, "readyReplicas": 2,
        "availableReplicas": 2, "scheduledReplicas": 2,
        "updateProgress": { "updateStartedAt": "2026-01-01T00:00:00Z", "podCliqueSetGenerationHash": "h",
            "podTemplateHash": "t" } });
    let readiness = clique(rolling.clone());
    assert!(readiness.lacks_pods, "its pods are worth reading");
    let (classification, message) = readiness.not_ready.unwrap();
    assert_eq!(classification, Classification::Updating);
    assert_eq!(message, "1 of 3 pods have the current template, 2 are ready");
    let (_, message) = group(rolling.clone()).not_ready.unwrap();
    assert_eq!(message, "1 of 3 replicas have the current template, 2 are available");

    let ended = json!({ "updateProgress": { "updateEndedAt": "2026-01-01T00:00:00Z" } });
    let behind = clique(with(rolling, ended));
    assert_eq!(class(behind.clone()), Some(Classification::NotLookedAt), "an edit after the last update");
    assert!(behind.lacks_pods, "pods that are not ready are worth reading whatever Grove has seen");
    let full = json!({ "observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3 });
    assert!(!clique(full).lacks_pods);
    assert!(!clique_readiness("c", None).lacks_pods, "there are none to read");
}

/// Defect: a component scaled to zero was ready while its pods still held their GPUs.
#[test]
fn zero_replicas_are_ready_when_no_pod_is_left() {
    let at_zero = |status: Value| {
        let live = json!({ "metadata": { "generation": 1 }, "spec": { "replicas": 0 }, "status": status });
        clique_readiness("c", Some(&serde_json::from_value(live).unwrap())).not_ready
    };
    assert_eq!(at_zero(json!({ "observedGeneration": 1 })), None);
    for count in ["replicas", "readyReplicas", "updatedReplicas"] {
        let (classification, message) = at_zero(json!({ "observedGeneration": 1, count: 2 })).unwrap();
        let expected = (Classification::Updating, "2 pods that are no longer desired are still there");
        assert_eq!((classification, message.as_str()), expected, "{count}");
    }
}

#[test]
fn counts_are_reported_as_the_kind_has_them() {
    let counts = json!({ "observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "scheduledReplicas": 1,
        "readyReplicas": 1, "availableReplicas": 2 });
    let (one, many) = (clique(counts.clone()).replicas, group(counts).replicas);
    assert_eq!((one.ready_replicas, one.available_replicas, one.scheduled_replicas), (Some(1), None, Some(1)));
    assert_eq!((many.ready_replicas, many.available_replicas, many.scheduled_replicas), (None, Some(2), Some(1)));
    assert_eq!(clique(json!({})).replicas.scheduled_replicas, None, "unknown until Grove has observed the spec");
}

#[test]
fn groves_errors_are_passed_on() {
    let status =
        json!({ "observedGeneration": 2, "lastErrors": [{ "code": "ERR_X", "description": "quota exceeded" }] });
    let (_, message) = clique(status).not_ready.unwrap();
    assert_eq!(message, "0 of 3 pods have the current template, 0 are ready; ERR_X: quota exceeded");
}

#[test]
fn a_revision_is_complete_when_all_pods_follow_it_and_the_update_has_ended() {
    let full = json!({ "observedGeneration": 2, "replicas": 3, "updatedReplicas": 3,
        "currentPodCliqueSetGenerationHash": "h" });
    assert_eq!(clique(full.clone()).revision.complete.as_deref(), Some("h"));
    let running = with(full.clone(), json!({ "updateProgress": {} }));
    assert_eq!(clique(running).revision.complete, None);
    let ended = with(full.clone(), json!({ "updateProgress": { "updateEndedAt": "2026-01-01T00:00:00Z" } }));
    assert_eq!(group(ended).revision.complete.as_deref(), Some("h"));
    assert_eq!(clique(with(full, json!({ "updatedReplicas": 2 }))).revision.complete, None);
}

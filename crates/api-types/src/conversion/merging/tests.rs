//! Notes: when they are written, what they do, and what they cannot do.

use super::*;

fn graph(service: Value) -> Value {
    json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment",
        "metadata": { "name": "g", "resourceVersion": "7" }, "spec": { "services": { "a": service } },
    })
}

fn up(object: &Value) -> Value {
    convert_for_merge(object.clone(), ApiVersion::V1Beta1).unwrap()
}

fn down(object: &Value) -> Value {
    convert_for_merge(object.clone(), ApiVersion::V1Alpha1).unwrap()
}

fn exposed() -> Value {
    json!({ "replicas": 1, "dynamoNamespace": "n", "ingress": { "enabled": true, "host": "h" } })
}

#[test]
fn an_object_that_is_stored_or_was_read_from_storage_has_no_notes() {
    let mut stored = graph(exposed());
    stored["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_eq!(up(&stored), convert(stored.clone(), ApiVersion::V1Beta1).unwrap());
    let in_merge = up(&graph(exposed()));
    let mut read = in_merge.clone();
    read["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let seen = down(&read);
    assert_eq!(seen["metadata"], json!({ "name": "g" }), "notes are taken off");
    assert_eq!(seen["spec"], stored["spec"]);
    assert_eq!(down(&in_merge)["spec"], stored["spec"]);
}

#[test]
fn what_a_merge_removed_does_not_come_back() {
    let mut less = graph(exposed());
    less["spec"]["services"]["a"]["ingress"].as_object_mut().unwrap().remove("host");
    let (mut merged, pruned) = (up(&graph(exposed())), up(&less));
    let kept = annotations(&pruned).unwrap().clone();
    annotations_mut(&mut merged).unwrap().retain(|key, _| kept.contains_key(key));
    assert_eq!(down(&merged)["spec"], less["spec"]);
}

/// The sum counts, not the single annotation.
#[test]
fn annotations_that_the_api_server_would_refuse_are_not_written() {
    let long = |bytes: usize| {
        let mut graph = graph(exposed());
        graph["spec"]["services"]["a"]["extraPodSpec"] = json!({ "mainContainer": { "args": ["x".repeat(bytes)] } });
        graph
    };
    assert!(annotations(&up(&long(100_000))).unwrap().contains_key(NOTE));
    let large = up(&long(ANNOTATION_BYTES));
    assert!(bytes(annotations(&large).unwrap()) <= ANNOTATION_BYTES);
    assert!(!annotations(&large).unwrap().contains_key(NOTE));
    assert_eq!(down(&large)["spec"], long(ANNOTATION_BYTES)["spec"]);
}

/// Whoever may write an object may write its annotations.
#[test]
fn notes_written_by_hand_never_change_what_the_object_says() {
    let live = up(&graph(json!({ "replicas": 1, "envs": [{ "name": "A", "value": "1" }] })));
    let body = live["spec"].clone();
    for note in [
        "",
        "7",
        "{}",
        r#"{"body":{"spec":7,"status":[]}}"#,
        r#"{"body":{"spec":{"services":{"a":{"replicas":9}}}}}"#,
        r#"{"body":{"spec":{"services":{"a":{"replicas":1,"ingress":{"enabled":true}}}}}}"#,
        r#"{"body":{"spec":{"services":{"a":{"replicas":1},"b":{}}}},"annotations":{"nvidia.com/dgd-spec":7}}"#,
    ] {
        let mut odd = live.clone();
        odd["metadata"]["annotations"] = json!({ NOTE: note, "nvidia.com/merge.": "x", "nvidia.com/merge.1": "" });
        let seen = down(&odd);
        assert_eq!(up(&seen)["spec"], body, "{note}");
    }
}

//! Notes: when they are written, what they do, and what they cannot do.

use super::*;
use crate::conversion::convert;

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
    stored["metadata"] = json!({ "name": "g", "uid": "u" });
    assert_eq!(up(&stored), convert(stored.clone(), ApiVersion::V1Beta1).unwrap());
    let in_merge = up(&graph(exposed()));
    let mut read = in_merge.clone();
    read["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    read["metadata"]["uid"] = json!("u");
    let seen = down(&read);
    assert_eq!(seen["metadata"], json!({ "name": "g", "uid": "u" }), "notes are taken off");
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

/// A user who may write an object may write its annotations.
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

/// Defect: a part of a request got `autoApply`, `useMocker` and more from its conversion, and these looked like fields
/// that a user had set.
#[test]
fn a_part_of_a_request_converts_to_a_part() {
    for (version, spec, converted) in [
        ("v1alpha1", json!({}), json!({})),
        ("v1alpha1", json!({ "model": "m" }), json!({ "model": "m" })),
        ("v1alpha1", json!({ "autoApply": true }), json!({ "autoApply": true })),
        (
            "v1alpha1",
            json!({ "profilingConfig": { "config": { "sla": { "isl": 1 } } } }),
            json!({ "workload": { "isl": 1 } }),
        ),
        ("v1beta1", json!({ "model": "m" }), json!({ "model": "m" })),
        ("v1beta1", json!({ "autoApply": false }), json!({ "autoApply": false })),
        ("v1beta1", json!({ "features": { "mocker": { "enabled": false } } }), json!({ "useMocker": false })),
        ("v1beta1", json!({ "image": "i" }), json!({ "profilingConfig": { "profilerImage": "i" } })),
    ] {
        let part = json!({
            "apiVersion": format!("nvidia.com/{version}"), "kind": "DynamoGraphDeploymentRequest",
            "metadata": { "name": "r", "resourceVersion": "7" }, "spec": spec, "status": {},
        });
        let seen = if version == "v1alpha1" { up(&part) } else { down(&part) };
        assert_eq!((&seen["spec"], &seen["status"]), (&converted, &json!({})), "{version} {spec}");
        let back = if version == "v1alpha1" { down(&seen) } else { up(&seen) };
        assert_eq!(back["spec"], spec, "{version}");
    }
}

/// A field that a merge in one version removed and the other version's manager keeps: the value of that manager stays.
#[test]
fn a_field_of_a_request_that_another_manager_keeps_has_its_value() {
    let request = |spec: Value| {
        json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentRequest",
            "metadata": { "name": "r", "resourceVersion": "7" }, "spec": spec,
        })
    };
    let whole =
        json!({ "model": "m", "autoApply": false, "image": "i", "features": { "mocker": { "enabled": true } } });
    for (field, kept) in [("autoApply", "autoApply"), ("features", "useMocker"), ("image", "profilingConfig")] {
        let mut less = whole.clone();
        less.as_object_mut().unwrap().remove(field);
        let (mut merged, pruned) = (down(&request(whole.clone())), down(&request(less)));
        let notes = annotations(&pruned).unwrap().clone();
        annotations_mut(&mut merged).unwrap().retain(|key, _| notes.contains_key(key));
        assert!(merged["spec"].get(kept).is_some());
        assert_eq!(up(&merged)["spec"], whole, "the field belongs to a manager of v1alpha1");
    }
}

/// Defect: the API server takes name and version off an object when its manager owns labels or annotations. What only
/// v1alpha1 can say then stayed after its removal from the manifest.
#[test]
fn what_a_manager_of_labels_removed_does_not_come_back() {
    let mut whole = graph(exposed());
    whole["metadata"]["uid"] = json!("u");
    let mut pruned = graph(json!({ "replicas": 1, "dynamoNamespace": "n" }));
    pruned["metadata"] = json!({ "name": "g" });
    let (mut merged, part) = (up(&whole), up(&pruned));
    let notes = annotations(&part).unwrap().clone();
    annotations_mut(&mut merged).unwrap().retain(|key, _| notes.contains_key(key));
    for key in ["uid", "resourceVersion"] {
        merged["metadata"].as_object_mut().unwrap().remove(key);
    }
    assert_eq!(down(&merged)["spec"], pruned["spec"]);
    assert_eq!(down(&merged)["metadata"], json!({ "name": "g" }));
}

/// The names of image pull secrets default to the empty text, and a list may have one such entry. Without that default,
/// the entries of the list had no fields: a removed one came back, or cost a field of another list its place.
#[test]
fn an_image_pull_secret_without_a_name_goes_by_its_default() {
    let component = |version: ApiVersion, spec: &Value| {
        json!({
            "apiVersion": version.api_version(), "kind": "DynamoComponentDeployment",
            "metadata": { "name": "c", "resourceVersion": "7" }, "spec": spec,
        })
    };
    let alpha = |a: Value, secrets: Value| {
        let containers = json!([a, { "name": "main" }]);
        let spec = json!({ "extraPodSpec": { "containers": containers, "imagePullSecrets": secrets } });
        component(ApiVersion::V1Alpha1, &spec)
    };
    let beta = |secrets: Value| {
        component(ApiVersion::V1Beta1, &json!({ "podTemplate": { "spec": { "imagePullSecrets": secrets } } }))
    };
    // As a merge takes its fields away: the whole object, what is left of it, and the empty places that are null.
    for (whole, left, nulls) in [
        (
            alpha(json!({ "name": "a", "resources": { "requests": {} } }), json!([{ "name": "s" }, {}])),
            alpha(json!({ "name": "a", "resources": null }), json!([{}])),
            "/spec/podTemplate/spec/containers/1/resources",
        ),
        (beta(json!([{}])), beta(Value::Null), "/spec/extraPodSpec/imagePullSecrets"),
    ] {
        let convert = |object: &Value| match object["apiVersion"].as_str() {
            Some("nvidia.com/v1alpha1") => up(object),
            _ => down(object),
        };
        let (mut merged, pruned) = (convert(&whole), convert(&left));
        let notes = annotations(&pruned).unwrap().clone();
        annotations_mut(&mut merged).unwrap().retain(|key, _| notes.contains_key(key));
        merged["spec"] = pruned["spec"].clone();
        if let Some(place) = merged.pointer_mut(nulls) {
            *place = Value::Null;
        }
        assert_eq!(convert(&merged)["spec"], left["spec"]);
    }
}

//! Rules of conversion, one table row each, and the laws that hold for every object.

use serde_json::{Value, json};

use super::{ApiVersion, ConversionError, convert};
use crate::v1beta1::DynamoGraphDeploymentScalingAdapterStatus;

mod components;
mod edits;
mod graphs;
mod long;
mod requests;

const SPEC: &str = "nvidia.com/dgd-spec";

fn object(version: ApiVersion, kind: &str, spec: &Value) -> Value {
    json!({ "apiVersion": version.api_version(), "kind": kind, "metadata": { "name": "g" }, "spec": spec })
}

fn to(version: ApiVersion, object: &Value) -> Value {
    convert(object.clone(), version).unwrap()
}

fn up(object: &Value) -> Value {
    to(ApiVersion::V1Beta1, object)
}

fn down(object: &Value) -> Value {
    to(ApiVersion::V1Alpha1, object)
}

/// A graph with one service, in v1alpha1.
fn alpha(service: &Value) -> Value {
    object(ApiVersion::V1Alpha1, "DynamoGraphDeployment", &json!({ "services": { "a": service } }))
}

/// A graph with one component, in v1beta1.
fn beta(mut component: Value) -> Value {
    component["name"] = json!("a");
    object(ApiVersion::V1Beta1, "DynamoGraphDeployment", &json!({ "components": [component] }))
}

fn component(graph: &Value) -> Value {
    let mut component = graph["spec"]["components"][0].clone();
    component.as_object_mut().unwrap().remove("name");
    component
}

#[track_caller]
fn assert_comes_back(object: &Value) {
    type Convert = fn(&Value) -> Value;
    let (there, back): (Convert, Convert) =
        if object["apiVersion"] == ApiVersion::V1Alpha1.api_version() { (up, down) } else { (down, up) };
    let seen = there(object);
    assert_eq!(back(&seen), *object, "seen as {seen:#}");
    assert_eq!(there(&back(&seen)), seen, "the second time is as the first");
}

#[test]
fn what_cannot_be_converted() {
    let to = ApiVersion::V1Beta1;
    for (object, error) in [
        (json!([]), ConversionError::NotAnObject),
        (json!({}), ConversionError::Version { given: String::new() }),
        (json!({ "apiVersion": "nvidia.com/v1" }), ConversionError::Version { given: "nvidia.com/v1".to_owned() }),
        (json!({ "apiVersion": "nvidia.com/v1alpha1" }), ConversionError::Kind { given: String::new() }),
        (
            json!({ "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoModel" }),
            ConversionError::Kind { given: "DynamoModel".to_owned() },
        ),
        (
            json!({ "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "metadata": 1 }),
            ConversionError::Metadata,
        ),
    ] {
        assert_eq!(convert(object, to), Err(error));
    }
}

#[test]
fn the_same_version_changes_nothing() {
    let graph = json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": { "annotations": { SPEC: "anything" } }, "spec": 7,
    });
    assert_eq!(convert(graph.clone(), ApiVersion::V1Beta1), Ok(graph));
}

#[test]
fn partial_objects_of_every_kind() {
    let kinds = [
        "Deployment",
        "ComponentDeployment",
        "GraphDeployment",
        "GraphDeploymentRequest",
        "GraphDeploymentScalingAdapter",
    ];
    for kind in &kinds[1..] {
        for version in [ApiVersion::V1Alpha1, ApiVersion::V1Beta1] {
            for rest in [
                json!({}),
                json!({ "spec": {} }),
                json!({ "status": {} }),
                json!({ "spec": null, "status": null }),
                json!({ "spec": "text", "status": [] }),
                json!({ "spec": { "services": {}, "components": [] } }),
                json!({ "spec": { "services": [], "components": {} } }),
                json!({ "spec": { "services": { "a": {}, "b": null, "c": 1 } } }),
                json!({ "spec": { "components": [{}, null, { "name": "a" }, { "name": "a" }] } }),
                json!({ "spec": { "components": [{ "name": "b" }, { "name": "a" }], "unknown": { "x": [1] } } }),
                json!({ "spec": { "dgdRef": {}, "replicas": 1 } }),
                json!({ "spec": { "dgdRef": { "serviceName": "a", "componentName": "b" } } }),
                json!({ "status": { "state": "", "services": { "a": {}, "b": null }, "components": { "a": {} } } }),
            ] {
                let mut object =
                    json!({ "apiVersion": version.api_version(), "kind": format!("Dynamo{kind}"), "metadata": {} });
                object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
                assert_comes_back(&object);
                let mut bare = object.clone();
                bare.as_object_mut().unwrap().remove("metadata");
                assert_eq!(
                    up(&down(&bare))["metadata"],
                    if version == ApiVersion::V1Beta1 { json!({}) } else { up(&object)["metadata"].clone() }
                );
            }
        }
    }
}

#[test]
fn what_cannot_be_read_is_ignored_and_removed() {
    let fresh = alpha(&json!({ "replicas": 1 }));
    let clean = up(&fresh);
    for garbage in [
        "",
        "{",
        "null",
        "[]",
        "7",
        r#"{"spec":7}"#,
        r#"{"spec":{"services":7,"components":{"a":1}}}"#,
        r#"{"version":1,"spec":{},"exact":[{},{"path":7},{"path":"x"}],"rawJSON":7}"#,
    ] {
        let mut dirty = clean.clone();
        dirty["metadata"]["annotations"] = json!({ SPEC: garbage, "nvidia.com/dgd-status": garbage, "mine": "stays" });
        let seen = down(&dirty);
        assert_eq!(seen["spec"], fresh["spec"], "{garbage}");
        assert_eq!(seen["metadata"]["annotations"], json!({ "mine": "stays" }), "{garbage}");
    }
}

#[test]
fn the_scaling_adapter_only_renames() {
    let spec = |key: &str| json!({ "replicas": 2, "dgdRef": { "name": "g", key: "w" } });
    let kind = "DynamoGraphDeploymentScalingAdapter";
    let alpha = object(ApiVersion::V1Alpha1, kind, &spec("serviceName"));
    assert_eq!(up(&alpha), object(ApiVersion::V1Beta1, kind, &spec("componentName")));
    assert_comes_back(&alpha);
}

/// Clients of v1alpha1 leave a count of zero out of the status. In v1beta1, which is stored and read, it is required.
#[test]
fn a_scaling_adapter_without_a_count_has_no_replicas() {
    let adapter = |version: ApiVersion, status: &Value| {
        let mut adapter = object(version, "DynamoGraphDeploymentScalingAdapter", &json!({}));
        adapter["status"] = status.clone();
        adapter
    };
    let (alpha, beta) = (ApiVersion::V1Alpha1, ApiVersion::V1Beta1);
    for (status, stored) in [
        (json!({}), json!({ "replicas": 0 })),
        (json!({ "selector": "a=b" }), json!({ "replicas": 0, "selector": "a=b" })),
        (json!({ "replicas": 3 }), json!({ "replicas": 3 })),
    ] {
        assert_eq!(up(&adapter(alpha, &status)), adapter(beta, &stored), "nothing is kept beside it");
        assert_eq!(down(&adapter(beta, &stored)), adapter(alpha, &status));
        assert_comes_back(&adapter(alpha, &status));
        assert_comes_back(&adapter(beta, &status));
    }
    assert_comes_back(&adapter(alpha, &json!({ "replicas": 0 })));
    assert_comes_back(&adapter(alpha, &json!({ "replicas": null })));
    // What was stored before, or by another conversion, is read all the same.
    let status = serde_json::from_value::<DynamoGraphDeploymentScalingAdapterStatus>(json!({ "selector": "a=b" }));
    assert_eq!(status.unwrap().replicas, 0);
}

/// Found by fuzzing: read and written once more, this number was another one.
#[test]
fn a_number_is_the_same_however_often_it_is_read_and_written() {
    let once: serde_json::Value =
        serde_json::from_str("2011111111111111111111111111111111111111111111111111110.0").unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&once.to_string()).unwrap(), once);
}

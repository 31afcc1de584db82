//! Tests of what caches keep.

use api_types::{
    labels,
    v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment},
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::*;
use crate::store::Packed;

fn cached(rule: KeepRule, object: &Value) -> Packed<Deployment> {
    Packed::<DynamicObject>::from_value(object.clone()).unwrap().kept(rule).of_kind()
}

fn of(owner: Option<&str>, annotation: Option<&str>) -> Value {
    let owner = owner.map(|kind| {
        json!([{ "apiVersion": "nvidia.com/v1beta1", "kind": kind, "name": "o", "uid": "o", "controller": true }])
    });
    let labels = json!({ labels::GRAPH: "o", "app": "x", "example.com/own": "y" });
    json!({
        "metadata": {
            "name": "d", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 2, "labels": labels,
            "annotations": annotation.map(|key| json!({ key: "1", "example.com/own": "y" })), "ownerReferences": owner,
        },
        "spec": { "replicas": 2, "selector": {}, "template": {} },
        "status": { "readyReplicas": 1 },
    })
}

#[test]
fn content_is_kept_of_our_own_objects_only() {
    let (graph, component) = (Some("DynamoGraphDeployment"), Some("DynamoComponentDeployment"));
    let other = Some("ReplicaSet");
    for (owner, mark, owned, ours) in [
        (graph, None, true, true),
        (component, None, false, false),
        (other, Some(annotations::APPLIED), false, false),
        (None, None, false, false),
        (None, Some(annotations::APPLIED), false, true),
        (None, Some(annotations::LAST_APPLIED_HASH), false, true),
    ] {
        let object = of(owner, mark);
        for (rule, is_kept) in [
            (owned_by::<DynamoGraphDeployment> as KeepRule, owned),
            (owned_or_orphaned::<DynamoGraphDeployment>, ours),
            (templates_of::<DynamoGraphDeployment>, ours),
            (owned_by::<DynamoComponentDeployment>, owner == component),
            (any, true),
        ] {
            let replicas = cached(rule, &object).unpack().unwrap().spec.and_then(|spec| spec.replicas);
            assert_eq!(replicas, is_kept.then_some(2), "{owner:?} {mark:?}");
        }
    }
}

#[test]
fn a_foreign_object_is_known_by_name_version_owner_and_labels_of_ours() {
    let packed = cached(owned_by::<DynamoGraphDeployment>, &of(Some("ReplicaSet"), Some(annotations::APPLIED)));
    let mut expected = of(Some("ReplicaSet"), None);
    expected["apiVersion"] = json!("apps/v1");
    expected["kind"] = json!("Deployment");
    expected["metadata"]["labels"] = json!({ labels::GRAPH: "o", "app": "x" });
    expected["metadata"]["annotations"] = json!({ annotations::APPLIED: "1" });
    expected.as_object_mut().unwrap().retain(|key, _| key != "spec" && key != "status");
    assert_eq!(packed.value(), expected);
}

/// Defect: whatever the API server had taken was kept in memory, up to 1.5 MiB for each object.
#[test]
fn an_object_above_the_limit_keeps_its_status_and_names_its_largest_field() {
    let mut object = of(Some("DynamoGraphDeployment"), None);
    let env = json!([{ "name": "A", "value": "1" }, { "name": "B", "value": "x".repeat(OBJECT_BYTES) }]);
    object["spec"]["template"] = json!({ "spec": { "containers": [{ "name": "main", "env": env }] } });
    let packed = cached(any, &object);
    let message = packed.unpack().unwrap_err().to_string();
    let field = "spec.template.spec.containers[0].env[1].value";
    assert!(message.starts_with(&format!("Deployment n/d cannot be read: {field}: the object has 52")), "{message}");
    assert!(message.ends_with(&format!("bytes, and the limit is {OBJECT_BYTES}; make {field} smaller")), "{message}");
    assert_eq!(packed.status(), json!({ "readyReplicas": 1 }), "conditions keep their transition times");
    assert!(packed.value().to_string().len() < 1000);

    let whole = cached(templates_of::<DynamoGraphDeployment>, &object);
    assert_eq!(whole.unpack().unwrap().spec.unwrap().replicas, Some(2), "etcd is the limit");
    object["spec"]["template"] = json!({});
    assert!(cached(any, &object).unpack().is_ok());
}

#[test]
fn metadata_has_a_limit_of_its_own() {
    let mut object = of(Some("DynamoGraphDeployment"), Some(annotations::APPLIED));
    object["metadata"]["annotations"]["nvidia.com/dgd-spec"] = json!("x".repeat(250 * 1024));
    assert!(cached(any, &object).unpack().is_ok(), "as many annotations as the API server takes");
    for label in 0..4000 {
        object["metadata"]["labels"][format!("example.com/{label}")] = json!("x".repeat(60));
    }
    let packed = cached(any, &object);
    let message = packed.unpack().unwrap_err().to_string();
    assert!(message.contains("metadata: has more than 327680 bytes; make it smaller"), "{message}");
    assert!(packed.value().to_string().len() < 1000);

    let mut metadata = Packed::<ConfigMap>::from_value(object).unwrap().metadata;
    bound_alone(&mut metadata);
    assert_eq!(metadata.uid.as_deref(), Some("u"));
    assert!(weight(&metadata) < REDUCED_BYTES);
}

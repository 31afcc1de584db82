//! Tests of `workload`.

use std::collections::BTreeMap;

use controller_kit::store::Packed;
use k8s_openapi::api::apps::v1::DeploymentSpec;
use serde_json::{Value, json};

use super::*;
use crate::component::model::LiveObject;

#[test]
fn only_a_deployment_with_the_same_selector_is_adopted() {
    let deployment = |value: &str| Deployment {
        spec: Some(DeploymentSpec {
            selector: LabelSelector {
                match_labels: Some(BTreeMap::from([("app".to_owned(), value.to_owned())])),
                match_expressions: None,
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    };
    assert_eq!(selector(&deployment("a")), selector(&deployment("a")));
    assert_ne!(selector(&deployment("a")), selector(&deployment("b")));
}

fn owner(uid: &str, controls: bool) -> Value {
    let mut owner = json!({ "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoComponentDeployment",
        "name": uid, "uid": uid, "blockOwnerDeletion": true });
    if controls {
        owner["controller"] = json!(true);
    }
    owner
}

/// The write that the component `uid` plans for the Service, with these serving components and these owners of the live Service.
fn step(uid: &str, serving: &[&str], live: Option<Value>) -> ChildStep {
    let service = live.map(|owners| {
        let live = json!({ "metadata": { "name": "dynamo-model-x", "namespace": "ns", "uid": "s",
            "ownerReferences": owners } });
        LiveObject::from_packed(&Packed::from_value(live).unwrap()).unwrap()
    });
    let owners = serving.iter().map(|uid| serde_json::from_value(owner(uid, false)).unwrap()).collect();
    plan_model_service(uid, "ns", &ObservedModel { name: "m".to_owned(), service, owners }).unwrap()
}

/// Planned owners of the Service, in the reconcile of a component that serves the model.
fn owners(serving: &[&str], live: Option<Value>) -> Option<Value> {
    owners_of(&step(serving[0], serving, live))
}

fn owners_of(step: &ChildStep) -> Option<Value> {
    match step {
        ChildStep::Apply(desired) => Some(desired.object()["metadata"]["ownerReferences"].clone()),
        ChildStep::Delete | ChildStep::Release(_) | ChildStep::Nothing => None,
    }
}

/// The upstream operator gives it one owner, with which it is deleted although others serve the model.
#[test]
fn every_component_that_serves_the_model_owns_it() {
    let (a, b) = (owner("a", true), owner("b", false));
    assert_eq!(owners(&["a"], None), Some(json!([a])));
    assert_eq!(owners(&["a", "b"], None), Some(json!([a, b])));
    assert_eq!(owners(&["a", "b"], Some(json!([a]))), Some(json!([a, b])), "a new revision joins");
    let second = json!([owner("a", false), owner("b", true)]);
    assert_eq!(owners(&["a", "b"], Some(json!([owner("b", true)]))), Some(second), "the controller owner stays");
}

#[test]
fn a_remaining_owner_becomes_the_controller() {
    assert_eq!(owners(&["b"], Some(json!([owner("b", false)]))), Some(json!([owner("b", true)])));
    let gone = json!([owner("a", true), owner("b", false)]);
    assert_eq!(owners(&["b"], Some(gone)), None, "until the garbage collector has removed the old one");
    assert_eq!(owners(&["b"], Some(json!([owner("graph", true)]))), None, "a graph on Grove keeps its own");
}

#[test]
fn a_component_that_no_longer_serves_the_model_releases_the_service() {
    let live = |controller: &str| json!([owner("a", controller == "a"), owner("b", controller == "b")]);
    let is_released = |serving: &[&str], live| matches!(step("a", serving, Some(live)), ChildStep::Release(_));
    assert!(is_released(&["b"], live("a")), "the controller leaves");
    assert!(is_released(&["b"], live("b")), "another owner leaves");
    assert!(is_released(&[], live("b")), "the controller deletes it");
    let is_deleted = |live| matches!(step("a", &[], Some(live)), ChildStep::Delete);
    assert!(is_deleted(live("a")), "the last one leaves");
    assert!(is_deleted(json!([owner("a", false)])), "its controller is gone");
    assert_eq!(owners_of(&step("b", &["b"], Some(live("a")))), None, "not in the reconcile of another component");
}
